"""Loads and stores of elements that are no rectangle: DMA commands of pieces, and constants of the op log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from kb_engine.language.access.accesses import ElementAccess, TilePiece, pieces_of
from kb_engine.language.access.masks import constant, constants
from kb_engine.language.call_rules import Argument
from kb_engine.language.math import MathOps
from kb_engine.memory.tiles import MadeTile, TilePart
from kb_engine.program.port import Completion
from kb_engine.program.tcm_holder import TcmHolder
from kb_engine.program.values.affine import Affine, sides_of
from kb_engine.program.values.handles import Handle, LoadedTensor, PendingStore
from kb_engine.program.values.host_values import HostValue
from kb_engine.program.values.symbols import plain
from kb_engine.program.values.tensors import TensorRef
from kb_messages import OFFSET_BITS, DType, LoadCommand, Matrix, Piece, StoreCommand


class PieceTransfers(MathOps):
    """Moves the elements of an `ElementAccess`. The pieces of a command lie in one memory, as many as a DMA takes.

    Known integers and masks that have no form, such as `tl.arange(0, 8) & 3`, come to TCM as constants of the op log.
    """

    def _load_pieces(self, access: ElementAccess, other: float, line: str, waits: bool) -> LoadedTensor:
        """Loads a tile of the elements of *access*, with *other* at the places that it leaves out."""
        port, dtype = self._port, access.ref.tensor.dtype
        rows, cols = sides_of(access.shape)
        holder = self._allocate(rows, cols, dtype, line)
        tile = holder.matrix
        pieces = self._placed(access, pieces_of(access, self._copy_of(access), is_store=False), tile, line)
        if self._is_plain(pieces, tile):
            src = _mapped(_matrix(pieces[0], dtype), pieces[0])
            return self._load_whole(access.shape, src, holder, line, waits)
        element = constant(other, dtype, line).tobytes()
        fills = self._fills(access.left_out(), tile, element)
        made = MadeTile(rows * cols, dtype, element, tuple([_part(each, tile) for each in pieces]))
        producer, known = port.memory.load([_matrix(each, dtype) for each in pieces], tile, made)
        known = None if known is None else known.reshape(access.shape)
        loaded = LoadedTensor(tile, access.shape, known, producer, self, holder)
        if not (waits or port.issues_ahead):
            loaded.completion.keep((holder,))
        commands = list(self._commands(pieces)) or [()]
        for number, chunk in enumerate(commands):
            command = LoadCommand(
                src=_first_row(chunk or fills, dtype), dst=tile, pieces=chunk, fills=() if number else fills
            )
            is_last = number == len(commands) - 1
            port.submit(command, line, loaded.completion if is_last else Completion(), waits)
        return loaded

    def _fills(self, left_out: Sequence[TilePiece], tile: Matrix, element: bytes) -> tuple[Piece, ...]:
        """The places *left_out* of *tile*, which get *element*, a constant of the op log."""
        if not left_out:
            return ()
        at = self._port.constant(element, max(each.rows * each.cols for each in left_out))
        return tuple(_piece(each._replace(stride=each.cols * tile.dtype.nbytes), tile, at) for each in left_out)

    def _is_plain(self, pieces: Sequence[Piece], tile: Matrix) -> bool:
        """Whether the elements are one rectangle of memory that is the whole of *tile*, in whole bursts.

        A command of a rectangle is simpler then, and takes the same time.
        """
        if len(pieces) != 1 or pieces[0].rows * pieces[0].cols != tile.rows * tile.cols:
            return False
        only, burst_nbytes, row_nbytes = pieces[0], self._port.memory.burst_nbytes, pieces[0].cols * tile.dtype.nbytes
        return (
            only.stride >= row_nbytes == only.place_stride
            and row_nbytes % burst_nbytes == 0
            and only.stride % burst_nbytes == 0
            and only.address % burst_nbytes == 0
        )

    def _load_whole(
        self, shape: tuple[int, ...], src: Matrix, holder: TcmHolder, line: str, waits: bool
    ) -> LoadedTensor:
        """Loads the rectangle *src*, row by row, as a tile of *shape* in *holder*."""
        port = self._port
        producer, known = port.memory.load([src], holder.matrix)
        known = None if known is None else known.reshape(shape)
        loaded = LoadedTensor(holder.matrix, shape, known, producer, self, holder)
        if not (waits or port.issues_ahead):
            loaded.completion.keep((holder,))
        dst = _packed_as(src, holder.matrix)
        port.submit(LoadCommand(src=src, dst=dst), line, loaded.completion, waits)
        return loaded

    def _store_whole(
        self, dst: Matrix, value: Handle, src: Matrix, line: str, pending: PendingStore | None = None
    ) -> None:
        """Stores the elements of *value*, which lies packed at *src*, to the rectangle *dst* row by row.

        Waits for the store, or, with *pending*, adds the store there.
        """
        self._port.memory.put(dst, src, value.known, value.producer)
        self._submit_store(StoreCommand(src=_packed_as(dst, src), dst=dst), value, line, pending)

    def _submit_store(self, command: StoreCommand, value: Handle, line: str, pending: PendingStore | None) -> None:
        if pending is None:
            self._port.submit(command, line, Completion(), True)
            return
        completion = Completion()
        self._keep_until(completion, value)
        pending.completions.append(completion)
        self._port.submit(command, line, completion, False)

    def constants(self, data: npt.NDArray[Any], dtype: DType, line: str) -> LoadedTensor:
        """Loads *data*, elements of *dtype*, to TCM. They are constants of the op log, and come with a DMA command."""
        rows, cols = sides_of(data.shape)
        holder = self._allocate(rows, cols, dtype, line)
        tile, stride = holder.matrix, cols * dtype.nbytes
        known = np.ascontiguousarray(data)
        fill = Piece(self._port.constant(known.tobytes(), 1), stride, tile.address, stride, rows, cols)
        known.flags.writeable = False
        loaded = LoadedTensor(tile, data.shape, known, None, self, holder)
        command = LoadCommand(src=_first_row((fill,), dtype), dst=tile, fills=(fill,))
        self._port.submit(command, line, loaded.completion, True)
        return loaded

    def _store_pieces(
        self, access: ElementAccess, value: Handle, src: Matrix, line: str, pending: PendingStore | None
    ) -> None:
        """Stores the elements of *value*, which lies packed at *src*, to the elements of *access*."""
        if access.is_empty:
            return
        dtype = access.ref.tensor.dtype
        pieces = self._placed(access, pieces_of(access, self._copy_of(access), is_store=True), src, line)
        if self._is_plain(pieces, src):
            self._store_whole(_mapped(_matrix(pieces[0], dtype), pieces[0]), value, src, line, pending)
            return
        known = None if value.known is None else np.ascontiguousarray(value.known)
        for each in pieces:
            self._port.memory.put(_matrix(each, dtype), src, known, value.producer, _part(each, src))
        for chunk in self._commands(pieces):
            command = StoreCommand(src=src, dst=_first_row(chunk, dtype), pieces=chunk)
            self._submit_store(command, value, line, pending)

    def _copy_of(self, access: ElementAccess) -> int:
        return access.ref.copy_near(self._port.pe_id)

    def _placed(self, access: ElementAccess, found: Sequence[TilePiece], tile: Matrix, line: str) -> list[Piece]:
        """*found* in physical memory, and in the tile *tile*."""
        if not access.ref.tensor.virtual:
            return [_piece(each, tile, each.address) for each in found]
        pieces = []
        for each in found:
            there = self._translated(_matrix(each, tile.dtype), access.ref, line)
            pieces.append(_piece(each, tile, there.address, there.virtual))
        return pieces

    def _commands(self, pieces: Sequence[Piece]) -> Iterator[tuple[Piece, ...]]:
        """The pieces of each command."""
        by_memory: dict[int, list[Piece]] = {}
        for each in pieces:
            by_memory.setdefault(each.address >> OFFSET_BITS, []).append(each)
        for mine in by_memory.values():
            for first in range(0, len(mine), self._port.max_pieces):
                yield tuple(mine[first : first + self._port.max_pieces])

    def _as_operand(self, argument: Argument, line: str) -> Argument:
        given = self._with_bytes(argument) if isinstance(argument, HostValue) else argument
        return given if isinstance(given, LoadedTensor) else super()._as_operand(given, line)

    def stored(self, known: HostValue, dtype: DType, line: str) -> LoadedTensor:
        """*known* in TCM as *dtype*: computed if it has a form, else constants.

        Raises KernelError for a number that an integer *dtype* cannot represent.
        """
        data = constants(known.data, dtype, line)
        return self._call("copy", [known], dtype=dtype) if _is_computed(known) else self.constants(data, dtype, line)

    def _with_bytes(self, known: HostValue) -> HostValue | LoadedTensor:
        """*known* as constants in TCM, i32 where all fit, or unchanged if math computes it."""
        if _is_computed(known):
            return known
        line, dtype = self._port.line(), known.integers
        return self.constants(constants(known.data, dtype, line), dtype, line)


def _packed_as(like: Matrix, tile: Matrix) -> Matrix:
    """The bytes of *tile*, which are packed, with the rows and columns of *like*."""
    if (tile.rows, tile.cols) == (like.rows, like.cols):
        return tile
    return Matrix.packed(like.rows, like.cols, like.dtype, tile.address)


def turned(ref: TensorRef) -> TensorRef | None:
    """*ref* with its two axes exchanged, if its elements are adjacent along the first axis and not along the second."""
    indices = ref.indices
    if indices is None or len(indices.shape) != 2 or any(not isinstance(each, Affine) for each in indices.dimensions):
        return None
    *outer, col = [each for each in indices.dimensions if isinstance(each, Affine)]
    adjacent = [col.steps[axis] == 1 and not any(each.steps[axis] for each in outer) for axis in (0, 1)]
    if adjacent != [True, False]:
        return None
    return exchanged(ref)


def exchanged(ref: TensorRef) -> TensorRef:
    """*ref* with its two axes exchanged."""
    return permuted(ref, (1, 0))


def permuted(ref: TensorRef, order: tuple[int, ...]) -> TensorRef:
    """*ref* with its axes in another *order*."""
    indices = ref.every_index()
    dimensions = tuple(
        each.transposed(order) if isinstance(each, Affine) else each.transpose(order) for each in indices.dimensions
    )
    shape, inside = (tuple(sizes[axis] for axis in order) for sizes in (indices.shape, indices.inside))
    return ref.indexed(indices._replace(dimensions=dimensions, shape=shape, inside=inside))


def _piece(each: TilePiece, tile: Matrix, address: int, virtual: int | None = None) -> Piece:
    """A piece at *address*, with its place in *tile*."""
    nbytes = tile.dtype.nbytes
    stride = each.cols * nbytes if each.rows == 1 else each.stride
    return Piece(
        address, stride, tile.address + each.place * nbytes, each.pitch * nbytes, each.rows, each.cols, virtual
    )


def _matrix(piece: Piece | TilePiece, dtype: DType) -> Matrix:
    """The memory of *piece*: one row if the row goes to several places."""
    return Matrix(
        address=piece.address,
        rows=piece.rows if piece.stride else 1,
        cols=piece.cols,
        stride=piece.stride or piece.cols * dtype.nbytes,
        dtype=dtype,
    )


def _mapped(matrix: Matrix, piece: Piece) -> Matrix:
    """*matrix*, the memory of *piece*, with the virtual address of *piece* if it has one."""
    return matrix if piece.virtual is None else replace(matrix, virtual=piece.virtual)


def _first_row(pieces: Sequence[Piece], dtype: DType) -> Matrix:
    first = pieces[0]
    return Matrix(
        address=first.address,
        rows=1,
        cols=first.cols,
        stride=first.cols * dtype.nbytes,
        dtype=dtype,
        virtual=first.virtual,
    )


def _part(piece: Piece, tile: Matrix) -> TilePart:
    """The place of *piece* in *tile*."""
    nbytes = tile.dtype.nbytes
    pitch, rows, cols = plain(piece.place_stride) // nbytes, plain(piece.rows), plain(piece.cols)
    return TilePart((piece.place - tile.address) // nbytes, pitch, rows, cols)


def _is_computed(known: HostValue) -> bool:
    """Whether math computes *known* from the indices of its axes: it has a form, and one or two axes."""
    return known.form is not None and len(known.shape) in (1, 2)
