"""Convolution of images: an implicit product, whose kernel loads the pixels under the taps of each output.

No matrix of windows is made in memory. A program loads the pixels for some outputs, and multiplies them by its filters
while it loads the next pixels. A window of one pixel is a plain product of two matrices in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import add
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from kb_engine import Host, gemm_tolerance
from kb_messages import BenchmarkError
from kb_models.layout import Mesh, Part, Tensors, Value, cut
from kb_models.layout.value import Array
from kb_models.ops.images.window import (
    Images,
    Scan,
    Source,
    Window,
    even,
    gathered,
    output_of,
    padded,
    pixels,
    sources_of,
    under_tap,
)
from kb_models.ops.linear import normal
from kb_models.ops.op import Op, Read

Activation: TypeAlias = Literal["none", "relu", "relu6", "gelu", "silu"]


class Block(NamedTuple):
    """Outputs `rows` x filters `cols` of a program, numbered in its cube's part of Y.

    `first` is the number of the part's first output among all. `weights` is the number of the part of W and of the bias
    that has the filters, from filter `offset` on. `inputs` are the channels that the filters read, and `sources` the
    parts that have the pixels.
    """

    cube: int
    rows: slice
    cols: slice
    first: int
    weights: int
    offset: int
    inputs: slice
    sources: tuple[Source, ...]

    @property
    def outputs(self) -> slice:
        """The numbers of the outputs among all."""
        return slice(self.first + self.rows.start, self.first + self.rows.stop)

    @property
    def filters(self) -> slice:
        """The filters in the part of the weights."""
        return slice(self.offset, self.offset + self.cols.stop - self.cols.start)


class Operands(NamedTuple):
    """The tensors of a convolution: a part of `x`, `y` and `residual` for each cube, and parts of weights and biases.

    `bias` and `residual` are empty for a convolution without. A launch turns tensors into references.
    """

    x: Sequence[Any]
    w: Sequence[Any]
    bias: Sequence[Any]
    residual: Sequence[Any]
    y: Sequence[Any]


def kernel(tl: Any, t: Operands, work: Sequence[Sequence[Block]], scan: Scan, activation: Activation) -> None:
    """A program computes its blocks of Y, and loads the pixels of a block during the product of the one before."""
    blocks = work[tl.program_id()]
    done = []
    loads = (gathered(tl, t.x, b.sources, pixels(tl, scan, b.outputs), b.inputs, 0.0) for b in blocks)
    for block, found in zip(blocks, tl.ahead(loads), strict=True):
        x = reduce(add, found).reshape(block.rows.stop - block.rows.start, -1)
        done.append(product(tl, t, block, x, activation))
    for each in done:
        tl.wait(each)


def point_kernel(tl: Any, t: Operands, work: Sequence[Sequence[Block]], activation: Activation) -> None:
    """A program computes its blocks of Y, where each output reads one pixel of its own cube's part."""
    for block in work[tl.program_id()]:
        tl.wait(product(tl, t, block, t.x[block.cube][block.rows, :], activation))


def product(tl: Any, t: Operands, block: Block, x: Any, activation: Activation) -> Any:
    """A block of Y from *x*, of outputs x (taps and channels); rounded once, after bias, residual and activation."""
    y, epilogue = t.y[block.cube][block.rows, block.cols], []
    if t.bias:
        epilogue.append(tl.bias(t.bias[block.weights][block.filters]))
    if t.residual:
        epilogue.append(tl.residual(t.residual[block.cube][block.rows, block.cols]))
    if activation in ("relu", "gelu", "silu"):
        epilogue.append({"relu": tl.relu, "gelu": tl.gelu, "silu": tl.silu}[activation]())
    w, limited = t.w[block.weights][:, block.filters], activation == "relu6"
    done = tl.composite("gemm", x, w, out=None if limited else y, epilogue=tuple(epilogue))
    if limited:  # no epilogue has an upper limit; 0 and 6 are exact, so rounding before changes nothing
        tl.wait(done)
        tl.store(y, tl.clamp(done, 0.0, 6.0))
    return done


class Grid(NamedTuple):
    """The blocks of Y of the PEs of a cube: `down` along the outputs and `along` the filters."""

    down: int
    along: int


ARRAY_SIDE: Final = 64
"""Rows and columns of a PE's array. Source: the bundled chips; on other chips the choice of a grid is less good."""
READ_NBYTES_PER_CYCLE: Final = 100
"""Bytes that a PE reads in a cycle of its array. Source: a slice of HBM of the bundled chips, 102.4 GB/s at 1 GHz."""


