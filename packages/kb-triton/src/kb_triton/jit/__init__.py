"""What `@jit` makes of a function."""

from kb_triton.jit.compiled import CompiledKernel
from kb_triton.jit.function import JITFunction, jit
from kb_triton.jit.launching import launching
from kb_triton.jit.parameters import UnknownArgumentError

__all__ = ["CompiledKernel", "JITFunction", "UnknownArgumentError", "jit", "launching"]
