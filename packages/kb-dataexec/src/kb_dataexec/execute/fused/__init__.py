"""Fused execution: whole products instead of tiles."""
