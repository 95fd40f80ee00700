"""Sweeps: many points of a benchmark and a chip, each simulated once, and figures over all of them."""
