"""A memory with a cache in front of it."""
