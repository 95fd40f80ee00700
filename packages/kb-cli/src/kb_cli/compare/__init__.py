"""Comparison of two runs: their configurations, and where their time went."""
