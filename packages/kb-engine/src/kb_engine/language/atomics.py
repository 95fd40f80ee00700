"""Atomics: a command for each rectangle of memory, which reads, computes and writes its bytes at the memory.

Design: docs/design/memories.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple
from weakref import ref

import numpy as np
import numpy.typing as npt

from kb_engine.language.access import masks
from kb_engine.language.access.accesses import ElementAccess, pieces_of, places_left_out
from kb_engine.language.call_rules import Argument, known_value
from kb_engine.language.deferred_calls import AtomicCall, AtomicPlace, DeferredAtomics, OldValue
from kb_engine.language.transfers import Transfers
from kb_engine.memory.pending import Producer
from kb_engine.program.author.arguments import describe
from kb_engine.program.values.affine import sides_of
from kb_engine.program.values.handles import Handle, LoadedTensor
from kb_engine.program.values.host_values import HostValue
from kb_engine.program.values.tensors import TensorRef
from kb_messages import AtomicCommand, DType, KernelError, MathAttributes, Matrix, Piece, scalar_of


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
        return self._modify("atomic_add", "add", pointer, (value,), mask, sem)

    def atomic_max(self, pointer: TensorRef, value: Argument, mask: HostValue | Handle | None = None,
                   sem: str = "acq_rel") -> OldValue:  # fmt: skip
        """Replaces each element by the larger one of itself and *value*."""
        return self._modify("atomic_max", "maximum", pointer, (value,), mask, sem)

    def atomic_min(self, pointer: TensorRef, value: Argument, mask: HostValue | Handle | None = None,
                   sem: str = "acq_rel") -> OldValue:  # fmt: skip
        """Replaces each element by the smaller one of itself and *value*."""
        return self._modify("atomic_min", "minimum", pointer, (value,), mask, sem)

    def atomic_and(self, pointer: TensorRef, value: Argument, mask: HostValue | Handle | None = None,
                   sem: str = "acq_rel") -> OldValue:  # fmt: skip
        """Replaces each element by its bitwise and with *value*."""
        return self._modify("atomic_and", "bit_and", pointer, (value,), mask, sem)

    def atomic_or(self, pointer: TensorRef, value: Argument, mask: HostValue | Handle | None = None,
                  sem: str = "acq_rel") -> OldValue:  # fmt: skip
        """Replaces each element by its bitwise or with *value*."""
        return self._modify("atomic_or", "bit_or", pointer, (value,), mask, sem)

    def atomic_xor(self, pointer: TensorRef, value: Argument, mask: HostValue | Handle | None = None,
                   sem: str = "acq_rel") -> OldValue:  # fmt: skip
        """Replaces each element by its bitwise exclusive or with *value*."""
        return self._modify("atomic_xor", "bit_xor", pointer, (value,), mask, sem)

    def atomic_xchg(self, pointer: TensorRef, value: Argument, mask: HostValue | Handle | None = None,
                    sem: str = "acq_rel") -> OldValue:  # fmt: skip
        """Replaces each element by *value*."""
        return self._modify("atomic_xchg", "copy", pointer, (value,), mask, sem)

    def atomic_cas(self, pointer: TensorRef, expected: Argument, value: Argument, sem: str = "acq_rel") -> OldValue:
        """Replaces each element whose bits are those of *expected* by *value*."""
        return self._modify("atomic_cas", "cas", pointer, (expected, value), None, sem)

    @cached_property
    def _deferred_atomics(self) -> DeferredAtomics:
        """The atomic that was called last, until it is issued."""
        return DeferredAtomics(self._port)

    def _modify(
        self,
        call: str,
        op: str,
        pointer: TensorRef,
        values: tuple[Argument, ...],
        mask: HostValue | Handle | None,
        sem: str,
    ) -> OldValue:
        """The result of tl.*call*, whose math function is *op*."""
        line = self._port.line()
        name = f"tl.{call}"
        if sem not in _ORDERS:
            raise KernelError(line, f"{name} with sem={sem!r}", f"one of {', '.join(map(repr, _ORDERS))}")
        self._later.issue()
        ref_of = self._ref(pointer, call, line)
        self._check_written(ref_of, call, line)
        access = masks.access_under(ref_of, masks.mask_of(mask, ref_of, line), line)
        tile = Matrix.packed(*sides_of(access.shape), ref_of.dtype)
        math, operands, handles = self._values(op, values, tile, name, line)
        places, left_out = self._places(access, tile, line)
        old, producer = self._change(_Change(name, math, handles, tile, line), places, access.shape)
        result = OldValue(tile, access.shape, old, producer, self, self._deferred_atomics)
        parts = tuple(
            (AtomicCommand(math=math, target=each.target, operands=tuple(map(each.part, operands))), each)
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
            place = (access.down.start * access.cols + access.along.start) * tile.dtype.nbytes
            places = [AtomicPlace(self._memory_of(access.ref, line), place, access.tile(tile).stride)]
            if access.is_whole:
                return places, ()
            chosen = np.zeros((access.rows, access.cols), np.bool_)
            chosen[access.down, access.along] = True
            around = places_left_out(chosen)
        else:
            pieces = self._placed(access, pieces_of(access, self._copy_of(access), is_store=False), tile, line)
            places = [each for piece in pieces for each in places_of(piece, tile.dtype)]
            around = access.left_out()
        return places, self._fills(around, tile, bytes(tile.dtype.nbytes))

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
        self, op: str, values: tuple[Argument, ...], target: Matrix, name: str, line: str
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
            number = float(math.scalars[0])
            element = masks.constant(number if target.dtype.is_float else int(number), target.dtype, self.line)
            return np.broadcast_to(element.reshape(()), shape)
        given = [None if each.known is None else place.within(np.ravel(each.known)) for each in self.handles]
        if math.op == "copy":
            return given[0]
        matrix = Matrix.packed(*shape, target.dtype)
        values = [LoadedTensor(matrix, shape, each, None) for each in (before, *given)]
        return known_value(math, values, shape, target.dtype)
