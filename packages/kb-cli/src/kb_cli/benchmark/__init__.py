"""From a benchmark's name or file to its parameters, inputs and expected outputs."""
