"""Guards against work without end: livelocks, grids and loops that take hours, and limits on time and memory.

Design: docs/design/robustness.md
"""
