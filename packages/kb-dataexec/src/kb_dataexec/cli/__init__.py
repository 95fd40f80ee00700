"""`python -m kb_dataexec`: runs, counts, compares, sanitizes, converts and exports op logs. See README.md."""
