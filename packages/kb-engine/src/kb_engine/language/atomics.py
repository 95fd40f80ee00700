"""Atomics: a command for each rectangle of memory, which reads, computes and writes its bytes at the memory.

Design: docs/design/memories.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any, Final, NamedTuple
from weakref import ref

import numpy as np
import numpy.typing as npt

from kb_engine.language.access import masks
from kb_engine.language.access.accesses import ElementAccess, pieces_of
from kb_engine.language.access.element_pieces import TilePiece, pieces_of_elements
from kb_engine.language.deferred_calls import AtomicCall, AtomicPart, DeferredAtomics, OldValue
from kb_engine.language.rules.math_results import Argument, known_value
from kb_engine.language.transfers import Transfers
from kb_engine.memory.pending import Producer
from kb_engine.memory.tiles import strided
from kb_engine.program.author.arguments import describe
from kb_engine.program.language_base import allocate
from kb_engine.program.values.affine import sides_of
from kb_engine.program.values.handles import Handle, LoadedTensor
from kb_engine.program.values.host_values import HostValue
from kb_engine.program.values.tensors import TensorRef
from kb_messages import AtomicCommand, DType, KernelError, MathAttributes, Matrix, Piece, Scalar, scalar_of


class AtomicPlace(NamedTuple):
    """A rectangle of memory that an atomic changes: `target`, whose elements begin `place` bytes after the first
    element asked for.

    Its rows are `stride` bytes apart among these elements, which lie row by row.
    """

    target: Matrix
    place: int
    stride: int

    def part(self, value: Matrix) -> Matrix:
        """The elements of *value*, which lies packed, that belong to the target."""
        rows, cols = self.target.rows, self.target.cols
        return Matrix(address=value.address + self.place, rows=rows, cols=cols, stride=self.stride, dtype=value.dtype)

    def within(self, elements: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A view of the elements that belong to the target. *elements* are all elements asked for, in one row."""
        nbytes = elements.itemsize
        strides = self.stride // self.target.dtype.nbytes * nbytes, nbytes
        first = self.place // self.target.dtype.nbytes
        shape = self.target.rows, self.target.cols
        return strided(elements[first:], shape, strides)


def places_of(piece: Piece, dtype: DType) -> Iterator[AtomicPlace]:
    """*piece* of a tile at address 0 as one place, or row by row where its rows share bytes of memory."""
    row_nbytes = piece.cols * dtype.nbytes
    together = piece.rows if abs(piece.stride) >= row_nbytes or piece.rows == 1 else 1
    for first in range(0, piece.rows, together):
        moved = first * piece.stride
        target = Matrix(
            address=piece.address + moved,
            rows=together,
            cols=piece.cols,
            stride=piece.stride if together > 1 else row_nbytes,
            dtype=dtype,
            virtual=None if piece.virtual is None else piece.virtual + moved,
        )
        yield AtomicPlace(target, piece.place + first * piece.place_stride, piece.place_stride or row_nbytes)


def places_left_out(chosen: npt.NDArray[np.bool_]) -> list[TilePiece]:
    """The places that *chosen* leaves out. Their addresses mean nothing."""
    places = np.flatnonzero(~chosen)
    return pieces_of_elements(places, places, np.zeros_like(places), 1)


def constant_piece(each: TilePiece, dtype: DType, blob: int) -> Piece:
    """The place *each* of a tile at address 0, with the constants of the op log from *blob* on."""
    nbytes = dtype.nbytes
    return Piece(blob, each.cols * nbytes, each.place * nbytes, each.pitch * nbytes, each.rows, each.cols)


_ORDERS: Final = "acq_rel", "acquire", "release", "relaxed"


