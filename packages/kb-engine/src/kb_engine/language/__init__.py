"""What a kernel sees: `tl`, tensor references and handles."""

from kb_engine.language.epilogue import Epilogue
from kb_engine.language.tl import Language
from kb_engine.program.handles import CompositeHandle, LoadedTensor
from kb_engine.program.known import Known
from kb_engine.program.tensors import Tensor, TensorRef

__all__ = ["CompositeHandle", "Epilogue", "Known", "Language", "LoadedTensor", "Tensor", "TensorRef"]
