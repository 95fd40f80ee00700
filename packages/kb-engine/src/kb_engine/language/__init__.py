"""What a kernel sees: `tl`, tensor references and handles."""

from kb_engine.language.concrete import Concrete
from kb_engine.language.epilogue import Epilogue
from kb_engine.language.tl import Language
from kb_engine.program.handles import CompositeHandle, LoadedTensor
from kb_engine.program.tensors import Tensor, TensorRef

__all__ = ["CompositeHandle", "Concrete", "Epilogue", "Language", "LoadedTensor", "Tensor", "TensorRef"]
