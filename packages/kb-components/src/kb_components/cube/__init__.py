"""The block that takes commands in a cube.

Design: docs/design/launch-and-host.md.
"""
