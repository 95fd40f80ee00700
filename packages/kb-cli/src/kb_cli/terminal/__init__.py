"""Output of `kb` to a terminal: tables, units and JSON."""
