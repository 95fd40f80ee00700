"""One run of a benchmark: simulation, verification, result and folder."""
