"""Blocks by Acme."""
