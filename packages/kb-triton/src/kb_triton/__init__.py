"""Unmodified Triton kernels on simulated chips."""

from kb_triton.jit import JITFunction, jit

__version__ = "0.1.0"

__all__ = ["JITFunction", "jit"]
