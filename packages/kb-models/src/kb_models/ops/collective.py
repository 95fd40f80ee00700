"""AllReduce: sums the partial results of cubes, so that each cube has the whole sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kb_engine import Host, TensorRef, product_tolerance
from kb_engine.collectives import Group, Sizes, all_reduce
from kb_models.layout import Mesh, Part, Tensors, Value, cut
from kb_models.layout.value import Array
from kb_models.ops.op import Op, Read


class Block(NamedTuple):
    """The elements that PE i of each cube sums, some whole rows or a part of one row; the group of these PEs, and the
    algorithm."""

    rows: slice
    cols: slice
    group: Group
    algorithm: str


def kernel(tl: Any, x: Sequence[TensorRef], y: Sequence[TensorRef], blocks: Sequence[Block | None], pes: int) -> None:
    """PE i of each cube sums its block of the partial sums, with PE i of the other cubes that share them."""
    block = blocks[tl.program_id()]
    if block is not None:
        cube = tl.program_id() // pes
        place = block.rows, block.cols
        all_reduce(tl, block.group, x[cube][0, *place], out=y[cube][place], algorithm=block.algorithm)


def blocks_of(rows: int, cols: int, pes: int) -> list[tuple[slice, slice]]:
    """At most *pes* blocks of *rows* x *cols*, each of whole rows, or of one row where there are more PEs than rows.

    So the elements of a block lie one behind the other.
    """
    if rows >= pes:
        return [(slice(*cut(rows, pes, place)), slice(0, cols)) for place in range(pes)]
    along = max(1, min(pes // max(rows, 1), cols))
    return [(slice(row, row + 1), slice(*cut(cols, along, j))) for row in range(rows) for j in range(along)]


class AllReduce(Op):
    """The sum of X, of (ways, rows, N), over its first dimension: (rows, N) in each cube.

    The first of the axes of X says over which cubes it is split. Cubes that have copies of X sum their own copies.
    """

    kind = "all_reduce"

    def __init__(self, name: str, mesh: Mesh, x: Value) -> None:
        ways, rows, n = x.shape
        parts = tuple(Part((part.bounds[1], part.bounds[2]), part.cube) for part in x.parts)
        self.y = Value(name=name, shape=(rows, n), dtype=x.dtype, parts=parts, axes=(x.axes[1], ""))
        self.x, self.mesh = x, mesh
        self.flops = (ways - 1) * rows * n
        self.terms = ways
        levels = mesh.levels(x.axes[0])
        self._members = {mesh.group(levels, cube.number) for cube in mesh.cubes}
        super().__init__(name, (x,), (self.y,))

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE. All groups take the algorithm with the least estimated time of the first
        group, because their PEs have the same places in other cubes."""
        mesh, pes = self.mesh, self.mesh.pes_per_cube
        blocks: list[Block | None] = [None] * len(mesh.pes)
        algorithm = ""
        for members in sorted(self._members):
            rows, cols = self.y.parts[members[0]].shape
            for place, (down, along) in enumerate(blocks_of(rows, cols, pes)):
                group = host.group([mesh.cubes[number].pes[place] for number in members], of=mesh.pes)
                if not algorithm:
                    n = (down.stop - down.start) * (along.stop - along.start)
                    algorithm = group.chosen("all_reduce", Sizes(n, self.x.dtype, "sum"), (False, False))
                for number in members:
                    blocks[number * pes + place] = Block(down, along, group, algorithm)
        host.launch(kernel, tensors[self.x], tensors[self.y], blocks, pes, pes=mesh.pes)

    def reference(self, read: Read) -> dict[str, Array]:
        """The sum in float64."""
        return {self.y.name: read(self.x).astype(np.float64).sum(axis=0)}

    def tolerance(self, read: Read, expected: Any) -> dict[str, Array]:
        """The tolerance of a sum of as many terms, by their sizes."""
        sums = expected[self.y.name]
        ways, n = self.x.shape[0], sums.size
        terms = read(self.x).reshape(ways, n)
        dtype = self.y.dtype
        each = [
            product_tolerance(
                sums.reshape(1, n)[:, at : at + STEP], np.ones((1, ways)), terms[:, at : at + STEP], dtype
            )
            for at in range(0, n, STEP)
        ]
        return {self.y.name: np.concatenate(each, axis=1).reshape(sums.shape)}


STEP = 1 << 22
"""The sums whose tolerance is made at a time, to bound memory."""
