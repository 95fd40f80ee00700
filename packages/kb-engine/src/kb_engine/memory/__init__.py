"""Memory in the simulation: allocators, page tables, known bytes, and pending bytes, which a compute op has yet to
produce.

Design: docs/design/memories.md
"""
