"""The Pareto front: the points that no other point beats in everything."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def front(figures: npt.NDArray[np.float64]) -> list[int]:
    """The rows of *figures* (points, figures) that no other row is at most as large as in all columns and smaller in
    one, in order of the first column and then of the others. Smaller is better. Equal rows are all there.
    """
    order = np.lexsort(figures.T[::-1])
    kept: list[int] = []
    best = np.empty((0, figures.shape[1]))
    for at in order:  # a row can only be beaten by one before it
        row = figures[at]
        below = (best <= row).all(axis=1)
        if not (below & (best < row).any(axis=1)).any():
            kept.append(int(at))
            best = np.vstack([best, row])
    return kept
