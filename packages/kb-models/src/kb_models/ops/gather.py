"""Gather: gives each cube the whole of an activation of which cubes have parts, an all_gather."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from kb_engine import Host, TensorRef
from kb_models.layout import Mesh, Part, Tensors, Value, cut
from kb_models.layout.value import Array, Bounds
from kb_models.ops.op import Op, Read

MOST_NBYTES: Final = 128 << 10
"""The most bytes of a load. Source: assumed; three of them fit the TCM of all bundled chips beside a store."""


class Move(NamedTuple):
    """A block to copy, `rows` x `cols` of the whole array, from part number `source`, which begins at `corner`."""

    source: int
    corner: tuple[int, int]
    rows: tuple[int, int]
    cols: tuple[int, int]

    def within(self, corner: tuple[int, int]) -> tuple[slice, slice]:
        """The block as an index of a part that begins at *corner*."""
        (top, left), (first, last), (start, stop) = corner, self.rows, self.cols
        return slice(first - top, last - top), slice(start - left, stop - left)


def kernel(
    tl: Any,
    x: Sequence[TensorRef],
    y: Sequence[TensorRef],
    moves: Sequence[Sequence[Move]],
    corners: Sequence[tuple[int, int]],
    pes: int,
) -> None:
    """Each program loads its blocks from the cubes that have them, and stores them in the part of its own cube."""
    cube, mine = tl.program_id() // pes, moves[tl.program_id()]
    loads = (tl.load_async(x[move.source][move.within(move.corner)]) for move in mine)
    pending: list[Any] = []
    for move, block in zip(mine, tl.ahead(loads), strict=True):
        pending.append(tl.store_async(y[cube][move.within(corners[cube])], block))
        if len(pending) > 1:
            tl.wait(pending.pop(0))
    for each in pending:
        tl.wait(each)


class Gather(Op):
    """Copies X, rows x features in parts, so that cube c has the block `bounds[c]` of it, on the axes *axes*.

    A cube reads each block from itself if it has it, and otherwise from a cube of its own SIP before others. Blocks are
    read where they lie, without messages: on a mesh, this takes the time of a ring and fewer steps.
    """

    kind = "all_gather"

    def __init__(self, name: str, mesh: Mesh, x: Value, bounds: Sequence[Bounds], axes: tuple[str, ...]) -> None:
        parts = tuple(Part(each, cube.number) for each, cube in zip(bounds, mesh.cubes, strict=True))
        self.y = Value(name=name, shape=x.shape, dtype=x.dtype, parts=parts, axes=axes)
        self.x, self.mesh = x, mesh
        self.flops = 0
        super().__init__(name, (x,), (self.y,))

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE."""
        mesh = self.mesh
        moves = [each for cube in mesh.cubes for each in self._moves_of(cube.number)]
        corners = [_corner(part) for part in self.y.parts]
        host.launch(kernel, tensors[self.x], tensors[self.y], moves, corners, mesh.pes_per_cube, pes=mesh.pes)

    def reference(self, read: Read) -> dict[str, Array]:
        """X, exactly."""
        return {self.y.name: read(self.x).astype(np.float64)}

    def tolerance(self, read: Read, expected: Any) -> dict[str, Array]:
        """Zero: nothing is computed."""
        return {self.y.name: np.zeros(self.y.shape)}

    def _moves_of(self, cube: int) -> list[list[Move]]:
        """The moves of each PE of cube number *cube*. Each cube begins with its own part, so that they do not all read
        the same one at once."""
        pes = self.mesh.pes_per_cube
        blocks = list(self._blocks_of(cube))
        share = -(-pes // max(1, len(blocks)))
        pieces = [piece for block in blocks for piece in self._pieces(block, share)]
        return [pieces[place::pes] for place in range(pes)]

    def _blocks_of(self, cube: int) -> Iterator[Move]:
        """The blocks of the cube's part of Y, each from the nearest cube that has it."""
        (rows, cols), count = self.y.parts[cube].bounds, len(self.mesh.cubes)
        sip, seen = self.mesh.cubes[cube].sip, set()
        order = sorted(range(count), key=lambda each: (self.mesh.cubes[each].sip != sip, (each - cube) % count))
        for number in order:
            part = self.x.parts[number]
            overlap = _common(rows, part.bounds[0]), _common(cols, part.bounds[1])
            if part.bounds not in seen and all(start < stop for start, stop in overlap):
                yield Move(number, _corner(part), *overlap)
            seen.add(part.bounds)

    def _pieces(self, block: Move, count: int) -> Iterator[Move]:
        """*block* in at least *count* pieces where it has as many rows or columns, of at most `MOST_NBYTES` if a row
        is no longer than that."""
        (first, last), (start, stop) = block.rows, block.cols
        height, width = last - first, stop - start
        if height < count:
            along = min(width, -(-count // height))
            for j in range(along):
                begin, end = cut(width, along, j)
                yield block._replace(cols=(start + begin, start + end))
            return
        rows = max(1, MOST_NBYTES // (width * self.x.dtype.nbytes))
        down = max(count, -(-height // rows))
        for i in range(down):
            top, bottom = cut(height, down, i)
            yield block._replace(rows=(first + top, first + bottom))


def _corner(part: Part) -> tuple[int, int]:
    """The first row and column of *part*."""
    return part.bounds[0][0], part.bounds[1][0]


def _common(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """The range that is in both."""
    return max(one[0], other[0]), min(one[1], other[1])
