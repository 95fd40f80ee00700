"""Nodes that forward transfers.

Design: docs/design/packets-and-multicast.md and docs/design/link-sharing.md.
"""
