"""Capsules: one file that repeats a run anywhere."""
