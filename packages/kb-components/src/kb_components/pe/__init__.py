"""Blocks inside a processing element."""
