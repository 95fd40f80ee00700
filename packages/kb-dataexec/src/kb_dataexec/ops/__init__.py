"""The three kinds of ops, GEMM, MATH and MEMORY: what each kind does to the bytes of a MemoryStore."""
