"""Values of tensors: numbers, forms of integers that follow from ranges, known data, products, and bytes in TCM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from kb_engine.program import Affine, Completion, HalfSpace, Handle, HostValue, IndexBox, Symbol, Transposed, plain
from kb_messages import DType
from kb_triton.language.tensors.dtypes import NUMPY, OF_KB, dtype
from kb_triton.language.tensors.program import machine, refuse

Number: TypeAlias = "int | float"
Form: TypeAlias = "Affine | IndexBox | HalfSpace"
NUMBERS: Final = frozenset((int, float, bool, Symbol))
"""Types of numbers, which all elements share. A `Symbol` is an integer that follows from the program's number."""
INTEGERS: Final = frozenset((int, Symbol))
FORMS: Final = frozenset((Affine, IndexBox, HalfSpace))

_MOST_DEEP: Final = 16
"""The longest chain of ops before its data are computed on the chip. Source: assumed."""


class Data:
    """Integers or booleans that the simulator knows and that are no form, such as loaded indices.

    `array` has them in numpy's type. `handle` is the place of their bytes on the chip; it is None until an op needs the
    bytes. *of* makes the bytes then: a math function with its arguments, or a function that returns a handle. Without
    *of*, the bytes are constants. `waits` are the commands in flight that load the data from which the integers were
    computed. A kernel that reads the integers waits for these commands.
    """

    __slots__ = ("_depth", "_of", "array", "handle", "kind", "waits")

    def __init__(
        self,
        array: npt.NDArray[Any],
        kind: DType,
        of: tuple[str, tuple[Any, ...]] | Callable[[], Handle] | None = None,
        handle: Handle | None = None,
        waits: tuple[Completion, ...] = (),
    ) -> None:
        self.array = array
        self.handle = handle
        self.waits = waits
        self.kind = kind
        self._of = of
        self._depth: int = 0
        if isinstance(of, tuple):
            self._depth = 1 + max((each._depth for each in of[1] if isinstance(each, Data)), default=0)
        if self._depth > _MOST_DEEP:
            self.bytes()

    def bytes(self) -> Handle:
        """Returns the integers as a handle, after making their bytes where there are none yet."""
        if self.handle is None:
            if self._of is None:
                self.handle = machine().array(self.array, self.kind)
            elif isinstance(self._of, tuple):
                op, arguments = self._of
                self.handle = machine().math(op, [as_argument(each) for each in arguments], self.kind)
            else:
                self.handle = self._of()
            self._of, self._depth = None, 0
        return self.handle

    def awaited(self) -> npt.NDArray[Any]:
        """Returns the integers after the wait for `waits`."""
        if self.waits:
            machine().wait_for_each(self.waits)
            self.waits = ()
        return self.array


def data_of(handle: Handle) -> Data:
    """Returns the integers of *handle*, which the simulator knows."""
    machine().leave("looks at integers of memory")
    assert handle.known is not None
    completion = handle.__dict__.get("completion")
    waits = () if completion is None or completion.done else (completion,)
    kind = OF_KB[handle.dtype]
    return Data(np.asarray(handle.known).astype(NUMPY[kind.name], copy=False), handle.dtype, None, handle, waits)


class Turned:
    """A transposed matrix. A product and a store take `factor`, which transposes without moving bytes."""

    __slots__ = ("_laid_out", "factor")

    def __init__(self, factor: Transposed[Handle]) -> None:
        self.factor = factor
        self._laid_out: Handle | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The rows and columns of the transposed matrix."""
        return self.factor.shape

    def bytes(self) -> Handle:
        """Returns the transposed matrix, laid out in TCM."""
        if self._laid_out is None:
            self._laid_out = machine().in_order(self.factor.of, (1, 0))
        return self._laid_out


class DotResult:
    """A product that is not issued yet, so that `acc + tl.dot(a, b)` becomes a product that adds to its accumulator.

    `issued` returns its bytes. A product whose result is not used is not computed.
    """

    __slots__ = ("_factors", "_handle", "shape")

    def __init__(self, factors: tuple[Any, Any], shape: tuple[int, ...]) -> None:
        self._factors: tuple[Any, Any] | None = factors
        self._handle: Handle | None = None
        self.shape = shape

    def issued(self) -> Handle:
        """Returns the bytes of the product, after issuing it where that is not done yet."""
        if self._handle is None:
            assert self._factors is not None
            self._handle = machine().dot(*self._factors)
            self._factors = None
        return self._handle

    def added_to(self, acc: Any) -> Handle | None:
        """Returns the sum of the product and *acc*, a handle or 0; None if the product is issued already."""
        if self._factors is None:
            return None
        return machine().dot(*self._factors, acc=acc)


def value_of(handle: Handle, kind: dtype) -> Any:
    """Returns *handle* as the value of a tensor of type *kind*: as `Data` if its integers are known."""
    if kind.is_float:
        return handle
    if handle.known is None:
        machine().leave("looks for integers of memory")
        return handle
    return data_of(handle)


def as_argument(value: Any) -> Any:
    """Returns *value* as an operand of math on the chip: a handle, known integers, or a number.

    Raises KernelError for pointers.
    """
    kind = type(value)
    if kind is Symbol:
        return plain(value)
    if kind in NUMBERS or isinstance(value, Handle):
        return value
    if kind is Data:
        return value.bytes()
    if kind is DotResult:
        return value.issued()
    if kind in FORMS:
        return HostValue.of(value, machine().port_line)
    if kind is Turned:
        return value.bytes()
    refuse("math of pointers", "numbers", "cast them to tl.int64")


def array_of(value: Any, kind: dtype) -> npt.NDArray[Any]:
    """Returns the known integers or booleans *value* in numpy's type for *kind*, without a wait."""
    found = value.array if type(value) is Data else value.data() if type(value) in FORMS else value
    if type(found) in INTEGERS:
        found = np.array(plain(found)).astype(NUMPY[kind.name]) if -(1 << 63) <= found < 1 << 63 else np.uint64(found)
    return np.asarray(found).astype(NUMPY[kind.name], copy=False)


def waits_of(*values: Any) -> tuple[Completion, ...]:
    """Returns the commands in flight that load the data from which *values* were computed."""
    found = [each for value in values if type(value) is Data for each in value.waits if not each.done]
    return tuple(dict.fromkeys(found))


def is_known(value: Any) -> bool:
    """Whether *value* is integers or booleans that the simulator knows."""
    return type(value) in _KNOWN


_KNOWN: Final = FORMS | INTEGERS | {bool, Data}


def as_known(value: Any, shape: tuple[int, ...], line: str) -> HostValue:
    """Returns known integers or booleans *value*, no number, over *shape*, for a call of the chip's language."""
    if type(value) is Data:
        return HostValue(np.broadcast_to(value.awaited(), shape), lambda: line)
    return HostValue.of(value.broadcast(shape), lambda: line)
