"""Blocks inside a processing element.

Design: docs/design/processing-element.md.
"""
