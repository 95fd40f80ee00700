"""High-bandwidth memory: one latency for all, or banks, rows and refresh."""
