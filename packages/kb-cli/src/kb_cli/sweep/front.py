"""The Pareto front: the points that no other point beats in everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

_Rows = npt.NDArray[np.float64]
_Marks = npt.NDArray[np.bool_]
_FEW_PAIRS: Final = 1 << 12
"""The pairs of rows that are compared at once. Source: the fastest of the powers of two on fronts of 40,000 points."""


def front(figures: npt.NDArray[np.float64], within: float = 0.0) -> list[int]:
    """Returns the rows of *figures* (points, figures) that no other row beats, sorted by the first column, then the
    others.

    A row beats another one if it is at most as large in all columns and smaller in one. Equal rows are all in the
    front. Of n points with k figures it takes about n log(n)^(k - 2) steps, and no more than for three figures where
    there are fewer.

    Numbers of the first column, 0 or more, that differ by a share of at most *within* count as equal. So a row leaves
    the front where a row of the front is smaller in one other column, not larger in any, and at most *within* larger in
    the first. A row that is at most *within* larger than a row of the front in the first column, and equal in all
    others, is in the front too. With *within*, it takes some steps more for each pair of rows of the exact front.
    Source: epsilon-dominance, in one column; M. Laumanns, L. Thiele, K. Deb and E. Zitzler, Combining Convergence and
    Diversity in Evolutionary Multiobjective Optimization, 2002.
    """
    exact = _exact_front(figures)
    if not within or not exact:
        return exact
    stay = _not_near_cheaper(figures, exact, within)
    costs = np.unique(figures[:, 1:], axis=0, return_inverse=True)[1].reshape(-1)
    most = np.full(len(figures), -np.inf)
    most[costs[stay]] = figures[stay, 0] * (1 + within)
    near = np.flatnonzero(figures[:, 0] <= most[costs])
    found: list[int] = near[np.lexsort(figures[near].T[::-1])].tolist()
    return found


def _exact_front(figures: _Rows) -> list[int]:
    """Does the same as `front` without a tolerance."""
    order = np.lexsort(figures.T[::-1])
    rows = figures[order]
    is_first = np.ones(len(rows), np.bool_)
    is_first[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    different = rows[is_first]
    others = np.zeros((len(different), max(2, rows.shape[1] - 1)))
    others[:, : rows.shape[1] - 1] = different[:, 1:]
    kept = _unbeaten(others)[np.cumsum(is_first) - 1]
    found: list[int] = order[kept].tolist()
    return found


def _not_near_cheaper(figures: _Rows, exact: Sequence[int], within: float) -> list[int]:
    """Returns the rows of *figures* that stay of the front *exact* where none stays for a gain of *within* alone.

    The cheapest are taken first, so that a row that left makes no other row leave.
    """
    rows = figures[exact]
    stay: list[int] = []
    costs, times = np.empty_like(rows[:, 1:]), np.empty(len(rows))
    for at in np.lexsort(rows.T):
        n = len(stay)
        near = times[:n] <= rows[at, 0] * (1 + within)
        cheaper = (costs[:n] <= rows[at, 1:]).all(axis=1) & (costs[:n] < rows[at, 1:]).any(axis=1)
        if not (near & cheaper).any():
            costs[n], times[n] = rows[at, 1:], rows[at, 0]
            stay.append(exact[at])
    return stay


def _unbeaten(rows: _Rows) -> _Marks:
    """Marks those of *rows* that have none before them that is at most as large in all columns.

    Source: H. T. Kung, F. Luccio and F. P. Preparata, On Finding the Maxima of a Set of Vectors, 1975.
    """
    n = len(rows)
    if n * n <= _FEW_PAIRS:
        beats = (rows[:, None] <= rows).all(axis=2)
        unbeaten: _Marks = ~np.any(np.triu(beats, 1), axis=0)
        return unbeaten
    half = n // 2
    kept = np.concatenate([_unbeaten(rows[:half]), _unbeaten(rows[half:])])
    behind = half + np.flatnonzero(kept[half:])
    kept[behind] = ~_beaten(rows[:half][kept[:half]], rows[behind])
    return kept


def _beaten(by: _Rows, rows: _Rows) -> _Marks:
    """Marks the rows for which some row of *by* is at most as large in all columns, of which there are two or more."""
    if len(by) * len(rows) <= _FEW_PAIRS:
        few: _Marks = np.any((by[:, None] <= rows).all(axis=2), axis=0)
        return few
    if rows.shape[1] == 2:
        return _beaten_in_two(by, rows)
    values = np.unique(np.concatenate([by[:, -1], rows[:, -1]]))
    if len(values) == 1:
        return _beaten(by[:, :-1], rows[:, :-1])
    middle = values[(len(values) - 1) // 2]
    is_low, low = by[:, -1] <= middle, rows[:, -1] <= middle
    beaten = np.empty(len(rows), np.bool_)
    beaten[low] = _beaten(by[is_low], rows[low])
    beaten[~low] = _beaten(by[~is_low], rows[~low])
    left = np.flatnonzero(~low & ~beaten)
    beaten[left] = _beaten(by[is_low, :-1], rows[left, :-1])
    return beaten


def _beaten_in_two(by: _Rows, rows: _Rows) -> _Marks:
    """Does the same as `_beaten` for two columns.

    The least second number of all rows that are at most as large in the first column decides.
    """
    by = by[np.argsort(by[:, 0], kind="stable")]
    least = np.concatenate([[np.inf], np.minimum.accumulate(by[:, 1])])
    n_smaller = np.searchsorted(by[:, 0], rows[:, 0], side="right")
    beaten: _Marks = (n_smaller > 0) & (least[n_smaller] <= rows[:, 1])
    return beaten
