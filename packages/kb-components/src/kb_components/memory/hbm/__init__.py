"""High-bandwidth memory: a model with one latency, and a model with banks, rows and refresh."""