def grid_of(rows: int, cols: int, depth: int, nbytes: int, pes: int) -> Grid:
    """The grid of *pes* PEs whose largest block, of *rows* x *cols* of Y with sums of *depth* terms of *nbytes*, takes
    least time: its products, or its bytes."""

    def cycles(grid: Grid) -> tuple[float, int]:
        m, n = -(-rows // grid.down), -(-cols // grid.along)
        steps = -(-m // ARRAY_SIDE) * -(-n // ARRAY_SIDE) * depth
        read = (m + n) * depth * nbytes
        return max(steps, read / READ_NBYTES_PER_CYCLE), read

    grids = [Grid(down, pes // down) for down in range(1, pes + 1) if pes % down == 0]
    return min((Grid(min(grid.down, rows), min(grid.along, cols)) for grid in grids), key=cycles)


class ImageConvolution(Op):
    """Y = activation(X * W + bias + residual): *n* filters of a window over images, in *groups* of channels.

    A batch norm of inference is part of the weights and of the bias. Y has the outputs as rows, image by image, and the
    filters as columns. The rows of Y are split as the rows of X, by the number of outputs, and the filters over *axis*.
    A program reads pixels that lie in other cubes from there. X has all channels in each cube. W, of (taps * channels
    of a group, n), lies in each cube that computes its filters. The residual lies as Y.

    Raises BenchmarkError for groups that do not divide channels and filters, an unknown activation, channels of X that
    are split, a residual of another layout, and an axis over a level of the chip that splits the rows.
    """

    kind = "convolution"

    def __init__(
        self,
        name: str,
        mesh: Mesh,
        x: Images,
        n: int,
        window: Window,
        *,
        groups: int = 1,
        bias: bool = True,
        activation: Activation = "none",
        residual: Value | None = None,
        axis: str = "",
    ) -> None:
        self.mesh, self.images, self.window, self.groups, self.activation = mesh, x, window, groups, activation
        self.x, self.residual, dtype = x.value, residual, x.value.dtype
        self._check(name, n)
        self.scan = Scan(window, x.height, x.width, *window.over(name, x.height, x.width))
        outputs, terms = x.batch * self.scan.down * self.scan.across, len(window.taps) * x.channels // groups
        self.y = output_of(name, mesh, x, outputs, n, axis)
        if residual is not None and [part.bounds for part in residual.parts] != [part.bounds for part in self.y.parts]:
            got = f"a residual of {residual.shape} on axes {residual.axes}"
            raise BenchmarkError(f"op {name}", got, f"one that lies as the result, {self.y.shape} on {self.y.axes}")
        rows = max(part.shape[0] for part in self.y.parts)
        cols = min(part.shape[1] for part in self.y.parts)  # a column of the grid has a filter in each cube
        self.grid = grid_of(rows, cols, terms, dtype.nbytes, mesh.pes_per_cube)
        self.w = self._weights(f"{name}.w", (terms, n), terms**-0.5)
        self.bias = self._weights(f"{name}.bias", (n,), 0.1) if bias else None
        self.flops = 2 * outputs * n * terms
        self.terms = terms
        reads = (self.x, self.w, *(each for each in (self.bias, residual) if each is not None))
        super().__init__(name, reads, (self.y,))

    @property
    def result(self) -> Images:
        """Y as images."""
        return Images(self.y, self.images.batch, self.scan.down, self.scan.across)

    def _check(self, name: str, n: int) -> None:
        if self.activation not in get_args(Activation):
            needs = f"one of {', '.join(get_args(Activation))}"
            raise BenchmarkError(f"op {name}", f"activation {self.activation!r}", needs)
        if self.groups < 1 or self.images.channels % self.groups or n % self.groups:
            got = f"{self.images.channels} channels and {n} filters in {self.groups} groups"
            raise BenchmarkError(f"op {name}", got, "groups that divide both")
        if any(part.shape[1] != self.images.channels for part in self.x.parts):
            got = f"channels that are split over {self.x.axes[1]}"
            raise BenchmarkError(f"op {name}", got, "all channels in each cube", "gather them first")

    def _weights(self, name: str, shape: tuple[int, ...], deviation: float) -> Value:
        """Weights of *shape* whose last dimension are the filters: a part for each column of the grid of each cube."""
        parts = []
        for cube in self.mesh.cubes:
            for j in range(self.grid.along):
                pe = cube.pes[j] if self.grid.down == 1 else None
                bounds = (*((0, size) for size in shape[:-1]), self._filters(cube.number, j))
                parts.append(Part(bounds, cube.number, pe))
        content = normal(shape, deviation, self.x.dtype)
        return Value(name=name, shape=shape, dtype=self.x.dtype, parts=tuple(parts), content=content)

    def _filters(self, cube: int, j: int) -> tuple[int, int]:
        """The filters of column *j* of the grid of a cube."""
        first, last = self.y.parts[cube].bounds[1]
        start, stop = cut(last - first, self.grid.along, j)
        return first + start, first + stop

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE."""
        bias, residual = ([] if each is None else tensors[each] for each in (self.bias, self.residual))
        t = Operands(tensors[self.x], tensors[self.w], bias, residual, tensors[self.y])
        here = all(a.bounds[0] == b.bounds[0] for a, b in zip(self.x.parts, self.y.parts, strict=True))
        if self.window.is_point and here and self.groups == 1:
            host.launch(point_kernel, t, self._work(lambda cube, rows: rows), self.activation, pes=self.mesh.pes)
        else:
            work = self._work(lambda cube, rows: self._most_rows(host, cube, rows))
            host.launch(kernel, t, work, self.scan, self.activation, pes=self.mesh.pes)

    def _most_rows(self, host: Host, cube: int, rows: int) -> int:
        """The outputs whose pixels a program of *rows* outputs loads at once.

        TCM holds the pixels of a block in as many copies as there are parts that they come from, and their sum; and the
        pixels of a second block too, if there is one.
        """
        (y, x), own = self.window.taps[-1], max(1, self.x.parts[cube].shape[0])
        parts = min(len(sources_of(self.x.parts, cube)), 2 + (y * self.images.width + x) // own)
        free = host.tcm_nbytes * 3 // 4 // (self.terms * self.x.dtype.nbytes)
        if rows <= min(MOST_ROWS, free // (parts + 1)):
            return rows
        return max(1, min(MOST_ROWS, free // (2 * parts + 1)))

    def _work(self, most: Callable[[int, int], int]) -> list[list[Block]]:
        """The blocks of each program. *most* says for a cube's number and outputs how many a block may have."""
        return [
            list(self._blocks(cube.number, place, most))
            for cube in self.mesh.cubes
            for place in range(self.mesh.pes_per_cube)
        ]

    def _blocks(self, cube: int, place: int, most: Callable[[int, int], int]) -> Iterator[Block]:
        i, j = divmod(place, self.grid.along)
        if i >= self.grid.down:
            return
        part, sources = self.y.parts[cube], sources_of(self.x.parts, cube)
        (first, _), (left, _) = part.bounds
        start, stop = self._filters(cube, j)
        filters, channels = self.y.shape[1] // self.groups, self.images.channels // self.groups
        outputs = cut(part.shape[0], self.grid.down, i)
        for rows in even(*outputs, max(1, most(cube, outputs[1] - outputs[0]))):
            for group in range(start // filters, -(-stop // filters)):
                span = max(start, group * filters), min(stop, (group + 1) * filters)
                inputs = slice(group * channels, (group + 1) * channels)
                cols, number = slice(span[0] - left, span[1] - left), cube * self.grid.along + j
                yield Block(cube, rows, cols, first, number, span[0] - start, inputs, sources)

    def reference(self, read: Read) -> dict[str, Array]:
        """The definition, tap by tap, in float64."""
        return {self.y.name: ACTIVATIONS[self.activation](self._sums(read, np.float64, np.positive))}

    def tolerance(self, read: Read, expected: Any) -> dict[str, Array]:
        """The tolerance of a product, from the sum of the sizes of all terms.

        GELU and SiLU have a slope of at most 1.13, and lose a few roundings of f32 themselves.
        """
        sizes = self._sums(read, np.float32, np.abs).astype(np.float64)
        curved = self.activation in ("gelu", "silu")
        lost = FUNCTION_ROUNDINGS * 2.0**-24 * sizes if curved else 0.0
        slope = 1.13 if curved else 1.0
        return {self.y.name: gemm_tolerance(expected[self.y.name], sizes * slope, self.terms + 2, self.y.dtype) + lost}

    def _sums(self, read: Read, dtype: Any, of: Any) -> Array:
        """X * W + bias + residual, with *of* each of them, in *dtype*."""
        n, channels = self.y.shape[1] // self.groups, self.images.channels // self.groups
        w = of(read(self.w).astype(dtype)).reshape(len(self.window.taps), channels, -1)
        x = read(self.x).reshape(self.images.batch, self.images.height, self.images.width, -1)
        found = np.zeros((self.images.batch, self.scan.down, self.scan.across, self.y.shape[1]), dtype)
        for image, sums in zip(x, found, strict=True):
            wide = padded(of(image.astype(dtype)), self.window, 0.0)
            for tap, weights in zip(self.window.taps, w, strict=True):
                under = under_tap(wide, tap, self.scan)
                for group in range(self.groups):
                    cols = slice(group * n, (group + 1) * n)
                    sums[:, :, cols] += under[:, :, group * channels : (group + 1) * channels] @ weights[:, cols]
        found = found.reshape(self.y.shape)
        for each in (self.bias, self.residual):
            if each is not None:
                found += of(read(each).astype(dtype))
        return found


MOST_ROWS: Final = 128
"""Outputs whose pixels a program loads at once, at most. Source: assumed; twice the rows of an array, so that the
weights take no longer than the products, and that the loads of one block overlap with the products of another."""
FUNCTION_ROUNDINGS: Final = 8
"""Roundings of f32 in a GELU or SiLU. Source: the ops of the function, one rounding each."""
ACTIVATIONS: Final[dict[str, Any]] = {
    "none": lambda z: z,
    "relu": lambda z: np.maximum(z, 0.0),
    "relu6": lambda z: np.clip(z, 0.0, 6.0),
    "gelu": lambda z: 0.5 * z * (1.0 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))),
    "silu": lambda z: z / (1.0 + np.exp(-z)),
}
