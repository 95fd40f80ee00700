"""Elementwise: a function of elements of several values, which may be repeated, cut or put together in the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_engine import Host, TensorRef, default_tolerance
from kb_messages import BenchmarkError
from kb_models.layout import Mesh, Tensors, Value, cut
from kb_models.layout.value import Array
from kb_models.ops.expression import Step, bounded, computed, n_operations
from kb_models.ops.op import Op, Read

Places = npt.NDArray[np.int64]
NOWHERE: Final = -2
"""The place of a result that does not read an operand."""
MOST_ROWS: Final = 64
"""The most rows of a step. Source: assumed; more rows take longer to load before the first of them is stored."""


class Operand(NamedTuple):
    """A value, and where it lies in the result: element (i, j) of the result reads (`rows[i]`, `cols[j]`).

    A place `NOWHERE` is none: no result there reads this operand. Such operands make a concatenation, whose
    steps take operand 0 alone.
    """

    value: Value
    rows: Places
    cols: Places


class Block(NamedTuple):
    """A rectangle of an operand: its number, the number of its part, and rows and columns in that part."""

    operand: int
    part: int
    rows: slice
    cols: slice


class Piece(NamedTuple):
    """Rows and columns of the result of a cube, and the block of each operand that they read."""

    cube: int
    rows: slice
    cols: slice
    blocks: tuple[Block, ...]


def kernel(
    tl: Any,
    operands: Sequence[Sequence[TensorRef]],
    y: Sequence[TensorRef],
    work: Sequence[Sequence[Piece]],
    steps: Sequence[Step],
) -> None:
    """A program computes its pieces of the result. It loads the next piece while it computes."""
    pieces = work[tl.program_id()]
    loads = ([tl.load_async(operands[b.operand][b.part][b.rows, b.cols]) for b in piece.blocks] for piece in pieces)
    pending: list[Any] = []
    for piece, loaded in zip(pieces, tl.ahead(loads), strict=True):
        found = computed(tl, [each.to("f32") for each in loaded], steps)
        shape = piece.rows.stop - piece.rows.start, piece.cols.stop - piece.cols.start
        whole = found if tuple(found.shape) == shape else tl.broadcast_to(found, shape)
        pending.append(tl.store_async(y[piece.cube][piece.rows, piece.cols], whole.to(y[piece.cube].dtype)))
        if len(pending) > 1:
            tl.wait(pending.pop(0))
    for each in pending:
        tl.wait(each)


class Elementwise(Op):
    """Y = steps(operands), element by element, in f32 and rounded once.

    Y is placed like *like*: an axis of that value for its rows and its columns, and *shape*. Programs read operands in
    their own cube's part where that part has all operands, and in the parts of other cubes otherwise.
    """

    kind = "elementwise"

    def __init__(
        self,
        name: str,
        mesh: Mesh,
        operands: Sequence[Operand],
        steps: Sequence[Step],
        y: Value,
    ) -> None:
        self.mesh, self.operands, self.steps, self.y = mesh, tuple(operands), tuple(steps), y
        self.is_concatenation = any((each.rows == NOWHERE).any() or (each.cols == NOWHERE).any() for each in operands)
        if self.is_concatenation and self.steps != (0,):
            raise BenchmarkError(f"op {name}", "operands for a part of the result", "steps that copy an operand")
        if not n_operations(steps):
            self.kind = "copy"
        self.flops = n_operations(steps) * int(np.prod(y.shape))
        super().__init__(name, tuple(dict.fromkeys(each.value for each in operands)), (y,))

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE. Each takes a share of the rows of each piece."""
        work: list[list[Piece]] = []
        nbytes = 8 + self.y.dtype.nbytes * 3
        room = host.tcm_nbytes // 2 // (nbytes * (len(self.operands) + 2))
        for cube in self.mesh.cubes:
            shares: list[list[Piece]] = [[] for _ in cube.pes]
            turn = 0
            for piece in self._pieces(cube.number):
                turn = _share(piece, shares, turn, room)
            work.extend(shares)
        host.launch(kernel, [tensors[each.value] for each in self.operands], tensors[self.y], work, self.steps,
                    pes=self.mesh.pes)  # fmt: skip

    def _pieces(self, cube: int) -> Iterator[Piece]:
        """The rectangles of the result of *cube* whose operands are rectangles too, each in one part."""
        (first, last), (left, right) = self.y.parts[cube].bounds
        rows = self._runs(0, cube, first, last)
        cols = self._runs(1, cube, left, right)
        for top, bottom in rows:
            for start, stop in cols:
                blocks = [
                    block
                    for number in range(len(self.operands))
                    if (block := self._block(number, cube, (top, bottom), (start, stop))) is not None
                ]
                yield Piece(cube, slice(top - first, bottom - first), slice(start - left, stop - left), tuple(blocks))

    def _runs(self, side: int, cube: int, first: int, last: int) -> list[tuple[int, int]]:
        """Parts of *first* to *last* along rows (side 0) or columns in which each operand's places are neighbours, or
        one and the same, in one part."""
        edges = np.zeros(last - first, bool)
        for operand in self.operands:
            at = (operand.cols if side else operand.rows)[first:last]
            edges[_breaks(at)] = True
            if not self._is_here(operand, cube):
                starts = sorted({part.bounds[side][0] for part in operand.value.parts} - {0})
                edges[1:] |= np.isin(at[1:], starts) & (np.diff(at) != 0)
        bounds = [first, *(int(each) + first for each in np.flatnonzero(edges)), last]
        return list(pairwise(bounds))

    def _is_here(self, operand: Operand, cube: int) -> bool:
        """Whether the part of *operand* of *cube* has all that the result of the cube reads."""
        sides = (operand.rows, operand.cols)
        bounds = self.y.parts[cube].bounds, operand.value.parts[cube].bounds
        for at, (start, stop), (low, high) in zip(sides, *bounds, strict=True):
            read = at[start:stop][at[start:stop] != NOWHERE]
            if len(read) and not (low <= read.min() and read.max() < high):
                return False
        return True

    def _block(self, number: int, cube: int, rows: tuple[int, int], cols: tuple[int, int]) -> Block | None:
        operand = self.operands[number]
        spans = []
        for at, (start, stop) in ((operand.rows, rows), (operand.cols, cols)):
            if at[start] == NOWHERE:
                return None
            spans.append((int(at[start]), int(at[stop - 1]) + 1))
        (top, bottom), (left, right) = spans
        order = sorted(range(len(operand.value.parts)), key=lambda each: (abs(each - cube), each))
        for part in order:
            (r0, r1), (c0, c1) = operand.value.parts[part].bounds
            if r0 <= top and bottom <= r1 and c0 <= left and right <= c1:
                return Block(number, part, slice(top - r0, bottom - r0), slice(left - c0, right - c0))
        raise BenchmarkError(f"op {self.name}", f"a block of {operand.value.name} over several parts", "one part")

    def reference(self, read: Read) -> dict[str, Array]:
        """The steps in float64."""
        return {self.y.name: self._bounded(read)[0]}

    def tolerance(self, read: Read, expected: Any) -> dict[str, Array]:
        """The roundings of f32 of each step, carried on to the result, and the rounding of the result."""
        found = default_tolerance(expected[self.y.name], self.y.dtype)
        return {self.y.name: found + self._bounded(read)[1]}

    def _bounded(self, read: Read) -> tuple[Array, Array]:
        if self.is_concatenation:
            found = np.zeros(self.y.shape)
            for each in self.operands:
                rows, cols = (at != NOWHERE for at in (each.rows, each.cols))
                found[np.ix_(rows, cols)] = read(each.value)[np.ix_(each.rows[rows], each.cols[cols])]
            return found, np.zeros(self.y.shape)
        arrays = [read(each.value)[np.ix_(each.rows, each.cols)] for each in self.operands]
        value, error = bounded(arrays, self.steps)
        return np.broadcast_to(value, self.y.shape), np.broadcast_to(error, self.y.shape)


