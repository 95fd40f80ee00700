"""Sweeps: many points of a benchmark and a chip, each simulated once, and what they say together."""
