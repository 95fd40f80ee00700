"""Saving runs: the run folder of one run, and of each row of a shapes file."""
