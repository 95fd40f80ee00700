"""What changed between two runs: their configurations, and where their time went."""
