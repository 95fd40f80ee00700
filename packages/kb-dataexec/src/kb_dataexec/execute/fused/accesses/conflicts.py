"""Groups of rectangles that must be matched together, because they share bytes and one of them is changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_messages import OFFSET_BITS

_PAIR_LIMIT: Final = 1 << 25
_PAIR_BLOCK: Final = 1 << 20
_CONFLICT_LIMIT: Final = 1 << 18


class IrregularError(Exception):
    """The records of a window do not have the form that fusing needs. They have to be executed in another way."""


class _TooManyError(Exception):
    """There are too many pairs of rectangles to compare each."""


class _Spans(NamedTuple):
    """Rectangles as bytes of one address space: `run` bytes from `low` on, `rows` times, `stride` bytes apart.

    A rectangle whose rows adjoin, or lie on top of each other, counts as one row.
    """

    low: Array
    rows: Array
    run: Array
    stride: Array


def connected(columns: list[Array], changed: Array) -> Array:
    """Returns a label for each rectangle. A chain of conflicts connects the rectangles of one label.

    *columns* are owner, offset, rows, row_nbytes and stride of each rectangle; other columns are ignored. Two
    rectangles conflict if they share a byte and one of them is *changed*. Rectangles of different strides conflict if
    their spans overlap, even if their bytes do not. With too many pairs to compare, all rectangles whose spans
    overlap get one label.
    """
    spans = _spans(columns)
    try:
        heads, a, b = _conflicts(spans, changed)
    except _TooManyError:
        return _runs_of(spans, np.arange(len(changed)))
    return _components(heads, a, b)


def _components(label: Array, a: Array, b: Array) -> Array:
    """Returns *label* after the labels of a[i] and b[i] were joined for every i.

    A label is the number of an element.
    """
    while True:
        one, other = label[a], label[b]
        apart = one != other
        if not apart.any():
            return label
        a, b, one, other = a[apart], b[apart], one[apart], other[apart]
        low, high = np.minimum(one, other), np.maximum(one, other)
        np.minimum.at(label, high, low)
        while (label[label] != label).any():
            label = label[label]


def _spans(columns: list[Array]) -> _Spans:
    owner, offset, rows, row_nbytes, stride = columns[:5]
    is_one_run = (stride == row_nbytes) | (stride == 0)
    run = np.where(stride == row_nbytes, rows * row_nbytes, row_nbytes)
    return _Spans(_numbers(owner) << OFFSET_BITS | offset, np.where(is_one_run, 1, rows), run, stride)


def _numbers(owner: Array) -> Array:
    """A number for each of the memories *owner*, in their order, which leaves 63 bits room for the offset."""
    if not len(owner):
        return owner
    lowest = int(owner.min())
    if int(owner.max()) - lowest < 1 << (63 - OFFSET_BITS):
        return owner - lowest
    return np.unique(owner, return_inverse=True)[1].reshape(-1)


def _conflicts(spans: _Spans, changed: Array) -> tuple[Array, Array, Array]:
    """Returns (a label for each rectangle, one side of all other pairs that conflict, the other side).

    Changed rectangles of one row that overlap have one label, that of the first of them, and are looked at together.
    """
    label = np.arange(len(changed))
    single = np.flatnonzero(changed & (spans.rows == 1))
    label[single] = _runs_of(spans, single)
    first = label == np.arange(len(changed))
    low, run = spans.low.copy(), spans.run.copy()
    ends = spans.low[single] + spans.run[single]
    np.maximum.at(run, label[single], ends - low[label[single]])
    merged = spans._replace(run=run)
    order = np.argsort(low, kind="stable")
    order = order[first[order]]
    found: list[tuple[Array, Array]] = []
    total = 0
    for some, others in ((order[changed[order]], order), (order[~changed[order]], order[changed[order]])):
        for a, b in _pairs(merged, some, others):
            hit = _share_bytes(merged, a, b)
            found.append((a[hit], b[hit]))
            total += len(found[-1][0])
            if total > _CONFLICT_LIMIT:
                raise _TooManyError
    if not found:
        return label, label[:0], label[:0]
    return label, np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])


def _runs_of(spans: _Spans, which: Array) -> Array:
    """A label for each of the rectangles *which*: the first rectangle of its chain of overlapping spans."""
    order = which[np.argsort(spans.low[which], kind="stable")]
    low = spans.low[order]
    reach = np.maximum.accumulate(low + (spans.rows[order] - 1) * spans.stride[order] + spans.run[order])
    opens = np.append(True, low[1:] >= reach[:-1])[: len(order)]
    label = np.empty(len(spans.low), np.int64)
    label[order] = order[opens][np.cumsum(opens) - 1]
    return label[which]


def _pairs(spans: _Spans, first: Array, others: Array) -> Iterator[tuple[Array, Array]]:
    """Yields pairs (one of *first*, one of *others* that begins within its span), in blocks of about _PAIR_BLOCK pairs.

    *first* and *others* are sorted by address.
    """
    low = spans.low[others]
    high = spans.low + (spans.rows - 1) * spans.stride + spans.run
    begin = np.searchsorted(low, spans.low[first])
    count = np.maximum(np.searchsorted(low, high[first]) - begin, 0)
    if count.sum() > _PAIR_LIMIT:
        raise _TooManyError
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
