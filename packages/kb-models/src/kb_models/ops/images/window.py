"""Windows over images: which pixels an output reads, and in which parts of an activation these pixels lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from msgspec import Struct

from kb_engine import Host, TensorRef
from kb_messages import BenchmarkError
from kb_models.layout import Mesh, Part, Value, cut
from kb_models.layout.value import Array

Pair: TypeAlias = "int | Sequence[int]"


class Images(NamedTuple):
    """An activation whose rows are the pixels of `batch` images of `height` x `width`, image by image and row by row.

    `value` has the shape (batch * height * width, channels): NHWC in memory.
    """

    value: Value
    batch: int
    height: int
    width: int

    @property
    def channels(self) -> int:
        """The channels of each pixel."""
        return self.value.shape[1]


class Window(Struct, frozen=True):
    """A window that moves over an image: `kernel` rows and columns of taps that are `dilation` pixels apart.

    `stride` is the step of the window down and across. `padding` are the pixels around the image: above, left, below
    and right.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)

    @classmethod
    def of(cls, kernel: Pair, stride: Pair = 1, padding: Pair = 0, dilation: Pair = 1) -> Window:
        """The window of sizes that are one number for both directions, or a number for each (padding: two or four).

        Raises BenchmarkError for sizes below 1, a padding below 0, and another count of numbers.
        """
        around = _numbers("padding", padding, (2, 4), 0)
        down, across, stepped = (
            _numbers(name, given, (2,), 1)
            for name, given in (("kernel", kernel), ("stride", stride), ("dilation", dilation))
        )
        return cls(down, across, (*around, *around) if len(around) == 2 else around, stepped)

    @property
    def taps(self) -> list[tuple[int, int]]:
        """The pixels of the window, from its upper left corner: row by row."""
        rows, cols = ([n * step for n in range(size)] for size, step in zip(self.kernel, self.dilation, strict=True))
        return [(y, x) for y in rows for x in cols]

    @property
    def is_point(self) -> bool:
        """Whether the window is each pixel by itself."""
        return (self.kernel, self.stride, self.padding) == ((1, 1), (1, 1), (0, 0, 0, 0))

    def over(self, name: str, height: int, width: int) -> tuple[int, int]:
        """The rows and columns of the outputs over an image. Raises BenchmarkError, for op *name*, where there is
        none."""
        found = []
        sizes = (height, width), self.padding[:2], self.padding[2:], self.kernel, self.dilation, self.stride
        for size, before, after, taps, apart, step in zip(*sizes, strict=True):
            free = size + before + after - (taps - 1) * apart - 1
            found.append(free // step + 1)
        if min(found) < 1:
            reach = " x ".join(str((n - 1) * d + 1) for n, d in zip(self.kernel, self.dilation, strict=True))
            got = f"a window of {reach} pixels on an image of {height} x {width} with padding {self.padding}"
            raise BenchmarkError(f"op {name}", got, "a window that fits", "a smaller kernel, or more padding")
        return found[0], found[1]


def _numbers(name: str, given: Pair, counts: tuple[int, ...], least: int) -> tuple[Any, ...]:
    found = (given,) * 2 if isinstance(given, int) else tuple(given)
    if len(found) not in counts or min(found) < least:
        needs = f"a number of at least {least}, or {' or '.join(map(str, counts))} of them"
        raise BenchmarkError("a window", f"{name} {given}", needs)
    return found


class Source(NamedTuple):
    """Rows `start` to `stop` - 1 of an activation, in part number `part`."""

    part: int
    start: int
    stop: int


def sources_of(parts: Sequence[Part], cube: int) -> tuple[Source, ...]:
    """The parts of an activation from which cube number *cube* reads its own columns: all rows, each once.

    Of equal copies, the copy of the cube itself comes first, and then the one of the nearest number.
    """
    nearest: dict[Any, int] = {}
    for number in sorted(range(len(parts)), key=lambda number: (abs(parts[number].cube - cube), number)):
        if parts[number].bounds[1] == parts[cube].bounds[1]:
            nearest.setdefault(parts[number].bounds[0], number)
    return tuple(Source(number, *rows) for rows, number in sorted(nearest.items()))


class Scan(NamedTuple):
    """A window over images of `height` x `width`, whose outputs are `down` x `across` for each image."""

    window: Window
    height: int
    width: int
    down: int
    across: int


class Pixels(NamedTuple):
    """The pixels under taps: the row of each in the activation, and whether the pixel is inside of its image."""

    row: Any
    inside: Any


def pixels(tl: Any, scan: Scan, outputs: slice, tap: int | None = None) -> Pixels:
    """The pixels under all taps, or under tap number *tap*, of the outputs numbered *outputs*: output by output."""
    window, number = scan.window, outputs.start + tl.arange(outputs.stop - outputs.start)
    (step_y, step_x), (above, left, _, _) = window.stride, window.padding
    tap_y, tap_x = zip(*(window.taps if tap is None else [window.taps[tap]]), strict=True)
    y = beside(tl, number // scan.across % scan.down * step_y - above, tap_y)
    x = beside(tl, number % scan.across * step_x - left, tap_x)
    image = beside(tl, number // (scan.down * scan.across) * scan.height, [0] * len(tap_y))
    inside = (y >= 0) & (y < scan.height) & (x >= 0) & (x < scan.width)
    return Pixels((image + y) * scan.width + x, inside)


def beside(tl: Any, base: Any, offsets: Sequence[int]) -> Any:
    """*base* plus each of *offsets*, as one row of integers: all offsets of the first element, then of the next."""
    if len(offsets) == 1:
        return base + offsets[0]
    step = offsets[1] - offsets[0]
    regular = all(b - a == step for a, b in pairwise(offsets))
    along = offsets[0] + step * tl.arange(len(offsets)) if regular else np.array(offsets)
    return (base[:, None] + along).reshape((-1,))


def gathered(
    tl: Any, x: Sequence[TensorRef], sources: Sequence[Source], at: Pixels, cols: slice, other: float
) -> list[Any]:
    """Columns *cols* of the pixels *at*, with *other* outside of images: a load for each part that has some of them.

    A pixel is *other* in all loads but one.
    """
    found = []
    for source in sources:
        here = at.inside & (at.row >= source.start) & (at.row < source.stop)
        if here.data.any():
            found.append(tl.load_async(x[source.part][at.row - source.start, cols], here[:, None], other))
    return found or [tl.full((at.row.shape[0], cols.stop - cols.start), other, x[0].dtype)]


def even(start: int, stop: int, most: int) -> Iterator[slice]:
    """*start* to *stop* in as few parts of nearly equal length as have at most *most* elements."""
    count = -(-(stop - start) // most)
    for number in range(count):
        first, last = cut(stop - start, count, number)
        yield slice(start + first, start + last)


def output_of(name: str, mesh: Mesh, x: Images, outputs: int, n: int, axis: str) -> Value:
    """The value of *outputs* x *n* whose rows are split as the rows of *x*, and its columns over *axis*.

    Raises BenchmarkError where one level of the chip would split both.
    """
    row_axis = x.value.axes[0]
    both = set(mesh.layout.get(row_axis, ())) & set(mesh.layout.get(axis, ()))
    if both:
        got = f"{row_axis} and {axis} both over the {' and the '.join(f'{each}s' for each in sorted(both))}"
        raise BenchmarkError(f"op {name}", got, "rows or columns over a level", f"axis='' for op {name}")
    axes = row_axis, axis
    return Value(name=name, shape=(outputs, n), dtype=x.value.dtype, parts=mesh.parts((outputs, n), axes), axes=axes)


def padded(image: Array, window: Window, other: float) -> Array:
    """*image* of height x width x channels with the pixels around it, which are *other*."""
    above, left, below, right = window.padding
    return np.pad(image, ((above, below), (left, right), (0, 0)), constant_values=other)


def under_tap(wide: Array, tap: tuple[int, int], scan: Scan) -> Array:
    """The pixels of a padded image under *tap* of the window at each output."""
    (y, x), (step_y, step_x) = tap, scan.window.stride
    return wide[y : y + step_y * (scan.down - 1) + 1 : step_y, x : x + step_x * (scan.across - 1) + 1 : step_x]


class Patch(NamedTuple):
    """Outputs `rows` x channels `cols` of a program, numbered in its cube's part of Y.

    `first` is the number of the part's first output among all, and `sources` are the parts of X that have the pixels.
    """

    cube: int
    rows: slice
    cols: slice
    first: int
    sources: tuple[Source, ...]

    @property
    def outputs(self) -> slice:
        """The numbers of the outputs among all."""
        return slice(self.first + self.rows.start, self.first + self.rows.stop)


def patches(mesh: Mesh, x: Value, y: Value, most: int) -> list[list[Patch]]:
    """The patches of each program, of at most *most* elements: its share of the outputs and channels of its cube.

    The PEs of a cube share outputs, and channels where there are fewer outputs than PEs. X and Y have the same channels
    in each cube.
    """
    found = []
    for cube in mesh.cubes:
        part, sources = y.parts[cube.number], sources_of(x.parts, cube.number)
        rows, channels = part.shape
        down = max(n for n in range(1, mesh.pes_per_cube + 1) if mesh.pes_per_cube % n == 0 and (n == 1 or n <= rows))
        along = min(mesh.pes_per_cube // down, channels)
        for place in range(mesh.pes_per_cube):
            i, j = divmod(place, along)
            mine = (cut(rows, down, i), cut(channels, along, j)) if i < min(down, rows) else ((0, 0), (0, 0))
            found.append(
                [
                    Patch(cube.number, outputs, cols, part.bounds[0][0], sources)
                    for cols in even(*mine[1], most)
                    for outputs in even(*mine[0], max(1, most // (cols.stop - cols.start)))
                ]
            )
    return found


TAPS_TOGETHER: Final = 9
"""The taps whose pixels a program holds at once, and that one vector program joins. Source: assumed."""


def most_elements(host: Host, x: Value) -> int:
    """The elements of a patch: TCM holds the pixels of twice `TAPS_TOGETHER` taps, from two parts each, and sums.

    The sums are in f32. Source: assumed; pixels come from more parts only where each part has few.
    """
    return max(1, host.tcm_nbytes * 3 // 4 // (4 * TAPS_TOGETHER * x.dtype.nbytes + 8))


def scanned(
    tl: Any,
    x: Sequence[TensorRef],
    patch: Patch,
    scan: Scan,
    term: Callable[[int, Any], Any],
    join: Callable[[Any, Any], Any],
    other: float,
) -> Any:
    """*term* of the number of each tap and of the pixels under the tap, joined over all taps by *join*.

    *other* is the pixel outside of images, and joined to any pixel it leaves that one.
    """
    taps, found = range(len(scan.window.taps)), None
    loads = (gathered(tl, x, patch.sources, pixels(tl, scan, patch.outputs, tap), patch.cols, other) for tap in taps)
    for tap, parts in zip(taps, tl.ahead(loads, TAPS_TOGETHER - 1), strict=True):
        here = term(tap, reduce(join, parts))
        found = here if found is None else join(found, here)
        if tap % TAPS_TOGETHER == TAPS_TOGETHER - 1:
            found = found.reshape(found.shape)  # a view needs the bytes, so the math until here is issued
    return found
