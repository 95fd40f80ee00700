"""Multicast: one read whose data goes to all blocks that want its bytes, over the tree of their routes.

Design: docs/design/packets-and-multicast.md
"""
