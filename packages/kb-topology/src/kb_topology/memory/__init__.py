"""The memories of a chip: the address map, and memories that are interleaved over slices of HBM.

Design: docs/design/memories.md.
"""
