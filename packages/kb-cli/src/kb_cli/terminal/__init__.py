"""How `kb` writes to a terminal: tables, units and JSON."""
