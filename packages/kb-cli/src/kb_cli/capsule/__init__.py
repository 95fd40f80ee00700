"""Capsules: one file that holds what repeats a run anywhere."""
