"""The rectangles of memory that an atomic changes, and their places among the elements that the kernel asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_engine.language.access.element_pieces import TilePiece, pieces_of_elements
from kb_engine.memory.tiles import strided
from kb_messages import DType, Matrix, Piece


class AtomicPlace(NamedTuple):
    """`target` in memory, whose elements begin `place` bytes after the first element asked for.

    Its rows are `stride` bytes apart among these elements, which lie row by row.
    """

    target: Matrix
    place: int
    stride: int

    def part(self, value: Matrix) -> Matrix:
        """The elements of *value*, which lies packed, that go with the target."""
        rows, cols = self.target.rows, self.target.cols
        return Matrix(address=value.address + self.place, rows=rows, cols=cols, stride=self.stride, dtype=value.dtype)

    def within(self, elements: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Those of *elements*, all that were asked for in one row, that go with the target, as a view."""
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
