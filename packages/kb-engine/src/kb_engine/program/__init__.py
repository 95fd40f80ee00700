"""The door for front ends: all that a kernel language may ask of the PE that a kernel runs on, whatever its syntax."""

from kb_engine.memory.allocator import Lease, OutOfMemoryError
from kb_engine.memory.device_memory import DeviceMemory
from kb_engine.memory.pending import PendingBytes, Producer
from kb_engine.program.affine import Affine
from kb_engine.program.author_errors import explain, is_authors_error, place, printable
from kb_engine.program.handles import CompositeHandle, Handle, LoadedTensor
from kb_engine.program.indexing import Indices
from kb_engine.program.known import Known
from kb_engine.program.known_masks import HalfSpace, IndexBox
from kb_engine.program.known_rules import form_of, inverted
from kb_engine.program.language_base import LanguageBase, TcmFullError
from kb_engine.program.leaks import Leak, LeakWatch
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.port import Completion, FrontEnd, ProgramPort
from kb_engine.program.symbols import Symbol, plain
from kb_engine.program.tcm_holder import TcmHolder
from kb_engine.program.tensors import Tensor, TensorRef
from kb_engine.program.transposed import Transposed
from kb_engine.program.wrapped_indices import WrappedIndex, WrapWatch

__all__ = [
    "Affine",
    "Completion",
    "CompositeHandle",
    "DeviceMemory",
    "FrontEnd",
    "HalfSpace",
    "Handle",
    "IndexBox",
    "Indices",
    "Known",
    "LanguageBase",
    "Leak",
    "LeakWatch",
    "Lease",
    "LoadedTensor",
    "OutOfMemoryError",
    "PendingBytes",
    "ProcessingElement",
    "Producer",
    "ProgramPort",
    "Symbol",
    "TcmFullError",
    "TcmHolder",
    "Tensor",
    "TensorRef",
    "Transposed",
    "WrapWatch",
    "WrappedIndex",
    "explain",
    "form_of",
    "inverted",
    "is_authors_error",
    "place",
    "plain",
    "printable",
]
