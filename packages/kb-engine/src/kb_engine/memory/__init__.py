"""Memory as the simulation knows it: who holds which bytes, page tables, and bytes that are still to be produced."""
