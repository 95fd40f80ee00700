"""Runs: simulation, verification, figures, result and folder."""
