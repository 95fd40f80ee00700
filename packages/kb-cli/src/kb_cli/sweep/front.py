"""The Pareto front: the points that no other point beats in everything."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import numpy.typing as npt


def front(figures: npt.NDArray[np.float64]) -> list[int]:
    """The rows of *figures* (points, figures) that no other row is at most as large as in all columns and smaller in
    one, in order of the first column and then of the others. Smaller is better. Equal rows are all there.

    Up to three columns take about the time of a sort. With more of them, each row is compared with those of the front
    before it.
    """
    order = np.lexsort(figures.T[::-1])
    rows = figures[order]
    is_first = np.ones(len(rows), np.bool_)
    is_first[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    kept = _of_different(rows[is_first])[np.cumsum(is_first) - 1]
    found: list[int] = order[kept].tolist()
    return found


def _of_different(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which of *rows* are on the front. No two are equal, and each can only be beaten by one before it."""
    n, columns = rows.shape
    if columns <= 3:
        return _by_stairs(np.hstack([rows, np.zeros((n, 3 - columns))])[:, 1:].tolist())
    kept = np.ones(n, np.bool_)
    best, n_best = np.empty_like(rows), 0
    for at, row in enumerate(rows):
        kept[at] = not (best[:n_best] <= row).all(axis=1).any()
        if kept[at]:
            best[n_best] = row
            n_best += 1
    return kept


def _by_stairs(pairs: list[tuple[float, float]]) -> npt.NDArray[np.bool_]:
    """Which of *pairs* have none before them that is at most as large in both.

    Of the pairs so far, those that none beats are stairs: the first numbers rise, and the second ones fall.
    Source: H. T. Kung, F. Luccio and F. P. Preparata, On Finding the Maxima of a Set of Vectors, 1975.
    """
    kept = np.zeros(len(pairs), np.bool_)
    rising: list[float] = []
    falling: list[float] = []
    for at, (first, second) in enumerate(pairs):
        begin = bisect_right(rising, first)
        if begin and falling[begin - 1] <= second:
            continue
        kept[at] = True
        begin = bisect_left(rising, first, hi=begin)
        end = begin
        while end < len(falling) and falling[end] >= second:
            end += 1
        rising[begin:end], falling[begin:end] = [first], [second]
    return kept
