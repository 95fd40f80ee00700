"""What `@jit` makes of a function."""

from kb_triton.jit.arguments import UnknownArgumentError
from kb_triton.jit.compiled import CompiledKernel, launching
from kb_triton.jit.function import JITFunction, jit

__all__ = ["CompiledKernel", "JITFunction", "UnknownArgumentError", "jit", "launching"]
