"""Errors for names that `tl` and the vendors' modules under `tl.extra` do not have on this chip."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, Final, NoReturn

from kb_messages import KernelError
from kb_topology import near_names
from kb_triton.language.tensors import program
from kb_triton.language.tensors.program import refuse

_COMPILER = "it belongs to Triton's compiler, and nothing is compiled here; use functions in @triton.jit"
_BUFFERS = "the chip has no memory of that kind that a kernel names; keep blocks as values"
_MESSAGES = (
    "Triton has no messages between programs; pass data by memory and flags by tl.atomic_add, or write the kernel in "
    "kb's own tl, which has tl.send, tl.recv and tl.barrier"
)
_SLICES = "a vendor's extension; use tl.split, tl.gather or another load"
_INSTEAD: Final = {
    **dict.fromkeys(("base_type", "base_value", "constexpr_type", "dispatch", "extern", "extern_elementwise", "ir",
                     "slice_type", "tensor_descriptor_base", "tensor_descriptor_base_type",
                     "tensor_descriptor_type", "tuple_type", "TensorHandle"), _COMPILER),
    **dict.fromkeys(("alloc", "empty", "local_load", "local_store"), _BUFFERS),
    **dict.fromkeys(("extract_slice", "insert_slice", "get_element"), _SLICES),
    **dict.fromkeys(("send", "recv", "signal", "wait_for", "barrier"), _MESSAGES),
    "store_async": "use tl.store, after which other work of the program goes on",
    "bool": "use tl.int1", "float": "use tl.float32", "int": "use tl.int32", "pow": "use libdevice.pow or tl.exp2",
    "tanh": "use libdevice.tanh", "atomic_mul": "use a loop with tl.atomic_cas", "round": "use libdevice.rint",
    "mean": "use tl.sum, and divide by the number of elements", "var": "use tl.sum twice",
    "any": "use tl.max of the booleans", "all": "use tl.min of the booleans", "matmul": "use tl.dot",
    "concat": "use tl.cat or tl.join", "stack": "use tl.join", "ones": "use tl.full", "transpose": "use tl.trans",
    "thread_id": "a program has no threads; use tl.arange", "sync_threads": "use tl.debug_barrier",
    "isnan": "use x != x", "isinf": "use libdevice.isinf",
}  # fmt: skip
"""Hints for names that users look for and that resemble no name of tl."""


class MissingNameError(KernelError, AttributeError):
    """A module of Triton has no such name here. `hasattr` takes the error as an AttributeError."""


def missing(module: str, name: str, names: Iterable[str] = (), fix: str = "") -> MissingNameError:
    """Returns the error for *name* of *module*, such as `tl`, at the kernel's line. It lists near names of *names*."""
    near = near_names(name, names)
    if not fix and module == "tl":
        fix = _INSTEAD.get(name, "")
    if near and not fix:
        fix = f"did you mean {' or '.join(f'{module}.{each}' for each in near)}?"
    where = program.line() if program.is_running() else module
    return MissingNameError(where, f"{module}.{name}", f"a name that {module} has here", fix)


class VendorNames(SimpleNamespace):
    """The namespace `tl.extra` or `tl.extra.VENDOR`. Extensions of a vendor raise AttributeError."""

    def __getattr__(self, name: str) -> Any:
        vendor = self.__dict__.get("__name__", "tl.extra")
        raise missing(vendor, name, fix="the chip has no extensions of one vendor")


def refusing(name: str, needs: str) -> Callable[..., NoReturn]:
    """Returns a function with the full *name* that can be imported. A call raises KernelError with *needs*."""

    def call(*arguments: Any, **named: Any) -> NoReturn:
        refuse(name, needs)

    return call


def without_effect() -> None:
    """Does nothing: a launch begins when the one before it is over."""
