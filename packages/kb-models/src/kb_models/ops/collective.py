"""AllReduce and ReduceScatter: sum the partial results of cubes, so that each cube has the whole sum, or some rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from kb_engine import Host, TensorRef, product_tolerance
from kb_engine.collectives import Group, Sizes, all_reduce
from kb_messages import BenchmarkError
from kb_models.layout import Mesh, Part, Tensors, Value, cut
from kb_models.layout.mesh import Cube
from kb_models.layout.value import Array
from kb_models.ops.linear.kernels import steps
from kb_models.ops.op import Op, Read

STEP: Final = 1 << 22
"""The sums whose tolerance is made at a time, to bound memory."""


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


class _SumOfParts(Op):
    """The sum Y of X, of (ways, rows, N), over its first dimension."""

    def __init__(self, name: str, mesh: Mesh, x: Value, parts: tuple[Part, ...], axis: str) -> None:
        ways, rows, n = x.shape
        self.y = Value(name=name, shape=(rows, n), dtype=x.dtype, parts=parts, axes=(axis, ""))
        self.x, self.mesh = x, mesh
        self.flops = (ways - 1) * rows * n
        self.terms = ways
        super().__init__(name, (x,), (self.y,))

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


class AllReduce(_SumOfParts):
    """The sum of X, of (ways, rows, N), over its first dimension: (rows, N) in each cube.

    The first of the axes of X says over which cubes it is split. Cubes that have copies of X sum their own copies.
    """

    kind = "all_reduce"

    def __init__(self, name: str, mesh: Mesh, x: Value) -> None:
        parts = tuple(Part((part.bounds[1], part.bounds[2]), part.cube) for part in x.parts)
        super().__init__(name, mesh, x, parts, x.axes[1])
        levels = mesh.levels(x.axes[0])
        self._members = {mesh.group(levels, cube.number) for cube in mesh.cubes}

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


class ReduceScatter(_SumOfParts):
    """The sum of X, of (ways, rows, N), over its first dimension: each cube has its part of the rows, on *axis*.

    A PE reads some elements of all terms where they lie, from the nearest cubes that have them, without messages. On
    a mesh, all cubes together take the time of a ring and fewer steps.
    """

    kind = "reduce_scatter"

    def __init__(self, name: str, mesh: Mesh, x: Value, axis: str) -> None:
        """Raises BenchmarkError where the layout gives a cube rows of which no cube has a term."""
        super().__init__(name, mesh, x, mesh.parts(x.shape[1:], (axis, "")), axis)
        self._sources = [self._nearest(cube) for cube in mesh.cubes]

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE. A step has as many elements as fit TCM."""
        nbytes = self.x.dtype.nbytes
        # TCM holds the terms of two steps and of the one before, two results, and sums in f32
        most = host.tcm_nbytes * 7 // 8 // (nbytes * (3 * self.terms + 2) + 8)
        steps = [each for cube in self.mesh.cubes for each in self._steps(cube, max(1, most))]
        x = [tensor.ref[0] for tensor in tensors[self.x]]
        host.launch(scatter_kernel, x, tensors[self.y], steps, self.mesh.pes_per_cube, pes=self.mesh.pes)

    def _nearest(self, cube: Cube) -> list[int]:
        """The nearest part of each term that has the rows of *cube*. A cube begins with its own term, so that not all
        read the same cube at once."""
        (first, last), count = self.y.parts[cube.number].bounds[0], len(self.mesh.cubes)
        found: dict[int, tuple[bool, int, int]] = {}
        for number, part in enumerate(self.x.parts):
            way, (start, stop) = part.bounds[0][0], part.bounds[1]
            if start <= first and last <= stop:
                near = self.mesh.cubes[part.cube].sip != cube.sip, (part.cube - cube.number) % count, number
                found[way] = min(found.get(way, near), near)
        if len(found) < self.terms:
            got = f"rows {first} to {last} of {self.x.name} in cube {cube.number}, of which cubes have other rows"
            raise BenchmarkError(f"op {self.y.name}", got, "rows of the part of the batch of the cube")
        return [number for *_, number in sorted(found.values(), key=lambda near: near[1])]

    def _steps(self, cube: Cube, most: int) -> list[list[Step]]:
        """The steps of each PE of *cube*, of at most *most* elements: a PE has some of the columns."""
        (first, last), (_, n) = self.y.parts[cube.number].bounds
        found: list[list[Step]] = [[] for _ in cube.pes]
        firsts = [(number, self.x.parts[number].bounds[1][0]) for number in self._sources[cube.number]]
        for place, mine in enumerate(found):
            cols = slice(*cut(n, len(cube.pes), place))
            width = max(1, min(cols.stop - cols.start, most))
            for down in steps(slice(0, last - first), most // width):
                for along in steps(cols, width):
                    sources = [(x, slice(first - at + down.start, first - at + down.stop)) for x, at in firsts]
                    mine.append(Step(down, along, sources))
        return found


class Step(NamedTuple):
    """Rows and columns of a cube's part of a sum, and these rows in each of the parts that have terms."""

    rows: slice
    cols: slice
    sources: Sequence[tuple[int, slice]]


def scatter_kernel(
    tl: Any, x: Sequence[TensorRef], y: Sequence[TensorRef], blocks: Sequence[Sequence[Step]], pes: int
) -> None:
    """Each program adds up, in f32, what all cubes have of its elements."""
    cube, mine = tl.program_id() // pes, blocks[tl.program_id()]
    loads = ([tl.load_async(x[part][rows, step.cols]) for part, rows in step.sources] for step in mine)
    pending: list[Any] = []
    for step, parts in zip(mine, tl.ahead(loads), strict=True):
        total = sum((each.to("f32") for each in parts[1:]), start=parts[0].to("f32"))
        pending.append(tl.store_async(y[cube][step.rows, step.cols], total.to(y[cube].dtype)))
        if len(pending) > 1:
            tl.wait(pending.pop(0))
    for each in pending:
        tl.wait(each)
