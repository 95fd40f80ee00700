"""Memories that the fabric reaches."""
