"""Grouped: products of groups of rows with a weight for each group, whose sizes the kernel loads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kb_engine import Host, TensorRef, product_tolerance
from kb_messages import BenchmarkError, DType
from kb_models.layout import Mesh, Part, Tensors, Value, cut
from kb_models.layout.value import Array
from kb_models.ops.linear.grid import Block, blocks_of, grid_for
from kb_models.ops.linear.linear import check_whole
from kb_models.ops.linear.weights import normal
from kb_models.ops.op import Op, Read


def kernel(
    tl: Any,
    x: Sequence[TensorRef],
    w: Sequence[TensorRef],
    sizes: Sequence[TensorRef],
    y: Sequence[TensorRef],
    blocks: Sequence[Block | None],
    down: int,
) -> None:
    """Program i of *down* of a panel multiplies part i of the rows of each group with the panel of the group."""
    block = blocks[tl.program_id()]
    if block is None:
        return
    stops = np.cumsum(tl.load(sizes[block.cube]).data)
    for group, stop in enumerate(stops):
        start = int(stops[group - 1]) if group else 0
        first, last = cut(int(stop) - start, down, block.rows.start)
        if first < last:
            rows = slice(start + first, start + last)
            tl.composite("gemm", x[block.cube][rows, :], w[block.panel][group], out=y[block.cube][rows, block.cols])


class Grouped(Op):
    """Y of rows x N: group g of the rows of X times weight g of K x N, with *n* columns on *axis*.

    The rows of a group follow those of the group before. *sizes* has the number of rows of each group, i32, some of
    which may be 0, and all of which are the rows of X; by default they are random.
    """

    kind = "linear"

    def __init__(
        self, name: str, mesh: Mesh, x: Value, groups: int, n: int, axis: str, sizes: Value | None = None
    ) -> None:
        """Raises BenchmarkError unless each cube has the whole of X and of *sizes*, and for other *sizes*."""
        check_whole(name, x)
        rows, k = x.shape
        self.mesh, self.x, self.sizes = mesh, x, sizes or random_sizes(f"{name}.sizes", mesh, rows, groups)
        if any(part.shape[0] < rows for part in x.parts):
            raise BenchmarkError(f"op {name}", f"{x.name} with some rows in each cube", "all rows in each cube")
        if self.sizes.shape != (groups,) or any(part.shape != (groups,) for part in self.sizes.parts):
            got = f"sizes {self.sizes.name} of {self.sizes.shape}"
            raise BenchmarkError(f"op {name}", got, f"{groups} numbers in each cube")
        self.looks_at_values = self.sizes.content is None
        bounds = [mesh.part(axis, n, cube.number) for cube in mesh.cubes]
        widths = [stop - start for start, stop in bounds]
        self.grid = grid_for(-(-rows // groups), widths, mesh)
        shares = blocks_of(mesh, self.grid, [self.grid.down] * len(mesh.cubes), widths)
        self.blocks = shares
        self.w = Value(
            name=f"{name}.w",
            shape=(groups, k, n),
            dtype=x.dtype,
            parts=tuple(self._panels(groups, k, bounds)),
            content=normal((groups, k, n), k**-0.5, x.dtype),
        )
        parts = tuple(Part(((0, rows), own), cube.number) for cube, own in zip(mesh.cubes, bounds, strict=True))
        self.y = Value(name=name, shape=(rows, n), dtype=x.dtype, parts=parts, axes=(x.axes[0], axis))
        self.flops = 2 * rows * k * n
        self.terms = k
        super().__init__(name, (x, self.w, self.sizes), (self.y,))

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE."""
        values = [tensors[each] for each in (self.x, self.w, self.sizes, self.y)]
        host.launch(kernel, *values, self.blocks, self.grid.down, pes=self.mesh.pes)

    def reference(self, read: Read) -> dict[str, Array]:
        """The product of each group in float64."""
        groups = [x.astype(np.float64) @ w.astype(np.float64) for x, w in self._groups(read)]
        return {self.y.name: np.concatenate(groups)}

    def tolerance(self, read: Read, expected: Mapping[str, Array]) -> dict[str, Array]:
        """The tolerance of the product of each group."""
        found, at = [], 0
        for x, w in self._groups(read):
            found.append(product_tolerance(expected[self.y.name][at : at + len(x)], x, w, self.y.dtype))
            at += len(x)
        return {self.y.name: np.concatenate(found)}

    def _groups(self, read: Read) -> Iterator[tuple[Array, Array]]:
        """The rows and the weight of each group that has rows."""
        x, w, sizes, start = read(self.x), read(self.w), read(self.sizes), 0
        for group, size in enumerate(map(int, sizes)):
            if size:
                yield x[start : start + size], w[group]
            start += size

    def _panels(self, groups: int, k: int, bounds: Sequence[tuple[int, int]]) -> Iterator[Part]:
        for cube, (start, stop) in zip(self.mesh.cubes, bounds, strict=True):
            for j in range(self.grid.along):
                first, last = cut(stop - start, self.grid.along, j)
                pe = cube.pes[j] if self.grid.down == 1 else None
                yield Part(((0, groups), (0, k), (start + first, start + last)), cube.number, pe)


def random_sizes(name: str, mesh: Mesh, rows: int, groups: int) -> Value:
    """Random sizes of *groups* groups with *rows* rows in all, in each cube."""

    def content(rng: np.random.Generator) -> Array:
        found: Array = rng.multinomial(rows, np.full(groups, 1 / groups)).astype(np.int32)
        return found

    parts = mesh.parts((groups,), ("",))
    return Value(
        name=name, shape=(groups,), dtype=DType.I32, parts=parts, content=content, is_looked_at=True, role="table"
    )
