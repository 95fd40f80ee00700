"""Observed runs: the schema of the op log, its auxiliary tables, and the events of the trace.

Design: docs/design/op-log.md and docs/design/trace-and-stuck-runs.md.
"""
