"""Lanes of the timeline in tables, queried for any window of time."""
