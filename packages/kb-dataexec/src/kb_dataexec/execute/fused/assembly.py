"""Assembly: makes values from the bytes of other values: a part of one value, or parts of several."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array, numpy_dtype
from kb_dataexec.log.rows import DTYPES


class ValueLayout(NamedTuple):
    """The layout of a value in memory: rows of `row_nbytes` bytes, `stride` bytes apart. `dtype` is the log's code."""

    rows: int
    row_nbytes: int
    stride: int
    dtype: int

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self.rows * self.row_nbytes


class Source(NamedTuple):
    """A value that gives bytes to another value, and the distance of its first byte from that of the other value."""

    layout: ValueLayout
    distance: int


class _Copy(NamedTuple):
    """The words `to` of the target come from the words `place` of a source, in this order.

    Words are given as (rows, columns) if they are a rectangle of one shape in both, and else by their numbers alone.
    """

    to: tuple[Any, ...]
    place: tuple[Any, ...]


class Assembly:
    """Makes values of the layout *target* from values of the layouts of *sources*; later ones lie over earlier ones."""

    def __init__(self, target: ValueLayout, sources: Sequence[Source]) -> None:
        self._target = target
        self._unit = _unit(target, sources)
        self._width = target.row_nbytes // self._unit
        self._widths = [each.layout.row_nbytes // self._unit for each in sources]
        self._copies = [_copied(target, each, self._unit) for each in sources]
        self._is_same = len(sources) == 1 and sources[0].layout.nbytes == target.nbytes
        self._is_same &= target.rows == 1 or target.stride >= target.row_nbytes

    def filled(self, which: Sequence[int]) -> Array:
        """Whether each byte of the target comes from one of the sources *which*: (rows, bytes of a row)."""
        found = np.zeros((self._target.rows, self._width), np.bool_)
        for number in which:
            to = self._copies[number].to
            (found if len(to) == 2 else found.reshape(-1))[to] = True
        return np.repeat(found, self._unit, axis=1)

    def __call__(self, stacks: Sequence[Array]) -> Array:
        """The values for *stacks* of the sources: (n, rows, elements of a row) each."""
        words, count = np.dtype(f"u{self._unit}"), len(stacks[0])
        sources = [np.ascontiguousarray(stack).reshape(count, -1).view(words) for stack in stacks]
        if self._is_same:
            out = sources[0]
        else:
            out = np.empty((count, self._target.rows * self._width), words)
            for source, copy, width in zip(sources, self._copies, self._widths, strict=True):
                _copy(out.reshape(count, -1, self._width), source.reshape(count, -1, width), copy)
        dtype = numpy_dtype(DTYPES[self._target.dtype])
        return out.view(dtype).reshape(count, self._target.rows, -1)


def _copy(out: Array, source: Array, copy: _Copy) -> None:
    """Copys words of *source* to words of *out*; both are (n, rows, words of a row)."""
    if len(copy.to) == 1:
        out, source = out.reshape(len(out), -1), source.reshape(len(out), -1)
    out[:, *copy.to] = source[:, *copy.place]


def _unit(target: ValueLayout, sources: Sequence[Source]) -> int:
    """The largest word, in bytes, of which all rows and distances are multiples."""
    lengths = [8, target.row_nbytes, *([target.stride] if target.rows > 1 else [])]
    for layout, distance in sources:
        lengths += [layout.row_nbytes, distance, *([layout.stride] if layout.rows > 1 else [])]
    return gcd(*lengths)


def _copied(target: ValueLayout, source: Source, unit: int) -> _Copy:
    """The words that the target gets from *source*. Words are *unit* bytes long."""
    layout = source.layout
    across, width = target.row_nbytes // unit, layout.row_nbytes // unit
    if (source.distance, layout[:3]) == (0, target[:3]):
        everything = slice(0, target.rows), slice(0, across)
        return _Copy(everything, everything)
    row, col = np.divmod(np.arange(target.rows * across), across)
    away = row * (target.stride // unit) + col - source.distance // unit
    pitch = layout.stride // unit if layout.rows > 1 else max(int(away.max()), 0) + width + 1
    down, along = np.divmod(away, pitch)
    to = np.flatnonzero((away >= 0) & (down < layout.rows) & (along < width))
    place = down[to] * width + along[to]
    if len(to) and (np.diff(to) == 1).all() and (np.diff(place) == 1).all():
        return _Copy((slice(int(to[0]), int(to[-1]) + 1),), (slice(int(place[0]), int(place[-1]) + 1),))
    mine, theirs = _rectangle(to, across), _rectangle(place, width)
    if mine is not None and theirs is not None and _shape(mine) == _shape(theirs):
        return _Copy(mine, theirs)
    return _Copy((to,), (place,))


def _rectangle(words: Array, width: int) -> tuple[slice, slice] | None:
    """The rectangle that the ascending *words* are in rows of *width* words, or None."""
    if not len(words):
        return slice(0, 0), slice(0, 0)
    top, left = divmod(int(words[0]), width)
    bottom, right = divmod(int(words[-1]), width)
    found = slice(top, bottom + 1), slice(left, right + 1)
    if (bottom + 1 - top) * (right + 1 - left) != len(words):
        return None
    row, col = np.divmod(np.arange(len(words)), right + 1 - left)
    return found if ((row + top) * width + col + left == words).all() else None


def _shape(rectangle: tuple[slice, slice]) -> tuple[int, int]:
    rows, cols = rectangle
    return rows.stop - rows.start, cols.stop - cols.start
