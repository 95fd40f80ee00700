"""The kernel as its author wrote it: its lines, its mistakes, and how errors name both."""