class AtomicOps(Transfers):
    """The atomics of `tl`, such as `tl.atomic_add`. Each changes elements of memory, and returns their old values.

    *value* is a number, or a value in TCM of the shape and dtype of *pointer*. A *mask* of booleans chooses elements;
    the old values are 0 where it is false. Each rectangle of memory is a command of its own. An element may occur
    several times, and then changes for each occurrence. An atomic takes effect at its call, in the order of the calls
    of all programs; sums of floats follow that order. Known integers stay known, so that a kernel may branch on them;
    other results are pending.

    *sem* is `"acq_rel"` (the default), `"acquire"`, `"release"` or `"relaxed"`. With `acq_rel` and `release` the
    program's earlier commands are done before the atomic begins, and with `acq_rel` and `acquire` the next command
    begins when the atomic is done.

    If the kernel keeps the result, a DMA_READ brings the old values to TCM first. Raises KernelError for an index
    beyond the tensor, for values and masks that do not fit, and for another *sem*.
    """

    def atomic_add(self, pointer: TensorRef, value: Argument, mask: HostValue | Handle | None = None,
                   sem: str = "acq_rel") -> OldValue:  # fmt: skip
        """Adds *value* to each element."""
        return self._modify("add", pointer, (value,), mask, sem)

    def atomic_max(self, pointer: TensorRef, value: Argument, mask: HostValue | Handle | None = None,
                   sem: str = "acq_rel") -> OldValue:  # fmt: skip
        """Replaces each element by the larger one of itself and *value*."""
        return self._modify("maximum", pointer, (value,), mask, sem)

    def atomic_min(self, pointer: TensorRef, value: Argument, mask: HostValue | Handle | None = None,
                   sem: str = "acq_rel") -> OldValue:  # fmt: skip
        """Replaces each element by the smaller one of itself and *value*."""
        return self._modify("minimum", pointer, (value,), mask, sem)

    def atomic_and(self, pointer: TensorRef, value: Argument, mask: HostValue | Handle | None = None,
                   sem: str = "acq_rel") -> OldValue:  # fmt: skip
        """Replaces each element by its bitwise and with *value*."""
        return self._modify("bit_and", pointer, (value,), mask, sem)

    def atomic_or(self, pointer: TensorRef, value: Argument, mask: HostValue | Handle | None = None,
                  sem: str = "acq_rel") -> OldValue:  # fmt: skip
        """Replaces each element by its bitwise or with *value*."""
        return self._modify("bit_or", pointer, (value,), mask, sem)

    def atomic_xor(self, pointer: TensorRef, value: Argument, mask: HostValue | Handle | None = None,
                   sem: str = "acq_rel") -> OldValue:  # fmt: skip
        """Replaces each element by its bitwise exclusive or with *value*."""
        return self._modify("bit_xor", pointer, (value,), mask, sem)

    def atomic_xchg(self, pointer: TensorRef, value: Argument, mask: HostValue | Handle | None = None,
                    sem: str = "acq_rel") -> OldValue:  # fmt: skip
        """Replaces each element by *value*."""
        return self._modify("copy", pointer, (value,), mask, sem)

    def atomic_cas(self, pointer: TensorRef, expected: Argument, value: Argument, sem: str = "acq_rel") -> OldValue:
        """Replaces each element that equals *expected* by *value*."""
        return self._modify("cas", pointer, (expected, value), None, sem)

    @cached_property
    def _deferred_atomics(self) -> DeferredAtomics:
        """The atomic that was called last, until it is issued."""
        return DeferredAtomics(self._port, partial(allocate, self._port))

    def _modify(
        self, op: str, pointer: TensorRef, values: tuple[Argument, ...], mask: HostValue | Handle | None, sem: str
    ) -> OldValue:
        line = self._port.line()
        name = f"tl.atomic_{_NAMES[op]}"
        if sem not in _ORDERS:
            raise KernelError(line, f"{name} with sem={sem!r}", f"one of {', '.join(map(repr, _ORDERS))}")
        self._later.issue()
        ref_of = self._ref(pointer, name[3:], line)
        access = masks.access_under(ref_of, masks.mask_of(mask, ref_of, line), line)
        tile = Matrix.packed(*sides_of(access.shape), ref_of.dtype)
        math, operands, handles = self._values(op, values, tile, access.shape, name, line)
        places, left_out = self._places(access, tile, line)
        old, producer = self._change(_Change(name, math, handles, tile, line), places, access.shape)
        result = OldValue(tile, access.shape, old, producer, self, self._deferred_atomics)
        parts = tuple(
            AtomicPart(
                AtomicCommand(math=math, target=each.target, operands=tuple(map(each.part, operands))),
                each.place,
                each.stride,
            )
            for each in places
        )
        deferred = AtomicCall(parts, left_out, handles, ref(result), result.completion, sem, line)
        self._deferred_atomics.defer(deferred)
        self._later.add(self._deferred_atomics)
        return result

    def _places(
        self, access: masks.MaskedAccess | ElementAccess, tile: Matrix, line: str
    ) -> tuple[list[AtomicPlace], tuple[Piece, ...]]:
        """The rectangles of memory that change, each without repeated elements, and the places of *tile* that do not
        change, with zeros in the op log."""
        if isinstance(access, masks.MaskedAccess):
            place = (access.down.start * tile.cols + access.along.start) * tile.dtype.nbytes
            places = [AtomicPlace(self._memory_of(access.ref, line), place, tile.stride)]
            if access.is_whole:
                return places, ()
            chosen = np.zeros((tile.rows, tile.cols), np.bool_)
            chosen[access.down, access.along] = True
            around = places_left_out(chosen)
        else:
            pieces = self._placed(access, pieces_of(access, self._copy_of(access), is_store=False), tile, line)
            places = [each for piece in pieces for each in places_of(piece, tile.dtype)]
            around = access.left_out()
        most = max((each.rows * each.cols for each in around), default=0)
        blob = self._port.constant(bytes(tile.dtype.nbytes), most) if around else 0
        return places, tuple(constant_piece(each, tile.dtype, blob) for each in around)

    def _change(
        self, change: _Change, places: list[AtomicPlace], shape: tuple[int, ...]
    ) -> tuple[npt.NDArray[Any] | None, Producer | None]:
        """Writes the known bytes after *change* to *places*, one after the other.

        Returns the old values, and None; or None, and the op that has yet to produce some of them.
        """
        memory, tile = self._port.memory, change.tile
        old: npt.NDArray[Any] | None = np.zeros(tile.rows * tile.cols, masks.constant(0, tile.dtype, "").dtype)
        producer: Producer | None = None
        for each in places:
            target = each.target
            pending = memory.pending.producer(target)
            before = None if pending is not None else memory.read_copy(target).reshape(target.rows, target.cols)
            if pending is not None:
                old, producer = None, pending
            elif old is not None and before is not None:
                each.within(old)[...] = before
            new = change.result(each, before)
            if new is None:
                memory.pending.mark(target, Producer(change.name, change.line))
            else:
                memory.write(target, new)
        if old is None:
            return None, producer
        old.flags.writeable = False
        return old.reshape(shape), None

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


