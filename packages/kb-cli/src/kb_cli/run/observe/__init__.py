"""Observers of a simulation, and the figures that follow from their counts."""
