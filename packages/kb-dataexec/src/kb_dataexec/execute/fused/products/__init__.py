"""The GEMM records of a window as few large matrix products."""
