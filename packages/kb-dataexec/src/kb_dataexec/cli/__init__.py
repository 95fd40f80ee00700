"""`python -m kb_dataexec`: runs, counts, compares and exports op logs, with no other package of kb; see README.md."""
