"""Linear: Y = X W, with the columns of W over cubes, or with its rows over cubes and partial sums in each cube."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kb_engine import Host, TensorRef, cast, product_tolerance
from kb_messages import DType
from kb_models.layout import Mesh, Part, Tensors, Value, cut
from kb_models.layout.value import Array, Content
from kb_models.ops.op import Op, Read


class Grid(NamedTuple):
    """The blocks of Y of the PEs of a cube: `down` along the rows and `along` the columns."""

    down: int
    along: int


def kernel(tl: Any, x: Sequence[TensorRef], w: Sequence[TensorRef], y: Sequence[TensorRef], grid: Grid) -> None:
    """Program p computes a block of the Y of its cube. *x* and *y* have a part for each cube, *w* one for each column
    of the grid of each cube."""
    cube, place = divmod(tl.program_id(), grid.down * grid.along)
    i, j = divmod(place, grid.along)
    rows, cols = slice(*cut(y[cube].shape[-2], grid.down, i)), slice(*cut(y[cube].shape[-1], grid.along, j))
    if rows.start < rows.stop and cols.start < cols.stop:
        out = y[cube][0] if len(y[cube].shape) == 3 else y[cube]
        tl.wait(tl.composite("gemm", x[cube][rows, :], w[cube * grid.along + j], out=out[rows, cols]))


def grid_for(rows: int, cols: int, pes: int) -> Grid:
    """The grid of *pes* PEs for *rows* x *cols* of Y: as square blocks as there are, and no row without an array full
    of rows. Source: assumed; arrays have 64 rows, and fewer rows cost as much."""
    choices = [down for down in range(1, pes + 1) if pes % down == 0 and (down == 1 or rows // down >= 64)]
    best = min(choices, key=lambda down: rows // down + cols // (pes // down))
    return Grid(best, pes // best)


def normal(shape: tuple[int, ...], scale: float, dtype: DType) -> Content:
    """Content of normal random numbers with the deviation *scale*, made in blocks of 64 MiB."""

    def make(rng: np.random.Generator) -> Array:
        found = np.empty(shape, cast(np.zeros(1, np.float32), dtype).dtype)
        flat = found.reshape(-1)
        for at in range(0, flat.size, 1 << 24):
            some = flat[at : at + (1 << 24)]
            some[:] = cast(np.float32(scale) * rng.standard_normal(some.size, np.float32), dtype)
        return found

    return make


class Linear(Op):
    """Y = X W of X of rows x K, for K and N elements on the axes *axes*.

    Where X is split along K, each cube multiplies its part, and Y has the partial sums of each part as a first
    dimension. Otherwise the columns of W and Y are split along the axis of N.
    """

    kind = "linear"

    def __init__(self, name: str, mesh: Mesh, x: Value, n: int, axis: str) -> None:
        *leading, k = x.shape
        assert len(leading) == 1, "activations are matrices"
        rows, inner = leading[0], x.axes[1]
        ways = mesh.ways(inner)
        row_axis = x.axes[0]
        self.mesh = mesh
        self.grid = grid_for(
            -(-rows // mesh.ways(row_axis)), n if ways > 1 else -(-n // mesh.ways(axis)), mesh.pes_per_cube
        )
        along = self.grid.along
        parts = []
        for cube in mesh.cubes:
            down = x.parts[cube.number].bounds[1]
            first, last = (0, n) if ways > 1 else mesh.part(axis, n, cube.number)
            for j in range(along):
                start, stop = cut(last - first, along, j)
                pe = cube.pes[j] if self.grid.down == 1 else None
                parts.append(Part((down, (first + start, first + stop)), cube.number, pe))
        content = normal((k, n), k**-0.5, x.dtype)
        self.w = Value(name=f"{name}.w", shape=(k, n), dtype=x.dtype, parts=tuple(parts), content=content)
        if ways > 1:
            bounds = [
                (
                    (mesh.index(inner, cube.number), mesh.index(inner, cube.number) + 1),
                    mesh.part(row_axis, rows, cube.number),
                    (0, n),
                )
                for cube in mesh.cubes
            ]
            placed = tuple(Part(each, cube.number) for each, cube in zip(bounds, mesh.cubes, strict=True))
            self.y = Value(name=name, shape=(ways, rows, n), dtype=x.dtype, parts=placed, axes=(inner, row_axis, ""))
        else:
            placed = mesh.parts((rows, n), (row_axis, axis))
            self.y = Value(name=name, shape=(rows, n), dtype=x.dtype, parts=placed, axes=(row_axis, axis))
        self.x = x
        self.flops = 2 * rows * k * n
        super().__init__(name, (x, self.w), (self.y,))

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE."""
        x, w, y = (tensors[each] for each in (self.x, self.w, self.y))
        host.launch(kernel, x, w, y, self.grid, pes=self.mesh.pes)

    def reference(self, read: Read) -> dict[str, Array]:
        """X W, or the partial product of each part of K, in float64."""
        x, w = read(self.x), read(self.w)
        if self.y.axes[0] != self.x.axes[1] or len(self.y.shape) == 2:
            return {self.y.name: product(x, w)}
        parts = [cut(len(w), self.y.shape[0], number) for number in range(self.y.shape[0])]
        return {self.y.name: np.stack([product(x[:, a:b], w[a:b]) for a, b in parts])}

    def tolerance(self, read: Read, expected: Any) -> dict[str, Array]:
        """The tolerance of products, over the whole of K for partial sums too."""
        x, w = read(self.x), read(self.w)
        array = expected[self.y.name]
        if array.ndim == 2:
            return {self.y.name: product_tolerance(array, x, w, self.y.dtype)}
        parts = [cut(len(w), len(array), number) for number in range(len(array))]
        each = [
            product_tolerance(one, x[:, a:b], w[a:b], self.y.dtype) for one, (a, b) in zip(array, parts, strict=True)
        ]
        return {self.y.name: np.stack(each)}

    def factors(self, read: Read) -> tuple[Array, Array] | None:
        """X and W; None for partial sums."""
        return (read(self.x), read(self.w)) if len(self.y.shape) == 2 else None


def product(a: Array, b: Array) -> Array:
    """a @ b in float64, 128 MiB of *b* at a time."""
    a64 = a.astype(np.float64)
    step = max(1, (1 << 24) // len(b))
    blocks = [a64 @ b[:, at : at + step].astype(np.float64) for at in range(0, b.shape[1], step)]
    return np.concatenate(blocks, axis=1)
