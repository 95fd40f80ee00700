"""Which bytes the records of a window read and write, and which write produced the bytes of each read."""
