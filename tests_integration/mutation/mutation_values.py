"""What an op log computes, as expressions: 64-bit numbers that are equal where two logs compute the same thing.

Every byte holds the number of the expression it is part of. A move copies numbers, a cast makes new ones; an element of
a math result has the number of its op and of the elements it depends on, an element of a product that of a row and a
column. Sums do not depend on their order, and neither do functions of two interchangeable arguments. Elements that a
sort or a rearrangement has moved are the same elements, so a sort of sorted parts is one of the whole. So logs that
give an output the same numbers compute the same output, whatever the data, up to the order of additions.

With *shift_free*, what a whole row is reduced by does not count: exp(x - s) / sum(exp(x - s)) is the same for every s,
as long as nothing overflows, which the outputs tell.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kb_dataexec import MemoryStore, OpLog
from kb_dataexec.log import Op, OperandRow, Schedule
from kb_dataexec.ops import gemm, math, memory
from kb_messages import MATH_FUNCTIONS, DType, OpKind, has_own_form

_BYTES = tuple(dtype for dtype in DType if dtype.nbytes == 1)
"""Types of a byte. A test writes 0 or 1 in each of them. A condition is whether the byte is 0: no test writes -0."""
Numbers = npt.NDArray[np.uint64]
_MARGIN = 4096
"""Bytes before the first and behind the last that a log uses: a moved address may lead there."""
_INTERCHANGEABLE = ("add", "mul", "maximum", "minimum", "eq", "ne", "and", "or")


def mixed(*parts: Any) -> Numbers:
    """One number from several, in their order."""
    total = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        for part in parts:
            total = (total ^ np.asarray(part, np.uint64)) * np.uint64(0xBF58476D1CE4E5B9)
            total = total ^ (total >> np.uint64(31))
    return np.asarray(total)


def text_number(text: str) -> np.uint64:
    return np.uint64(int.from_bytes(text.encode()[:4096], "little") % (2**61 - 1))


class Values:
    """The numbers of all bytes near those that *log* uses, after *log*, which can be executed.

    Bytes are numbered by address before it.
    """

    def __init__(self, log: OpLog, memory_before: MemoryStore, shift_free: bool = False) -> None:
        self._shift_free = shift_free
        self._bytes: dict[int, Numbers] = {0: mixed(np.frombuffer(log.immediates or b"\0", np.uint8))}
        rows = log.operands
        stops = rows["offset"] + (rows["rows"] - 1) * rows["stride"] + rows["row_nbytes"]
        self._first = {0: 0}
        for owner, nbytes, _ in memory_before.regions:
            mine = rows["owner"] == owner
            first = max(0, int(rows["offset"][mine].min(initial=nbytes)) - _MARGIN)
            self._first[owner] = first
            self._bytes[owner] = mixed(owner, np.arange(first, min(nbytes, int(stops[mine].max(initial=0)) + _MARGIN)))
        schedule = Schedule(log)
        for op in schedule.iterate(0, len(schedule.ops)):
            {OpKind.MEMORY: self._move, OpKind.GEMM: self._gemm, OpKind.MATH: self._math}[OpKind(op.kind)](op)

    def of(self, owner: int, offset: int, rows: int, row_nbytes: int, stride: int) -> bytes:
        """The numbers of a rectangle's bytes."""
        return self._view(owner, offset, rows, row_nbytes, stride).tobytes()

    def _view(self, owner: int, offset: int, rows: int, row_nbytes: int, stride: int) -> Numbers:
        start = (offset - self._first[owner]) * 8
        return np.ndarray((rows, row_nbytes), np.uint64, self._bytes[owner], start, (stride * 8, 8))

    def _elements(self, row: OperandRow) -> Numbers:
        size = row.dtype.nbytes
        parts = self._view(*row.bytes_of).reshape(row.rows, -1, size)
        return mixed(text_number(row.dtype), *(parts[:, :, at] for at in range(size)))

    def _write(self, row: OperandRow, elements: Numbers) -> None:
        numbers = mixed(np.broadcast_to(elements, row.shape)[:, :, None], np.arange(row.dtype.nbytes))
        self._view(*row.bytes_of)[...] = numbers.reshape(row.rows, row.row_nbytes)

    def _move(self, op: Op) -> None:
        pairs = memory.moves(op)
        taken = [
            self._view(*source.bytes_of).copy() if source.dtype is target.dtype else self._elements(source)
            for source, target in pairs
        ]
        for (source, target), numbers in zip(pairs, taken, strict=True):
            if source.dtype is target.dtype:
                self._view(*target.bytes_of)[...] = numbers
            else:
                self._write(target, mixed(text_number(f"cast {source.dtype} {target.dtype}"), numbers))

    def _gemm(self, op: Op) -> None:
        found = gemm.decode(op)
        a, b = self._elements(found.a), self._elements(found.b)
        a, b = (a.T if found.attributes.transpose_a else a), (b.T if found.attributes.transpose_b else b)
        with np.errstate(over="ignore"):
            total = sum((mixed(a[:, k, None], b[None, k, :]) for k in range(a.shape[1])), np.uint64(0))
            if found.accumulator is not None:
                total = total + self._sum_so_far(found.accumulator)
        self._write_sum(found.out, np.asarray(total))

    def _sum_so_far(self, row: OperandRow) -> Numbers:
        """Sums are kept as they are in an element's first byte, so that the order of additions leaves no trace."""
        return self._view(*row.bytes_of)[:, :: row.dtype.nbytes].copy()

    def _write_sum(self, row: OperandRow, total: Numbers) -> None:
        self._write(row, total)
        self._view(*row.bytes_of)[:, :: row.dtype.nbytes] = total

    def _math(self, op: Op) -> None:
        found = math.decode(op)
        attributes = math.attributes_of(op.params)
        assert attributes is not None
        inputs = [self._elements(row) for row in found.inputs]
        if attributes.op == "where" and found.inputs[0].dtype in _BYTES:
            inputs[0] = self._view(*found.inputs[0].bytes_of).copy()
        if self._shift_free and attributes.op == "sub" and len(inputs) == 2 and inputs[1].shape[1] == 1:
            inputs = inputs[:1]
        if attributes.op == "copy" and inputs and _keeps_bits(found.inputs[0].dtype, found.out.dtype):
            self._view(*found.out.bytes_of)[...] = self._view(*found.inputs[0].bytes_of).copy()
            return
        if has_own_form(attributes.op):
            self._laid_out(found, inputs)
            return
        kind = "byte" if MATH_FUNCTIONS[attributes.op].is_test and found.out.dtype in _BYTES else found.out.dtype
        if attributes.op in ("sort", "merge"):
            self._sort(found)
            return
        numbers = f"{attributes.scalars} {attributes.scalar_at} {attributes.reverse} {attributes.group}"
        name = text_number(f"{attributes.op} {attributes.axis} {numbers} {found.working} {kind}")
        groups = found.groups
        with np.errstate(over="ignore"):
            if groups is None:
                result = _computed(found, name, inputs)
            elif found.function.spreads:
                result = mixed(name, groups.spread(inputs[0]))
            else:
                result = groups.apart(_computed(found, name, [groups.together(inputs[0])]), found.out.shape)
        self._write(found.out, result)

    def _sort(self, found: math.DecodedMath) -> None:
        """Elements of which each depends on all, and whose sum is the sum of the elements before.

        So a sort of them depends on the elements before, and not on how parts of them were sorted.
        """
        attributes, (source,), out = found.attributes, found.inputs, found.out
        size, axis = source.dtype.nbytes, attributes.axis
        assert axis is not None
        parts = self._view(*source.bytes_of).reshape(source.rows, -1, size)
        are_sorted = (parts == _of_sorted(parts[:, :, 0], size)).all(axis=2)
        elements = np.where(are_sorted, parts[:, :, 0], self._elements(source))
        name = text_number(f"sort {axis} {attributes.scalars} {attributes.reverse} {found.working} {out.dtype}")
        with np.errstate(over="ignore"):
            total = elements.sum(axis=axis, keepdims=True)
            if source.dtype is not out.dtype:
                total = mixed(text_number(f"cast {source.dtype} {out.dtype}"), total)
            last = np.indices(elements.shape)[axis] == elements.shape[axis] - 1
            result = np.where(last, np.uint64(0), mixed(name, total, np.indices(elements.shape)[axis]))
            result = np.where(last, total - result.sum(axis=axis, keepdims=True), result)
        self._view(*out.bytes_of)[...] = _of_sorted(result, out.dtype.nbytes).reshape(out.rows, out.row_nbytes)

    def _laid_out(self, found: math.DecodedMath, inputs: list[Numbers]) -> None:
        """Elements in another order keep their numbers, and bytes of another type theirs.

        A gather depends on all that it may choose from.
        """
        attributes, shape = found.attributes, found.out.shape
        name = text_number(f"{attributes.op} {attributes.axis} {found.out.dtype}")
        if found.function.retypes:
            self._view(*found.out.bytes_of)[...] = self._view(*found.inputs[0].bytes_of).copy()
            return
        is_moved = attributes.op != "histogram" and not found.function.picks
        if is_moved and all(_keeps_bits(row.dtype, found.out.dtype) for row in found.inputs):
            size = found.out.dtype.nbytes
            taken = [self._view(*row.bytes_of).copy() for row in found.inputs]
            for at in range(size):
                parts = [each[:, at::size] for each in taken]
                move = found.function.apply(*parts, attributes=attributes, shape=shape, dtype=np.dtype(np.uint64))
                self._view(*found.out.bytes_of)[:, at::size] = move
            return
        with np.errstate(over="ignore"):
            if attributes.op == "histogram":
                result = mixed(name, mixed(name, inputs[0]).sum(), np.arange(shape[1])[None, :])
            elif found.function.picks:
                index, x = inputs
                places = np.indices(x.shape)[attributes.axis or 0]
                result = mixed(name, index, mixed(name, x, places).sum(axis=attributes.axis, keepdims=True))
            else:
                move = found.function.apply(*inputs, attributes=attributes, shape=shape, dtype=np.dtype(np.uint64))
                result = mixed(text_number(f"moved {found.out.dtype}"), move)
        self._write(found.out, result)