def _breaks(at: Places) -> list[int]:
    """The numbers of the elements of *at* at which a run ends: a run has neighbours, or one and the same."""
    steps = np.diff(at)
    steps[(steps != 0) & (steps != 1)] = 2
    changes = np.flatnonzero((steps == 2) | (np.diff(steps, prepend=steps[:1]) != 0))
    found, start = [], 0
    for step in map(int, changes):
        first = steps[start] if start < step else steps[step]
        if steps[step] == 2 or first != steps[step]:
            start = step + 1
            found.append(start)
    return found


def _share(piece: Piece, shares: list[list[Piece]], turn: int, room: int) -> int:
    """Adds the rows of *piece* to *shares*, in steps of at most *room* elements, from program *turn* on. Returns the
    program that is next."""
    height, width = piece.rows.stop - piece.rows.start, piece.cols.stop - piece.cols.start
    across = -(-width // room)
    for j in range(across):
        left, right = cut(width, across, j)
        step = max(1, min(MOST_ROWS, room // (right - left), -(-height // len(shares))))
        for top in range(0, height, step):
            part = _part(piece, (top, min(top + step, height)), (left, right))
            shares[turn % len(shares)].append(part)
            turn += 1
    return turn


def _part(piece: Piece, rows: tuple[int, int], cols: tuple[int, int]) -> Piece:
    whole = piece.rows.stop - piece.rows.start, piece.cols.stop - piece.cols.start
    blocks = tuple(
        each._replace(rows=_within(each.rows, whole[0], rows), cols=_within(each.cols, whole[1], cols))
        for each in piece.blocks
    )
    return Piece(piece.cube, _within(piece.rows, whole[0], rows), _within(piece.cols, whole[1], cols), blocks)


def _within(span: slice, size: int, part: tuple[int, int]) -> slice:
    """Part *part* of *size* elements of *span*; *span* itself if it is one element for all of them."""
    if span.stop - span.start == 1 and size > 1:
        return span
    return slice(span.start + part[0], span.start + part[1])
