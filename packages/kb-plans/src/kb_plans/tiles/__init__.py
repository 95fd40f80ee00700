"""The choice of tiles: the room and the costs of a PE, estimated times, and the search for the fastest tile.

Design: docs/design/tile-choice.md.
"""
