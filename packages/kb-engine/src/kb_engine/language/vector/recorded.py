"""Recorded ops: math that a kernel has called and that no command computes yet, and the handles of the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar
from weakref import ref

import numpy as np
import numpy.typing as npt

from kb_engine.memory.pending import Producer
from kb_engine.program.port import Completion
from kb_engine.program.tcm_holder import TcmHolder
from kb_engine.program.values.handles import LoadedTensor, Operators
from kb_engine.timing.collector import COLLECTOR
from kb_messages import DType, MathAttributes, Matrix, VectorOp, VectorProgram, VectorValue

K = TypeVar("K")
V = TypeVar("V")

_MOST_KEPT: Final = 4096
"""The most values of a `BoundedCache`. Source: assumed; kernels use far fewer."""


class BoundedCache(dict[K, V]):
    """A cache of values that depend on their keys alone. It drops all values when it is full."""

    def keep(self, key: K, value: V) -> V:
        """Caches *value* under *key*, and returns it."""
        if len(self) >= _MOST_KEPT:
            self.clear()
        self[key] = value
        return value


_FUNCTIONS: Final[BoundedCache[tuple[MathAttributes, str, VectorValue], RecordedFunction]] = BoundedCache()


class VectorInput:
    """An input of recorded ops: a value in TCM. It keeps the TCM until the ops are done."""

    __slots__ = ("completion", "holder", "matrix", "value")

    def __init__(self, matrix: Matrix, holder: TcmHolder | None, completion: Completion) -> None:
        self.matrix = matrix
        self.holder = holder
        self.completion = completion
        self.value = VectorValue(matrix.rows, matrix.cols, matrix.dtype)

    @property
    def root(self) -> VectorInput:
        """This input. The `root` of an op is the op that makes the bytes."""
        return self

    @property
    def stored(self) -> VectorInput:
        """This input. The `stored` of an op is the place of its result."""
        return self

    @property
    def is_known(self) -> bool | None:
        """Whether the elements are known. Floats from memory do not count: no math of the kernel reads them."""
        return False if self.value.dtype.is_float else None


class RecordedFunction:
    """A function: `math` with a result of the shape and dtype of `value`. Made once by `recorded_function`."""

    __slots__ = ("is_float", "math", "producer_op", "value")

    def __init__(self, math: MathAttributes, value: VectorValue) -> None:
        self.math = math
        self.value = value
        self.is_float = value.dtype.is_float
        self.producer_op = f"tl.{math.op}"


def recorded_function(math: MathAttributes, value: VectorValue) -> RecordedFunction:
    """The one object for *math* with a result of the shape and dtype of *value*."""
    key = math, repr(math.scalars), value  # -0.0 == 0.0, and their texts differ
    return _FUNCTIONS.get(key) or _FUNCTIONS.keep(key, RecordedFunction(math, value))


class RecordedOp:
    """A call of `function` that is recorded, with the inputs and earlier ops that are its `arguments`.

    `is_known` says whether the elements are known; None where that depends on memory. `alive` says that the kernel has
    a reference to the result, and `handles` are its handles. `deferred` says that a program was closed since that did
    not need the result.
    """

    __slots__ = ("_handles", "alive", "arguments", "deferred", "function", "is_known", "line", "producer", "stored")

    stored: VectorInput | None
    """The place of the result, if a command has stored it."""

    def __init__(
        self,
        function: RecordedFunction,
        arguments: tuple[VectorInput | RecordedOp, ...],
        producer: Producer | None,
        line: str,
        is_known: bool | None,
    ) -> None:
        self.function = function
        self.arguments = arguments
        self.producer = producer
        self.line = line
        self.alive = True
        self.deferred = False
        self.is_known = is_known
        self.stored = None
        self._handles: list[ref[RecordedTensor]] = []

    @property
    def root(self) -> RecordedOp:
        """The op that makes the bytes."""
        return self

    @property
    def handles(self) -> list[RecordedTensor]:
        """The handles of the result to which the kernel has references: views of one another."""
        return [handle for each in self._handles if (handle := each()) is not None]

    @property
    def value(self) -> VectorValue:
        """The shape and dtype of the result."""
        return self.function.value

    def name(self, handle: RecordedTensor) -> None:
        """Adds *handle* to the handles of the result."""
        self._handles.append(ref(handle))

    def let_go(self, handle: RecordedTensor, is_kept: bool = False) -> None:
        """Removes *handle*, which the kernel dropped. *is_kept* says that a reference cycle keeps it."""
        if len(self._handles) == 1 and self._handles[0]() is handle:
            self._handles.clear()
            self.alive = is_kept
            return
        self._handles = [each for each in self._handles if (other := each()) is not None and other is not handle]
        self.alive = is_kept or bool(self._handles)

    def defer(self) -> None:
        """Leaves the op to a later program."""
        self.deferred = True

    def store_at(self, place: VectorInput) -> None:
        """Notes that a command stores the result at *place*. The arguments are needed until it is issued."""
        self.stored = place

    def forget_arguments(self) -> None:
        """Drops the arguments: the command that stores the result is issued."""
        self.arguments = ()


class RecordedView(RecordedOp):
    """A view: the result of *of*, read row by row as *value*. It has the same bytes, and adds no op to the program."""

    __slots__ = ("_stored",)

    _stored: VectorInput | None

    def __init__(self, of: RecordedOp, value: VectorValue, line: str) -> None:
        function = recorded_function(MathAttributes(op="view"), value)
        super().__init__(function, (of.root,), of.producer, line, of.is_known)

    @property
    def root(self) -> RecordedOp:
        """The op that makes the bytes; the view itself when it is stored."""
        return self if self.stored is not None else self.arguments[0]  # type: ignore[return-value]  # an op

    @property
    def stored(self) -> VectorInput | None:
        """The place of *of*, in the shape of the view, if a command has stored it."""
        if self._stored is None:
            bytes_of = self.arguments[0].stored
            if bytes_of is not None:
                value = self.value
                matrix = Matrix.packed(value.rows, value.cols, value.dtype, bytes_of.matrix.address)
                self._stored = VectorInput(matrix, bytes_of.holder, bytes_of.completion)
                self.forget_arguments()
        return self._stored

    @stored.setter
    def stored(self, place: VectorInput | None) -> None:
        self._stored = place


class RecordedTensor(LoadedTensor):
    """The result of a recorded op. Reading `place`, `holder` or `completion` has *issue* issue the op first."""

    def __init__(
        self,
        op: RecordedOp,
        shape: tuple[int, ...],
        known: npt.NDArray[Any] | None,
        operators: Operators,
        issue: Callable[[RecordedOp], None],
        view: Callable[[RecordedTensor, tuple[int, ...]], LoadedTensor],
    ) -> None:
        # `place`, `holder` and `completion` are set when the op is issued.
        self.op = op
        self.shape = shape
        self.known = known
        self.producer = op.producer
        self.readers: list[Completion] = []
        self.operators = operators
        self._issue = issue
        self._view = view
        self._is_forgotten = False
        self.open_op: RecordedOp | None = op
        """The op that makes the value; None if a command makes it, and after `tl.free`."""
        op.name(self)

    def __getattr__(self, name: str) -> Any:
        if name not in ("place", "holder", "completion"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)
        self._issue(self.op)
        return self.__dict__[name]

    def __repr__(self) -> str:
        if self.is_issued:
            return super().__repr__()
        self._leave()
        shape = " x ".join(map(str, self.shape)) or "1"
        state = "known" if self.producer is None else f"pending: {self.producer.op} of {self.producer.line}"
        return f"<{self.dtype} {shape} of {self.op.line}, {state}{', freed' if self.freed else ''}>"

    def __del__(self) -> None:
        self.op.let_go(self, is_kept=COLLECTOR.runs)

    @property
    def is_issued(self) -> bool:
        """Whether a command makes the value."""
        return "place" in self.__dict__

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.op.function.value.dtype

    @property
    def freed(self) -> bool:
        """Whether `tl.free` gave the handle's TCM back."""
        return self._is_forgotten or (self.is_issued and super().freed)

    def is_zeros(self, like: Matrix) -> bool:
        """Whether the value is recorded as zeros of the shape and dtype of *like*."""
        value, math = self.op.value, self.op.function.math
        zeros = math.op == "fill" and float(math.scalars[0]) == 0 and not self.is_issued
        return zeros and (value.rows, value.cols, value.dtype) == (like.rows, like.cols, like.dtype)

    def forget(self) -> None:
        """Drops the value, which no command makes and the kernel needs no more."""
        self._is_forgotten, self.open_op = True, None
        self.op.let_go(self)

    def reshape(self, *shape: Any) -> LoadedTensor:
        """The same bytes in another shape, in no time. The view of a recorded value is read in registers."""
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if not (self.is_issued or self._is_forgotten):
            wanted = np.empty(self.shape, np.bool_).reshape(sizes).shape
            found = self._view(self, wanted)
            if self.wrapped_at:
                found.note_wrap(self.wrapped_at)
            return found
        return super().reshape(sizes)

    def arrive(self, matrix: Matrix, holder: TcmHolder, completion: Completion) -> None:
        """Notes that the value lies at *matrix* when the command of *completion* is done."""
        self.place, self.holder, self.completion, self.open_op = matrix, holder, completion, None

    def look(self, touched_by: str) -> npt.NDArray[Any]:
        """The elements, read-only, after a wait for the inputs of the op. Raises KernelError as `Handle.look` does."""
        if self.is_issued or self.known is None:
            return super().look(touched_by)
        self._leave()
        for completion in _unfinished(self.op):
            self.operators.wait_until_done(completion)  # type: ignore[union-attr]  # the language made the handle
        self._notify_wrap(touched_by)
        return self.known


