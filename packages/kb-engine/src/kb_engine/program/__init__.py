"""The program port: all that a kernel language may ask of a PE, whatever its syntax."""

from kb_engine.program.author_errors import explain
from kb_engine.program.leaks import Leak, LeakWatch
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.tensors import Tensor, TensorRef

__all__ = [
    "Leak",
    "LeakWatch",
    "ProcessingElement",
    "Tensor",
    "TensorRef",
    "explain",
]
