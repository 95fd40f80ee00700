"""Pools of images: the largest pixel or the mean of a window, and the mean of whole images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import add
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from kb_engine import Host, TensorRef, default_tolerance
from kb_messages import BenchmarkError, DType
from kb_models.layout import Mesh, Tensors, Value, cut
from kb_models.layout.value import Array
from kb_models.ops.images.window import (
    Images,
    Patch,
    Scan,
    Source,
    Window,
    even,
    most_elements,
    padded,
    patches,
    scanned,
    sources_of,
    under_tap,
)
from kb_models.ops.op import Op, Read


def max_kernel(
    tl: Any, x: Sequence[TensorRef], y: Sequence[TensorRef], work: Sequence[Sequence[Patch]], scan: Scan
) -> None:
    """A program takes the largest pixel under each of its windows."""
    for patch in work[tl.program_id()]:
        found = scanned(tl, x, patch, scan, lambda tap, under: under, tl.maximum, float("-inf"))
        tl.store(y[patch.cube][patch.rows, patch.cols], found)


def mean_kernel(
    tl: Any,
    x: Sequence[TensorRef],
    factors: Sequence[TensorRef],
    y: Sequence[TensorRef],
    work: Sequence[Sequence[Patch]],
    scan: Scan,
) -> None:
    """A program adds up the pixels under each of its windows, and multiplies by a factor for each."""
    for patch in work[tl.program_id()]:
        found = scanned(tl, x, patch, scan, lambda tap, under: under.to("f32"), add, 0.0)
        if factors:
            found = found * tl.load(factors[patch.cube][patch.rows, :])
        else:
            found = found * (1 / len(scan.window.taps))
        tl.store(y[patch.cube][patch.rows, patch.cols], found.to(y[patch.cube].dtype))


class Pool(Op):
    """The largest pixel (`way` "max") or the mean (`way` "average") of each channel under a window.

    Y lies as X: its rows are split by the number of outputs, and its channels as the channels of X. Pixels around an
    image are never the largest. They count as zeros of a mean, unless *counts_padding* is false: then a mean is that of
    the pixels inside, by a factor for each output that the kernel loads.

    Raises BenchmarkError for another way, and where padding leaves a window without a pixel.
    """

    kind = "pool"

    def __init__(
        self,
        name: str,
        mesh: Mesh,
        x: Images,
        window: Window,
        way: Literal["max", "average"],
        *,
        counts_padding: bool = True,
    ) -> None:
        if way not in ("max", "average"):
            raise BenchmarkError(f"op {name}", f"a pool by {way!r}", "max or average")
        self.mesh, self.images, self.way, self.x = mesh, x, way, x.value
        self.scan = Scan(window, x.height, x.width, *window.over(name, x.height, x.width))
        shape, axes, dtype = (x.batch * self.scan.down * self.scan.across, x.channels), x.value.axes, x.value.dtype
        self.y = Value(name=name, shape=shape, dtype=dtype, parts=mesh.parts(shape, axes), axes=axes)
        inside = self._counts()
        if not inside.all():
            got = f"windows of {window.kernel} with padding {window.padding}, some without a pixel of the image"
            raise BenchmarkError(f"op {name}", got, "a pixel in each window", "less padding")
        self.scale: Value | None = None
        if way == "average" and not counts_padding and inside.min() < len(window.taps):
            column = np.tile((1 / inside).astype(np.float32).reshape(-1, 1), (x.batch, 1))
            self.scale = Value(
                name=f"{name}.scale",
                shape=column.shape,
                dtype=DType.F32,
                parts=mesh.parts(column.shape, (axes[0], "")),
                content=lambda rng: column,
                role="table",
            )
        self.flops = shape[0] * shape[1] * len(window.taps)
        self.terms = len(window.taps)
        super().__init__(name, (self.x, *((self.scale,) if self.scale else ())), (self.y,))

    @property
    def result(self) -> Images:
        """Y as images."""
        return Images(self.y, self.images.batch, self.scan.down, self.scan.across)

    def _counts(self) -> Array:
        """The pixels of the image under the window at each output of an image."""
        one = padded(np.ones((self.images.height, self.images.width, 1), np.int64), self.scan.window, 0)
        found: Array = np.add.reduce([under_tap(one, tap, self.scan) for tap in self.scan.window.taps])
        return found

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE."""
        work = patches(self.mesh, self.x, self.y, most_elements(host, self.x))
        x, y = tensors[self.x], tensors[self.y]
        if self.way == "max":
            host.launch(max_kernel, x, y, work, self.scan, pes=self.mesh.pes)
        else:
            factors = [] if self.scale is None else tensors[self.scale]
            host.launch(mean_kernel, x, factors, y, work, self.scan, pes=self.mesh.pes)

    def reference(self, read: Read) -> dict[str, Array]:
        """The definition, tap by tap, in float64."""
        x = read(self.x).reshape(self.images.batch, self.images.height, self.images.width, -1)
        largest = self.way == "max"
        found = np.full((self.images.batch, *self._counts().shape[:2], self.y.shape[1]), -np.inf if largest else 0.0)
        for image, result in zip(x, found, strict=True):
            wide = padded(image.astype(np.float64), self.scan.window, -np.inf if largest else 0.0)
            for tap in self.scan.window.taps:
                (np.maximum if largest else np.add)(result, under_tap(wide, tap, self.scan), out=result)
        if not largest:
            found /= len(self.scan.window.taps) if self.scale is None else self._counts()
        return {self.y.name: found.reshape(self.y.shape)}

    def tolerance(self, read: Read, expected: Any) -> dict[str, Array]:
        """Zero for the largest pixel, which is one of X; the default for means."""
        array = expected[self.y.name]
        if self.way == "max":
            return {self.y.name: np.zeros(array.shape)}
        return {self.y.name: default_tolerance(array, self.y.dtype, self.terms)}