class _Change(NamedTuple):
    """An atomic of *handles*, which lie as *tile* does."""

    name: str
    math: MathAttributes
    handles: tuple[Handle, ...]
    tile: Matrix
    line: str

    def result(self, place: AtomicPlace, before: npt.NDArray[Any] | None) -> npt.NDArray[Any] | None:
        """The bytes at *place* after the atomic; None where pass 2 computes them. *before* are the old bytes."""
        math, target = self.math, place.target
        shape = target.rows, target.cols
        if math.op == "fill":
            element = masks.constant(_number(math.scalars[0], target), target.dtype, self.line)
            return np.broadcast_to(element.reshape(()), shape)
        given = [None if each.known is None else place.within(np.ravel(each.known)) for each in self.handles]
        if math.op == "copy":
            return given[0]
        matrix = Matrix.packed(*shape, target.dtype)
        values = [LoadedTensor(matrix, shape, each, None) for each in (before, *given)]
        return known_value(math, values, shape, target.dtype)


def _number(scalar: Scalar, target: Matrix) -> float:
    return float(scalar) if target.dtype.is_float else int(float(scalar))


_NAMES: Final = {
    "add": "add", "maximum": "max", "minimum": "min", "bit_and": "and", "bit_or": "or", "bit_xor": "xor",
    "copy": "xchg", "cas": "cas",
}  # fmt: skip
