"""ByteSets: splits bytes into the coarsest disjoint sets such that every rectangle is a union of sets.

Rectangles are not compared in pairs. Rectangles whose address ranges meet form a component, such as a tensor. When all
rows of a component have one stride, its bytes are a table of rows and columns. Neighbouring rows at which no rectangle
begins or ends are taken together, so a tile of 128 rows costs no more than a tile of one row. When strides differ, each
row counts by itself.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.ranges import spread

_SEEDS: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)


class ByteSets(NamedTuple):
    """Rectangle i is the union of the sets `member[first[i]:first[i + 1]]`, whose numbers ascend."""

    first: Array
    member: Array


class _Runs(NamedTuple):
    """Runs [begin, end) of bytes on one line that holds all rectangles, and the rectangle of each run."""

    begin: Array
    end: Array
    rectangle: Array


class _Parts(NamedTuple):
    """Blocks of the table of a component: rows [row, row + rows) and columns [col, col + cols) of a rectangle."""

    rectangle: Array
    row: Array
    rows: Array
    col: Array
    cols: Array

    @classmethod
    def joined(cls, parts: list[_Parts]) -> _Parts:
        """All blocks of *parts* that are not empty."""
        whole = [np.concatenate(column) for column in zip(*parts, strict=True)]
        kept = (whole[2] > 0) & (whole[4] > 0)
        return cls(*(column[kept] for column in whole))


def split_bytes(owner: Array, offset: Array, rows: Array, row_nbytes: Array, stride: Array) -> ByteSets:
    """Splits the bytes of the rectangles in these columns (int64) into sets. An empty rectangle has no set."""
    runs = _runs(*_without_gaps(owner, offset, rows, row_nbytes, stride))
    bounds = np.unique(np.concatenate((runs.begin, runs.end)))
    begin, end = np.searchsorted(bounds, runs.begin), np.searchsorted(bounds, runs.end)
    interval, run = spread(begin, end - begin)
    for seed in _SEEDS:
        cover = _cover(len(bounds), begin, end, runs.rectangle, seed)
        _, covered_alike, width = np.unique(cover, return_inverse=True, return_counts=True)
        pairs, found = np.unique(runs.rectangle[run] * len(width) + covered_alike[interval], return_counts=True)
        rectangle, member = np.divmod(pairs, max(len(width), 1))
        if (found == width[member]).all():  # otherwise two sets of rectangles have the same hash
            return ByteSets(np.append(0, np.cumsum(np.bincount(rectangle, minlength=len(owner)))), member)
    raise AssertionError("four different hashes, and collisions of all of them")


def _cover(length: int, begin: Array, end: Array, rectangle: Array, seed: int) -> Array:
    """For each elementary interval, the sum of the hashes of the rectangles that cover it."""
    number = (rectangle.astype(np.uint64) + np.uint64(1)) * np.uint64(seed)
    number = (number ^ (number >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    number ^= number >> np.uint64(32)
    change = np.zeros(length, np.uint64)
    np.add.at(change, begin, number)
    np.subtract.at(change, end, number)
    return np.cumsum(change)


def _without_gaps(owner: Array, offset: Array, rows: Array, row_nbytes: Array, stride: Array) -> tuple[Array, ...]:
    """The rectangles with adjoining or overlapping rows joined to one row. Empty rectangles get no row."""
    joined = (rows == 1) | (stride <= row_nbytes)
    row_nbytes = np.where(joined, (rows - 1) * stride + row_nbytes, row_nbytes)
    rows = np.where(row_nbytes > 0, np.where(joined, np.minimum(rows, 1), rows), 0)
    return owner, offset, rows, row_nbytes, np.where(joined, 0, stride)


def _runs(owner: Array, offset: Array, rows: Array, row_nbytes: Array, stride: Array) -> _Runs:
    component, base, pitch = _components(owner, offset, rows, row_nbytes, stride)
    parts = _Parts.joined(_tabled(offset - base[component], rows, row_nbytes, stride, pitch[component]))
    home = component[parts.rectangle]
    height = np.zeros(len(base), np.int64)
    np.maximum.at(height, home, parts.row + parts.rows)
    top = (np.cumsum(height + 1) - height - 1)[home] + parts.row
    slabs = np.unique(np.concatenate((top, top + parts.rows)))
    width = np.zeros(len(slabs), np.int64)
    first = np.searchsorted(slabs, top)
    slab, part = spread(first, np.searchsorted(slabs, top + parts.rows) - first)
    np.maximum.at(width, slab, (parts.col + parts.cols)[part])
    begin = (np.cumsum(width) - width)[slab] + parts.col[part]
    return _Runs(begin, begin + parts.cols[part], parts.rectangle[part])


def _components(
    owner: Array, offset: Array, rows: Array, row_nbytes: Array, stride: Array
) -> tuple[Array, Array, Array]:
    """Returns (each rectangle's component, each component's first offset, the stride that all its rows share or 0)."""
    order = np.lexsort((offset, owner))
    low = offset[order]
    high = low + np.maximum((rows - 1) * stride + row_nbytes, 0)[order]
    changes = np.append(True, np.diff(owner[order]) != 0)[: len(order)]
    memory = np.cumsum(changes) - 1
    span = int(high.max() - low.min()) + 1 if len(order) else 1
    reach = np.maximum.accumulate(high - low.min(initial=0) + memory * span) - memory * span + low.min(initial=0)
    opens = changes | np.append(True, low[1:] >= reach[:-1])[: len(order)]
    component = np.empty(len(order), np.int64)
    component[order] = np.cumsum(opens) - 1
    base = low[opens]
    least, most = np.full(len(base), np.iinfo(np.int64).max), np.zeros(len(base), np.int64)
    tall = rows > 1
    np.minimum.at(least, component[tall], stride[tall])
    np.maximum.at(most, component[tall], stride[tall])
    return component, base, np.where(least == most, most, 0)


def _tabled(distance: Array, rows: Array, row_nbytes: Array, stride: Array, pitch: Array) -> list[_Parts]:
    """The rectangles as blocks of tables with rows of *pitch* bytes. A table has one row when the pitch is 0."""
    every = np.arange(len(distance))
    flat = every[pitch == 0]
    nth, which = spread(np.zeros(len(flat), np.int64), rows[flat])
    at = flat[which]
    ones = np.ones(len(at), np.int64)
    single = _Parts(at, 0 * ones, ones, distance[at] + nth * stride[at], row_nbytes[at])
    tall = every[(pitch > 0) & (rows > 1)]
    row, col = np.divmod(distance[tall], pitch[tall])
    left = np.minimum(row_nbytes[tall], pitch[tall] - col)
    here = _Parts(tall, row, rows[tall], col, left)
    wrapped = _Parts(tall, row + 1, rows[tall], 0 * col, row_nbytes[tall] - left)
    return [single, here, wrapped, *_lines(every[(pitch > 0) & (rows == 1)], distance, row_nbytes, pitch)]


def _lines(one: Array, distance: Array, nbytes: Array, pitch: Array) -> list[_Parts]:
    """Rectangles of one row as blocks of a table: the part in the first row, the whole rows, the part in the last."""
    pitch, begin = pitch[one], distance[one]
    end: Any = begin + nbytes[one]
    row, col = np.divmod(begin, pitch)
    first = np.minimum(end - begin, pitch - col)
    whole = (end - begin - first) // pitch
    last = end - begin - first - whole * pitch
    return [
        _Parts(one, row, np.ones_like(row), col, first),
        _Parts(one, row + 1, whole, 0 * col, pitch),
        _Parts(one, row + 1 + whole, np.ones_like(row), 0 * col, last),
    ]