def _keeps_bits(source: DType, target: DType) -> bool:
    """Whether a copy keeps all bits: one between integers as wide, as it wraps."""
    integers = not (source.is_float or target.is_float or DType.BOOL in (source, target))
    return source is target or (integers and source.nbytes == target.nbytes)


def _of_sorted(elements: Numbers, size: int) -> Numbers:
    """The bytes of sorted *elements* of *size* bytes: a row of them for each element."""
    return np.stack([elements, *(mixed(elements, at) for at in range(1, size))], axis=-1)


def _computed(found: math.DecodedMath, name: Numbers, inputs: list[Numbers]) -> Numbers:
    """The numbers of the elements of a result, from those of *inputs* and of the function."""
    attributes, axis = found.attributes, found.attributes.axis
    if found.function.scans:
        return mixed(name, _up_to_each(mixed(name, inputs[0]), axis, attributes.reverse))
    if attributes.op == "index":
        rows, cols = found.out.shape
        return mixed(name, np.arange(rows)[:, None], np.arange(cols)[None, :])
    if found.function.reduces:
        return mixed(name, mixed(name, inputs[0]).sum(axis=axis, keepdims=True))
    if attributes.op in _INTERCHANGEABLE and len(inputs) == 2:
        return mixed(name, mixed(name, inputs[0]) + mixed(name, inputs[1]))
    return mixed(name, *inputs)


def _up_to_each(numbers: Numbers, axis: int | None, reverse: bool) -> Numbers:
    """The sums of all *numbers* up to each one along *axis*, or with *reverse* from each one on."""
    assert axis is not None
    turned = np.flip(numbers, axis) if reverse else numbers
    sums = np.cumsum(turned, axis, dtype=np.uint64)
    return np.flip(sums, axis) if reverse else sums
