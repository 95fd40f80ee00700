"""Packets: they hold links while they wait, where the buffers of blocks have a size.

Design: docs/design/packets-and-multicast.md
"""
