"""Memories that the fabric reaches.

Design: docs/design/memories.md.
"""
