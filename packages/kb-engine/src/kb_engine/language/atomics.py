"""Atomics: one command each, which reads, computes and writes bytes at their memory."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, Final
from weakref import ref

import numpy as np
import numpy.typing as npt

from kb_engine.language import masks
from kb_engine.language.held_atomic import DeferredAtomic, HeldAtomic, OldValue
from kb_engine.language.math_results import Argument, known_value
from kb_engine.language.transfers import Transfers
from kb_engine.memory.pending import Producer
from kb_engine.program.arguments import describe
from kb_engine.program.handles import Handle, LoadedTensor
from kb_engine.program.known import Known
from kb_engine.program.language_base import allocate
from kb_engine.program.tensors import TensorRef
from kb_messages import AtomicCommand, KernelError, MathAttributes, Matrix, Scalar, scalar_of

_ORDERS: Final = "acq_rel", "acquire", "release", "relaxed"


class AtomicOps(Transfers):
    """`tl.atomic_add` and its like. Each changes a rectangle of memory in one request, and returns the bytes before.

    *value* is a number, or a value in TCM of the shape and dtype of *pointer*. A *mask* has to choose
    all elements. An atomic takes effect at its call, in the order of calls of all programs; sums of floats follow that
    order. Integers that are known stay known, so that a kernel may steer by them; other results are pending.

    *sem* is `"acq_rel"` (the default), `"acquire"`, `"release"` or `"relaxed"`. With `acq_rel` and `release` the
    program's earlier commands are done before the atomic begins, and with `acq_rel` and `acquire` the next command
    begins when the atomic is done.

    The bytes before are read to TCM, by a DMA_READ in front, if the kernel keeps the result. Raises KernelError for
    elements that are no rectangle in one block of the tensor, for values that do not fit, and for another *sem*.
    """

    def atomic_add(self, pointer: TensorRef, value: Argument, mask: Known | Handle | None = None,
                   sem: str = "acq_rel") -> OldValue:  # fmt: skip
        """Add *value*."""
        return self._modify("add", pointer, (value,), mask, sem)

    def atomic_max(self, pointer: TensorRef, value: Argument, mask: Known | Handle | None = None,
                   sem: str = "acq_rel") -> OldValue:  # fmt: skip
        """The larger one of each element and *value*."""
        return self._modify("maximum", pointer, (value,), mask, sem)

    def atomic_min(self, pointer: TensorRef, value: Argument, mask: Known | Handle | None = None,
                   sem: str = "acq_rel") -> OldValue:  # fmt: skip
        """The smaller one of each element and *value*."""
        return self._modify("minimum", pointer, (value,), mask, sem)

    def atomic_and(self, pointer: TensorRef, value: Argument, mask: Known | Handle | None = None,
                   sem: str = "acq_rel") -> OldValue:  # fmt: skip
        """The bits that are set in each element and in *value*."""
        return self._modify("bit_and", pointer, (value,), mask, sem)

    def atomic_or(self, pointer: TensorRef, value: Argument, mask: Known | Handle | None = None,
                  sem: str = "acq_rel") -> OldValue:  # fmt: skip
        """The bits that are set in each element or in *value*."""
        return self._modify("bit_or", pointer, (value,), mask, sem)

    def atomic_xor(self, pointer: TensorRef, value: Argument, mask: Known | Handle | None = None,
                   sem: str = "acq_rel") -> OldValue:  # fmt: skip
        """The bits that are set in either each element or *value*."""
        return self._modify("bit_xor", pointer, (value,), mask, sem)

    def atomic_xchg(self, pointer: TensorRef, value: Argument, mask: Known | Handle | None = None,
                    sem: str = "acq_rel") -> OldValue:  # fmt: skip
        """*value* in place of each element."""
        return self._modify("copy", pointer, (value,), mask, sem)

    def atomic_cas(self, pointer: TensorRef, expected: Argument, value: Argument, sem: str = "acq_rel") -> OldValue:
        """*value* in place of each element that equals *expected*."""
        return self._modify("cas", pointer, (expected, value), None, sem)

    @cached_property
    def _held_atomic(self) -> HeldAtomic:
        """The atomic that was called last."""
        return HeldAtomic(self._port, partial(allocate, self._port))

    def _modify(
        self, op: str, pointer: TensorRef, values: tuple[Argument, ...], mask: Known | Handle | None, sem: str
    ) -> OldValue:
        port, line = self._port, self._port.line()
        name = f"tl.atomic_{_NAMES[op]}"
        if sem not in _ORDERS:
            raise KernelError(line, f"{name} with sem={sem!r}", f"one of {', '.join(map(repr, _ORDERS))}")
        self._later.issue()
        target, shape = self._target(pointer, mask, name[3:], line)
        math, operands, handles = self._values(op, values, target, shape, name, line)
        old_producer = port.memory.pending.producer(target)
        old = None if old_producer is not None else port.memory.read_copy(target).reshape(shape)
        new = _known_result(math, target, shape, [] if math.op in ("copy", "fill") else [old], handles, line)
        if new is None:
            port.memory.pending.mark(target, Producer(name, line))
        else:
            port.memory.write(target, np.asarray(new).reshape(target.rows, target.cols))
        result = OldValue(Matrix.packed(target.rows, target.cols, target.dtype), shape, old, old_producer, self,
                          self._held_atomic)  # fmt: skip
        command = AtomicCommand(math=math, target=target, operands=operands)
        self._held_atomic.defer(DeferredAtomic(command, handles, ref(result), result.completion, sem, line))
        self._later.add(self._held_atomic)
        return result

    def _target(
        self, pointer: object, mask: Known | Handle | None, call: str, line: str
    ) -> tuple[Matrix, tuple[int, ...]]:
        target = self._ref(pointer, call, line)
        access = masks.access_under(target, masks.mask_of(mask, target, line), line)
        if not isinstance(access, masks.MaskedAccess) or not access.is_whole:
            needs = "a rectangle in one block of the tensor, all of it"
            raise KernelError(line, f"tl.{call} of other elements of {target}", needs, "slice the tensor instead")
        return self._memory_of(access.ref, line), access.shape

    def _values(
        self, op: str, values: tuple[Argument, ...], target: Matrix, shape: tuple[int, ...], name: str, line: str
    ) -> tuple[MathAttributes, tuple[Matrix, ...], tuple[Handle, ...]]:
        """The function, and its operands in TCM."""
        operands, handles, scalars, places = [], [], [], []
        for at, value in enumerate(values, start=int(op != "copy")):
            if isinstance(value, Handle):
                matrix = self._loaded(value, name[3:], line)
                if (matrix.rows, matrix.cols, matrix.dtype) != (target.rows, target.cols, target.dtype):
                    got = f"{name} of {matrix.rows} x {matrix.cols} {matrix.dtype}"
                    raise KernelError(line, got, f"{target.rows} x {target.cols} {target.dtype}, as the tensor")
                operands.append(matrix)
                handles.append(value)
            elif isinstance(value, (int, float)):
                masks.constant(value, target.dtype, line)
                scalars.append(scalar_of(value))
                places.append(at)
            else:
                raise KernelError(line, f"{name} of {describe(value)}", "a number or a value in TCM")
        op = "fill" if op == "copy" and scalars else op
        math = MathAttributes(op=op, scalars=tuple(scalars), scalar_at=tuple(places))
        return math, tuple(operands), tuple(handles)


def _known_result(
    math: MathAttributes,
    target: Matrix,
    shape: tuple[int, ...],
    before: list[npt.NDArray[Any] | None],
    handles: tuple[Handle, ...],
    line: str,
) -> npt.NDArray[Any] | None:
    """The bytes after an atomic; None where they are computed in pass 2. *before* are those that it reads."""
    if math.op == "fill":
        return np.broadcast_to(masks.constant(_number(math.scalars[0], target), target.dtype, line).reshape(()), shape)
    if math.op == "copy":
        return handles[0].known
    values = [*(LoadedTensor(target, shape, each, None) for each in before), *handles]
    return known_value(math, values, shape, target.dtype)


def _number(scalar: Scalar, target: Matrix) -> float:
    return float(scalar) if target.dtype.is_float else int(float(scalar))


_NAMES: Final = {
    "add": "add", "maximum": "max", "minimum": "min", "bit_and": "and", "bit_or": "or", "bit_xor": "xor",
    "copy": "xchg", "cas": "cas",
}  # fmt: skip
