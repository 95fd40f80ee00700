"""Modules that stand for Triton's in a process, and answers that torch gives as if there were a CUDA device."""

from kb_triton.shims.cuda_shim import shim_cuda
from kb_triton.shims.triton_modules import install, is_installed, uninstall

__all__ = ["install", "is_installed", "shim_cuda", "uninstall"]
