"""Runs of users' scripts, whose launches each become a row of a run folder."""
