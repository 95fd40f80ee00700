"""Runs of a finished run's benchmark on a chip with other values: "what if" the chip had them."""
