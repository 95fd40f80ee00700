"""Pools: which processes simulate the points of a sweep, on this machine or on others."""
