"""Rules of calls of `tl`: types and shapes of results, operands that are known, and calls that wait for others."""
