"""BlockProduct: products of blocks of two activations, such as the queries and keys of each head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from kb_engine import Host, TensorRef, gemm_tolerance
from kb_messages import BenchmarkError
from kb_models.layout import Mesh, Tensors, Value
from kb_models.layout.value import Array, Bounds
from kb_models.ops.op import Op, Read

ROWS: Final = 64
"""The least rows of a program's part of a block. Source: the arrays of the bundled chips have 64 rows, and fewer cost
as much."""


class Block(NamedTuple):
    """A product: rectangles (rows, columns) of X, of Y and of the result. Y's is transposed if `is_transposed`."""

    x: Bounds
    y: Bounds
    z: Bounds
    is_transposed: bool


class Task(NamedTuple):
    """Some rows of a product in one cube, as slices of the parts of the cube."""

    cube: int
    x: tuple[slice, slice]
    y: tuple[slice, slice]
    z: tuple[slice, slice]
    is_transposed: bool


def kernel(
    tl: Any, x: Sequence[TensorRef], y: Sequence[TensorRef], z: Sequence[TensorRef], work: Sequence[Sequence[Task]]
) -> None:
    """A program computes its products, one behind the other in the queue of its PE."""
    pending = []
    for task in work[tl.program_id()]:
        other = y[task.cube][task.y]
        factor = other.T if task.is_transposed else other
        pending.append(tl.composite("gemm", x[task.cube][task.x], factor, out=z[task.cube][task.z]))
    for each in pending:
        tl.wait(each)


class BlockProduct(Op):
    """Z has X's block times Y's block in each of *blocks*, which cover Z. A cube computes the blocks of its part of Z,
    for which it has X and Y whole."""

    kind = "matmul"

    def __init__(self, name: str, mesh: Mesh, x: Value, y: Value, blocks: Sequence[Block], z: Value) -> None:
        """Raises BenchmarkError where a cube has a piece of a block alone."""
        self.mesh, self.x, self.y, self.blocks, self.z = mesh, x, y, tuple(blocks), z
        self._own: list[list[Block]] = []
        for part in z.parts:
            own = [block for block in blocks if _meet(block.z, part.bounds)]
            for block in own:
                sides = (
                    (block.x, x.parts[part.cube].bounds),
                    (block.y, y.parts[part.cube].bounds),
                    (block.z, part.bounds),
                )
                needs = "whole blocks: rows in at most as many parts as there are sequences"
                if not all(_holds(outer, inner) for inner, outer in sides):
                    raise BenchmarkError(f"op {name}", f"a piece of a block in cube {part.cube}", needs)
            self._own.append(own)
        self.terms = blocks[0].x[1][1] - blocks[0].x[1][0]
        self.flops = 2 * self.terms * int(np.prod(z.shape))
        super().__init__(name, (x, y), (z,))

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE. The PEs of a cube take the blocks in turn, and share the rows of a block
        where there are fewer blocks than PEs."""
        work: list[list[Task]] = []
        pes = self.mesh.pes_per_cube
        for part, own in zip(self.z.parts, self._own, strict=True):
            shares: list[list[Task]] = [[] for _ in range(pes)]
            height = max((block.z[0][1] - block.z[0][0] for block in own), default=1)
            ways = max(1, min(-(-pes // max(1, len(own))), height // ROWS))
            tasks = [task for block in own for task in self._tasks(part.cube, block, ways)]
            for number, task in enumerate(tasks):
                shares[number % pes].append(task)
            work.extend(shares)
        host.launch(kernel, tensors[self.x], tensors[self.y], tensors[self.z], work, pes=self.mesh.pes)

    def _tasks(self, cube: int, block: Block, ways: int) -> list[Task]:
        rows = block.z[0][1] - block.z[0][0]
        x, y, z = (
            tuple(slice(start - low, stop - low) for (start, stop), (low, _) in zip(each, value.parts[cube].bounds,
                                                                                     strict=True))
            for each, value in ((block.x, self.x), (block.y, self.y), (block.z, self.z))
        )  # fmt: skip
        found = []
        for number in range(ways):
            start, stop = number * rows // ways, (number + 1) * rows // ways
            some = [(slice(each[0].start + start, each[0].start + stop), each[1]) for each in (x, z)]
            found.append(Task(cube, some[0], (y[0], y[1]), some[1], block.is_transposed))
        return found

    def reference(self, read: Read) -> dict[str, Array]:
        """The products in float64."""
        return {self.z.name: self._products(read, lambda array: array)}

    def tolerance(self, read: Read, expected: Any) -> dict[str, Array]:
        """The tolerance of a product, from the sums of the sizes of its terms."""
        sizes = self._products(read, np.abs)
        return {self.z.name: gemm_tolerance(expected[self.z.name], sizes, self.terms, self.z.dtype)}

    def _products(self, read: Read, of: Any) -> Array:
        x, y = of(read(self.x).astype(np.float64)), of(read(self.y).astype(np.float64))
        found = np.zeros(self.z.shape)
        for block in self.blocks:
            at = [tuple(slice(*side) for side in each) for each in (block.x, block.y, block.z)]
            other = y[at[1]]
            found[at[2]] = x[at[0]] @ (other.T if block.is_transposed else other)
        return found


def _meet(one: Bounds, other: Bounds) -> bool:
    return all(a < d and c < b for (a, b), (c, d) in zip(one, other, strict=True))


def _holds(outer: Bounds, inner: Bounds) -> bool:
    return all(a <= c and d <= b for (a, b), (c, d) in zip(outer, inner, strict=True))


def has_blocks(value: Value, z: Value, blocks: Sequence[tuple[Bounds, Bounds]]) -> bool:
    """Whether each cube has the block of *value*, the first of each of *blocks*, for every block of its part of *z*,
    the second."""
    return all(
        _holds(value.parts[part.cube].bounds, own) for part in z.parts for own, to in blocks if _meet(to, part.bounds)
    )
