"""`@jit`: kernels as objects that can be launched, and the functions that their programs run."""

from kb_triton.jit.arguments import KernelParameter, UnknownArgumentError
from kb_triton.jit.compiled import CompiledKernel, launching, unseen
from kb_triton.jit.function import JITFunction, jit

__all__ = ["CompiledKernel", "JITFunction", "KernelParameter", "UnknownArgumentError", "jit", "launching", "unseen"]
