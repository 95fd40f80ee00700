"""Weight: the matrix of a linear op, in the dtype of activations or quantised, cut into panels of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from kb_engine import cast, product_tolerance
from kb_messages import BenchmarkError, DType
from kb_models.layout import Part, Value
from kb_models.layout.value import Array, Content
from kb_models.ops.op import Read

Quantisation: TypeAlias = Literal["same", "int8", "fp8", "int4"]
QUANTISATIONS: Final[tuple[str, ...]] = get_args(Quantisation)
GROUP: Final = 128
"""The elements along K that share a scale of an int4 weight. Source: Lin et al., "AWQ", arXiv 2306.00978."""
_STORED: Final = {"int8": DType.I8, "fp8": DType.F8E4M3, "int4": DType.U8}
_SPREAD: Final = {"int8": 42.0, "fp8": 1.0, "int4": 2.5}
"""The deviation of the stored numbers. Source: assumed; three deviations are the largest number of int8 and int4."""
_LARGEST: Final = {"int8": 127, "int4": 7}
_COLUMNS: Final = 1 << 24
"""The elements of a block of a reference."""


class Panel(NamedTuple):
    """Columns *start* to *stop* of rows *down* of a weight, in a cube, near PE number *pe* or, with None, over it."""

    down: tuple[int, int]
    cols: tuple[int, int]
    cube: int
    pe: int | None


class Weight:
    """A matrix of K x N for panels of columns.

    `same` has the dtype of activations. `int8` and `fp8` (f8e4m3) have a scale for each column. `int4` has one for each
    column of `GROUP` elements along K, and two groups share bytes: the first has the low four bits. A stored number is
    8 above its int4. The columns lie in the order *order*, in which one may come several times.
    """

    def __init__(
        self, name: str, k: int, n: int, panels: Sequence[Panel], order: Array, dtype: DType, kind: Quantisation
    ) -> None:
        """Raises BenchmarkError for an unknown *kind*."""
        if kind not in QUANTISATIONS:
            raise BenchmarkError(f"op {name}", f"weights={kind!r}", f"one of {', '.join(QUANTISATIONS)}")
        self.kind, self.order, self.n = kind, order, n
        self.downs = sorted({panel.down for panel in panels})
        self._shape = k, len(order)
        self.w = self._weight(f"{name}.w", panels, dtype)
        self.scale = None if kind == "same" else self._scale(f"{name}.scale", panels)

    @property
    def values(self) -> tuple[Value, ...]:
        """The numbers, and the scales of a quantised weight."""
        return (self.w,) if self.scale is None else (self.w, self.scale)

    def product(self, read: Read, x: Array, down: tuple[int, int]) -> Array:
        """X W in float64, of rows *down* of W alone, in the order of the stored columns."""
        return np.concatenate([x.astype(np.float64) @ block for block in self._blocks(read, down)], axis=1)

    def lost(self, read: Read, x: Array, down: tuple[int, int]) -> Array:
        """The error of sums of K products, X W of rows *down*, in f32, with a few roundings more. Shape of `product`.

        Source: `gemm_tolerance`; the roundings of the sum, its scale and what is added are at most the fourth part.
        """
        found = []
        for block in self._blocks(read, down):
            zero = np.zeros((len(x), block.shape[1]))
            found.append(
                (1 + 4 / (down[1] - down[0]) ** 0.5) * product_tolerance(zero, x, block.astype(np.float32), DType.F32)
            )
        return np.concatenate(found, axis=1)

    def _blocks(self, read: Read, down: tuple[int, int]) -> Any:
        """Rows *down* of the matrix in float64, 128 MiB at a time."""
        w, scale = read(self.w), None if self.scale is None else read(self.scale)
        step = max(1, _COLUMNS // (down[1] - down[0]))
        for at in range(0, len(self.order), step):
            cols = slice(at, at + step)
            if self.kind == "int4":
                assert scale is not None, "int4 has scales"
                yield self._unpacked(w[:, cols], scale[:, cols], down)
            else:
                block = w[down[0] : down[1], cols].astype(np.float64)
                yield block if scale is None else block * scale[:, cols].astype(np.float64)

    def _unpacked(self, packed: Array, scale: Array, down: tuple[int, int]) -> Array:
        found = np.empty((down[1] - down[0], packed.shape[1]))
        for pair in pairs_of(down[1] - down[0]):
            rows = packed[self._packed_start(down) + pair.byte : self._packed_start(down) + pair.byte + pair.low]
            first = self._group_start(down) + pair.group
            found[pair.row : pair.row + pair.low] = ((rows & 15).astype(np.float64) - 8) * scale[first]
            if pair.high:
                high = (rows[: pair.high] >> 4).astype(np.float64) - 8
                found[pair.row + pair.low : pair.row + pair.low + pair.high] = high * scale[first + 1]
        return found

    def _packed_start(self, down: tuple[int, int]) -> int:
        return sum(packed_rows(stop - start) for start, stop in self.downs if start < down[0])

    def _group_start(self, down: tuple[int, int]) -> int:
        return sum(-(-(stop - start) // GROUP) for start, stop in self.downs if start < down[0])

    def _weight(self, name: str, panels: Sequence[Panel], dtype: DType) -> Value:
        (k, n), kind = self._shape, self.kind
        stored = _STORED.get(kind, dtype)
        rows = sum(packed_rows(b - a) for a, b in self.downs) if kind == "int4" else k
        parts = tuple(Part((self._rows(panel.down), panel.cols), panel.cube, panel.pe) for panel in panels)
        if kind == "same":
            content = ordered(normal((k, self.n), k**-0.5, dtype), self.order)
        else:
            content = ordered(self._numbers((rows, self.n), stored), self.order)
        return Value(name=name, shape=(rows, n), dtype=stored, parts=parts, content=content)

    def _rows(self, down: tuple[int, int]) -> tuple[int, int]:
        if self.kind != "int4":
            return down
        start = self._packed_start(down)
        return start, start + packed_rows(down[1] - down[0])

    def _numbers(self, shape: tuple[int, int], dtype: DType) -> Content:
        spread, kind = _SPREAD[self.kind], self.kind

        def integers(rng: np.random.Generator) -> Array:
            largest = _LARGEST[kind]
            drawn = spread * rng.standard_normal(shape, np.float32)
            found: Array = np.clip(np.rint(drawn), -largest - (kind == "int4"), largest).astype(np.int8)
            return found

        def packed(rng: np.random.Generator) -> Array:
            low, high = ((integers(rng) + 8).astype(np.uint8) for _ in range(2))
            found: Array = low | (high << 4).astype(np.uint8)
            return found

        return {"int8": integers, "int4": packed}.get(kind, normal(shape, spread, dtype))

    def _scale(self, name: str, panels: Sequence[Panel]) -> Value:
        k, n = self._shape
        rows = sum(-(-(b - a) // GROUP) for a, b in self.downs) if self.kind == "int4" else 1
        parts = tuple(Part((self._scale_rows(panel.down), panel.cols), panel.cube, panel.pe) for panel in panels)
        usual = k**-0.5 / _SPREAD[self.kind]

        def content(rng: np.random.Generator) -> Array:
            found: Array = (usual * rng.uniform(0.5, 1.5, (rows, self.n))).astype(np.float32)
            return found

        return Value(name=name, shape=(rows, n), dtype=DType.F32, parts=parts, content=ordered(content, self.order))

    def _scale_rows(self, down: tuple[int, int]) -> tuple[int, int]:
        if self.kind != "int4":
            return 0, 1
        start = self._group_start(down)
        return start, start - (-(down[1] - down[0]) // GROUP)


class Pair(NamedTuple):
    """Two groups of an int4 weight: the first row and its group, the first row of bytes, and the rows of each group."""

    row: int
    group: int
    byte: int
    low: int
    high: int


def pairs_of(k: int) -> list[Pair]:
    """The pairs of groups of *k* elements along K."""
    starts = range(0, k, 2 * GROUP)
    return [
        Pair(row, row // GROUP, row // 2, min(GROUP, k - row), max(0, min(GROUP, k - row - GROUP))) for row in starts
    ]


def packed_rows(k: int) -> int:
    """The rows of bytes of *k* rows of an int4 weight."""
    return sum(pair.low for pair in pairs_of(k))


def ordered(content: Content, order: Array) -> Content:
    """The columns of *content* in the order *order*."""

    def make(rng: np.random.Generator) -> Array:
        found = content(rng)
        if len(order) == found.shape[-1] and (order == np.arange(len(order))).all():
            return found
        return np.take(found, order, axis=-1)

    return make


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
