"""Streams of the host on a chip, and the report on streams that are stuck.

Design: docs/design/launch-and-host.md.
"""
