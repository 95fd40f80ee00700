"""Observed runs: the schema of the op log, its auxiliary tables, and the events of the trace."""
