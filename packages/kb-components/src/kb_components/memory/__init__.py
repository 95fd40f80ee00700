"""Memories behind the fabric."""