def _unfinished(op: RecordedOp) -> list[Completion]:
    """The completions of the commands in flight that bring the inputs of *op*."""
    found: list[Completion] = []
    seen: set[int] = set()
    left: list[VectorInput | RecordedOp] = [op]
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        source = each if isinstance(each, VectorInput) else each.stored
        if source is None:
            left += each.arguments  # type: ignore[union-attr]  # an op
        elif not source.completion.done:
            found.append(source.completion)
    return found


_MOST_PROGRAMS: Final = 4096
_PROGRAMS: dict[tuple[VectorProgram, str], VectorProgram] = {}
"""Every program once: equal programs of a loop, and of all PEs, share their plan. The text distinguishes -0.0 and
0.0."""


def program_of(ops: list[RecordedOp], outputs: set[int]) -> tuple[VectorProgram, list[VectorInput], list[RecordedOp]]:
    """The program of *ops*, its inputs, and the ops in *outputs*, whose results the program stores."""
    inputs: dict[int, VectorInput] = {}
    for op in ops:
        for each in op.arguments:
            if each.stored is not None:
                inputs.setdefault(id(each.stored), each.stored)
    number = {key: at for at, key in enumerate(inputs)}
    number.update((id(op), len(inputs) + at) for at, op in enumerate(ops))
    leaving = [op for op in ops if id(op) in outputs]
    program = VectorProgram(
        inputs=tuple(each.value for each in inputs.values()),
        ops=tuple(
            VectorOp(
                math=op.function.math,
                arguments=tuple(number[id(each.stored or each.root)] for each in op.arguments),
                result=op.value,
                line=op.line,
                shapes=_shapes(op),
            )
            for op in ops
        ),
        outputs=tuple(number[id(op)] for op in leaving),
    )
    if len(_PROGRAMS) >= _MOST_PROGRAMS:
        _PROGRAMS.clear()
    numbers = repr([op.function.math.scalars for op in ops if op.function.math.scalars])
    return _PROGRAMS.setdefault((program, numbers), program), list(inputs.values()), leaving


def _shapes(op: RecordedOp) -> tuple[tuple[int, int] | None, ...]:
    """The shapes of the arguments of *op* that are read in another shape, None for others; empty without any."""
    found = tuple(
        (each.value.rows, each.value.cols) if isinstance(each, RecordedView) and each.stored is None else None
        for each in op.arguments
    )
    return found if any(found) else ()
