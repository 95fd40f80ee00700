"""Programs: a kernel that runs on a PE, its values, its commands, and the port by which a kernel language reaches the
PE.

This file is the door for front ends: it offers all that a kernel language may ask, whatever its syntax. Design:
docs/design/kernel-language.md.
"""

from typing import TYPE_CHECKING

from kb_messages import lazy_door

if TYPE_CHECKING:
    from kb_engine.memory.allocator import Lease as Lease
    from kb_engine.memory.allocator import OutOfMemoryError as OutOfMemoryError
    from kb_engine.memory.device_memory import DeviceMemory as DeviceMemory
    from kb_engine.memory.pending import PendingBytes as PendingBytes
    from kb_engine.memory.pending import Producer as Producer
    from kb_engine.program.author.assertions import AssertionFailure as AssertionFailure
    from kb_engine.program.author.assertions import AssertionWatch as AssertionWatch
    from kb_engine.program.author.author_errors import authors_traceback as authors_traceback
    from kb_engine.program.author.author_errors import explain as explain
    from kb_engine.program.author.author_errors import is_authors_error as is_authors_error
    from kb_engine.program.author.author_errors import place as place
    from kb_engine.program.author.author_errors import printable as printable
    from kb_engine.program.author.cells import cell_name as cell_name
    from kb_engine.program.author.kernel_findings import Leak as Leak
    from kb_engine.program.author.kernel_findings import LeakWatch as LeakWatch
    from kb_engine.program.author.kernel_findings import WrappedIndex as WrappedIndex
    from kb_engine.program.author.kernel_findings import WrapWatch as WrapWatch
    from kb_engine.program.language_base import LanguageBase as LanguageBase
    from kb_engine.program.language_base import TcmFullError as TcmFullError
    from kb_engine.program.pe import ProcessingElement as ProcessingElement
    from kb_engine.program.port import Completion as Completion
    from kb_engine.program.port import FrontEnd as FrontEnd
    from kb_engine.program.port import ProgramPort as ProgramPort
    from kb_engine.program.tcm_holder import TcmHolder as TcmHolder
    from kb_engine.program.values.affine import Affine as Affine
    from kb_engine.program.values.affine import HalfSpace as HalfSpace
    from kb_engine.program.values.affine import IndexBox as IndexBox
    from kb_engine.program.values.handles import CompositeHandle as CompositeHandle
    from kb_engine.program.values.handles import Handle as Handle
    from kb_engine.program.values.handles import LoadedTensor as LoadedTensor
    from kb_engine.program.values.host_values import HostValue as HostValue
    from kb_engine.program.values.host_values import form_of as form_of
    from kb_engine.program.values.host_values import inverted as inverted
    from kb_engine.program.values.indexing import Indices as Indices
    from kb_engine.program.values.symbols import Symbol as Symbol
    from kb_engine.program.values.symbols import plain as plain
    from kb_engine.program.values.tensors import Tensor as Tensor
    from kb_engine.program.values.tensors import TensorRef as TensorRef
    from kb_engine.program.values.transposed import Transposed as Transposed

_NAMES = {
    "kb_engine.memory.allocator": ("Lease", "OutOfMemoryError"),
    "kb_engine.memory.device_memory": ("DeviceMemory",),
    "kb_engine.memory.pending": ("PendingBytes", "Producer"),
    "kb_engine.program.author.assertions": ("AssertionFailure", "AssertionWatch"),
    "kb_engine.program.author.author_errors": (
        "authors_traceback",
        "explain",
        "is_authors_error",
        "place",
        "printable",
    ),
    "kb_engine.program.author.cells": ("cell_name",),
    "kb_engine.program.author.kernel_findings": ("Leak", "LeakWatch", "WrapWatch", "WrappedIndex"),
    "kb_engine.program.language_base": ("LanguageBase", "TcmFullError"),
    "kb_engine.program.pe": ("ProcessingElement",),
    "kb_engine.program.port": ("Completion", "FrontEnd", "ProgramPort"),
    "kb_engine.program.tcm_holder": ("TcmHolder",),
    "kb_engine.program.values.affine": ("Affine", "HalfSpace", "IndexBox"),
    "kb_engine.program.values.handles": ("CompositeHandle", "Handle", "LoadedTensor"),
    "kb_engine.program.values.host_values": ("HostValue", "form_of", "inverted"),
    "kb_engine.program.values.indexing": ("Indices",),
    "kb_engine.program.values.symbols": ("Symbol", "plain"),
    "kb_engine.program.values.tensors": ("Tensor", "TensorRef"),
    "kb_engine.program.values.transposed": ("Transposed",),
}
if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_door(__name__, _NAMES)
