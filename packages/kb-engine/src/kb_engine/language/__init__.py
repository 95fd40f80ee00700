"""The kernel language `tl`: a call of a kernel becomes commands of the PE.

Design: docs/design/kernel-language.md.
"""

from kb_engine.language.gemm import Epilogue
from kb_engine.language.tl import Language
from kb_engine.program.values.handles import CompositeHandle, LoadedTensor
from kb_engine.program.values.host_values import HostValue
from kb_engine.program.values.tensors import Tensor, TensorRef

__all__ = ["CompositeHandle", "Epilogue", "HostValue", "Language", "LoadedTensor", "Tensor", "TensorRef"]
