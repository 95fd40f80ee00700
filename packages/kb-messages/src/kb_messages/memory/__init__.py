"""Bytes in memories: physical and virtual addresses, interleaving, and rectangles of bytes.

Design: docs/design/memories.md.
"""