class Share(NamedTuple):
    """Channels `cols` of image `row`, numbered in a cube's part of Y, and the parts of X that have its pixels."""

    cube: int
    row: int
    cols: slice
    sources: tuple[Source, ...]


MOST_PIXELS: Final = 64
"""Pixels of an image that a program loads at once. Source: assumed."""
MOST_CHANNELS: Final = 1024
"""Channels that a program adds up at once. Source: assumed."""


def global_kernel(
    tl: Any,
    x: Sequence[TensorRef],
    y: Sequence[TensorRef],
    work: Sequence[Sequence[Share]],
    pixels: int,
    together: int,
) -> None:
    """A program adds up all pixels of its images and channels, *together* loads by one vector program."""
    for share in work[tl.program_id()]:
        blocks = [(each.part, rows) for each in share.sources for rows in even(each.start, each.stop, MOST_PIXELS)]
        loads = (tl.load_async(x[part][rows, share.cols]) for part, rows in blocks)
        total: Any = None
        for number, found in enumerate(tl.ahead(loads, together)):
            part = tl.sum(found.to("f32"), axis=0)
            total = part if total is None else total + part
            if number % together == together - 1:
                total = total.reshape(total.shape)  # a view needs the bytes, so the math until here is issued
        mean = (total * (1 / pixels)).reshape(-1)
        tl.store(y[share.cube][share.row, share.cols], mean.to(y[share.cube].dtype))


class GlobalPool(Op):
    """The mean of all pixels of each image: Y of (batch, channels).

    Where images lie whole in their cubes, by the axis `batch`, the rows of Y are split as the images. Otherwise each
    cube has a copy of Y, and reads all pixels. The channels of Y are split as the channels of X.
    """

    kind = "pool"

    def __init__(self, name: str, mesh: Mesh, x: Images) -> None:
        self.mesh, self.images, self.x = mesh, x, x.value
        pixels, row_axis = x.height * x.width, x.value.axes[0]
        whole_images = all(bound % pixels == 0 for part in x.value.parts for bound in part.bounds[0])
        keeps_rows = row_axis == "batch" and whole_images
        axes, shape = (row_axis if keeps_rows else "", x.value.axes[1]), (x.batch, x.channels)
        self.y = Value(name=name, shape=shape, dtype=x.value.dtype, parts=mesh.parts(shape, axes), axes=axes)
        self.flops = x.value.shape[0] * x.channels
        self.terms = pixels
        super().__init__(name, (self.x,), (self.y,))

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE."""
        pes = self.mesh.pes_per_cube
        work = [list(self._shares(cube.number, place)) for cube in self.mesh.cubes for place in range(pes)]
        pixels = self.images.height * self.images.width
        widest = max((share.cols.stop - share.cols.start for shares in work for share in shares), default=1)
        block = min(pixels, MOST_PIXELS) * widest * self.x.dtype.nbytes
        together = max(1, host.tcm_nbytes // 3 // block)  # TCM holds the loads of two vector programs
        host.launch(global_kernel, tensors[self.x], tensors[self.y], work, pixels, together, pes=self.mesh.pes)

    def _shares(self, cube: int, place: int) -> Iterator[Share]:
        """The images and channels of PE *place* of a cube: each image in as many parts as there are PEs for it."""
        part, sources = self.y.parts[cube], sources_of(self.x.parts, cube)
        images, channels = part.shape
        pixels, along = self.images.height * self.images.width, min(channels, max(1, self.mesh.pes_per_cube // images))
        for number in range(place, images * along, self.mesh.pes_per_cube):
            image, j = divmod(number, along)
            first, last = ((part.bounds[0][0] + image + end) * pixels for end in (0, 1))
            here = tuple(
                Source(each.part, max(first, each.start) - each.start, min(last, each.stop) - each.start)
                for each in sources
                if max(first, each.start) < min(last, each.stop)
            )
            for cols in even(*cut(channels, along, j), MOST_CHANNELS):
                yield Share(cube, image, cols, here)

    def reference(self, read: Read) -> dict[str, Array]:
        """The definition in float64."""
        x = read(self.x).reshape(self.images.batch, -1, self.x.shape[1])
        return {self.y.name: np.stack([image.astype(np.float64).mean(axis=0) for image in x])}
