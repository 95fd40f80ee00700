"""Plans of commands: loop orders, stages, tiles, lifetimes of buffers, and plans as JSON.

Design: docs/design/plans.md.
"""
