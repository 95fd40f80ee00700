"""Races: accesses of two programs of one launch to the same bytes that nothing puts in order.

Design: docs/design/robustness.md
"""
