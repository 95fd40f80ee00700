"""Steady state: tiles and programs in periods are simulated for a few periods, and the other periods follow exactly."""
