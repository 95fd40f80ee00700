"""Tiles that come in periods are simulated for a few periods, and the others follow from these exactly."""
