"""Rules on how a program does its work: its pieces, its reads, its reductions, its waits, and its tiles."""
