"""Packets that hold links while they wait, where the buffers of blocks have a size."""
