"""Blocks that a cube has once."""
