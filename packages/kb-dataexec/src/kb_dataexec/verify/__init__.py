"""Comparison with a reference, tolerances, and the search for the op that computed wrongly."""

from kb_dataexec.verify.compare import compare, default_tolerance, gemm_tolerance

__all__ = [
    "compare",
    "default_tolerance",
    "gemm_tolerance",
]
