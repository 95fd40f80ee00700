"""What the simulation knows of memory: allocation, page tables, and which bytes a pending operation will write."""
