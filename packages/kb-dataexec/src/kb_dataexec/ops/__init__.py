"""The three kinds of ops, GEMM, MATH and MEMORY, executed on the bytes of a MemoryStore."""
