"""A benchmark: its file, its parameters, its inputs and its expected outputs."""
