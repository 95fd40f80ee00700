"""Groups of rectangles that must be looked at together, because they share bytes and one of them is changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array

_PAIR_LIMIT: Final = 1 << 25
_PAIR_BLOCK: Final = 1 << 20
_CONFLICT_LIMIT: Final = 1 << 18


class IrregularError(Exception):
    """The records of a window do not have the form that fusing needs. They have to be executed in another way."""


class _Spans(NamedTuple):
    """Rectangles as bytes of one address space: `run` bytes from `low` on, `rows` times, `stride` bytes apart.

    A rectangle whose rows adjoin, or lie on top of each other, counts as one row.
    """

    low: Array
    rows: Array
    run: Array
    stride: Array


def connected(columns: list[Array], changed: Array) -> Array:
    """A label for each rectangle. A chain of conflicts connects the rectangles of one label.

    *columns* are owner, offset, rows, row_nbytes and stride of each rectangle; further columns are ignored. Two
    rectangles conflict if they share a byte and one of them is *changed*. Rectangles of different strides conflict if
    their spans overlap, even if their bytes do not. Raises IrregularError when there are too
    many pairs to look at.
    """
    label = np.arange(len(changed))
    parent = label.tolist()

    def root(cell: int) -> int:
        while parent[cell] != cell:
            parent[cell] = parent[parent[cell]]
            cell = parent[cell]
        return cell

    conflicts = _conflicts(_spans(columns), changed)
    for a, b in conflicts:
        parent[root(a)] = root(b)
    return np.array([root(cell) for cell in parent]) if conflicts else label


def _spans(columns: list[Array]) -> _Spans:
    owner, offset, rows, row_nbytes, stride = columns[:5]
    is_one_run = (stride == row_nbytes) | (stride == 0)
    run = np.where(stride == row_nbytes, rows * row_nbytes, row_nbytes)
    return _Spans(owner << 32 | offset, np.where(is_one_run, 1, rows), run, stride)


def _conflicts(spans: _Spans, changed: Array) -> list[tuple[int, int]]:
    """All pairs of rectangles that conflict."""
    order = np.argsort(spans.low, kind="stable")
    found: list[tuple[int, int]] = []
    for first, others in ((order[changed[order]], order), (order[~changed[order]], order[changed[order]])):
        for a, b in _pairs(spans, first, others):
            hit = _share_bytes(spans, a, b)
            found += zip(a[hit].tolist(), b[hit].tolist(), strict=True)
            if len(found) > _CONFLICT_LIMIT:
                raise IrregularError("too many rectangles that overlap")
    return found


def _pairs(spans: _Spans, first: Array, others: Array) -> Iterator[tuple[Array, Array]]:
    """Pairs (one of *first*, one of *others* that begins within its span), in blocks of about _PAIR_BLOCK pairs.

    *first* and *others* are sorted by address.
    """
    low = spans.low[others]
    high = spans.low + (spans.rows - 1) * spans.stride + spans.run
    begin = np.searchsorted(low, spans.low[first])
    count = np.maximum(np.searchsorted(low, high[first]) - begin, 0)
    if count.sum() > _PAIR_LIMIT:
        raise IrregularError("too many rectangles side by side")
    ends = np.cumsum(count)
    start = 0
    while start < len(first):
        base = ends[start] - count[start]
        stop = max(start + 1, int(np.searchsorted(ends, base + _PAIR_BLOCK)))
        repeat = count[start:stop]
        a = np.repeat(first[start:stop], repeat)
        nth = np.arange(len(a)) - np.repeat(ends[start:stop] - repeat - base, repeat)
        b = others[nth + np.repeat(begin[start:stop], repeat)]
        yield a[a != b], b[a != b]
        start = stop


def _share_bytes(spans: _Spans, a: Array, b: Array) -> Any:
    """Whether the spans a[i] and b[i] share a byte; True for two spans of several rows and different strides.

    Rows i of a and j of b share a byte when -run_a < t stride - d < run_b, where t = i - j and d = low_b - low_a.
    """
    low, rows, run, stride = spans
    step = np.where(rows[a] > 1, stride[a], np.where(rows[b] > 1, stride[b], 1 << 40))
    d = low[b] - low[a]
    least = np.maximum((d - run[a]) // step + 1, 1 - rows[b])
    most = np.minimum((d + run[b] - 1) // step, rows[a] - 1)
    return (least <= most) | ((rows[a] > 1) & (rows[b] > 1) & (stride[a] != stride[b]))
