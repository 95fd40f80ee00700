"""RowGroups: groups of rows, for functions along an axis in the middle of a value whose other axes are its rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array


class RowGroups(NamedTuple):
    """`n` rows, `step` rows apart, are a group. There are `step` groups in each `n * step` rows."""

    n: int
    step: int

    def together(self, x: Array) -> Array:
        """Returns *x*, (..., rows, cols), with each group along axis 0 of a matrix."""
        grouped = x.reshape(-1, self.n, self.step, x.shape[-1]).swapaxes(0, 1)
        return np.ascontiguousarray(grouped).reshape(self.n, -1)

    def apart(self, x: Array, shape: tuple[int, ...]) -> Array:
        """Turns *x*, the result of a function of axis 0 on `together`, into the value of *shape*, (..., rows, cols)."""
        grouped = x.reshape(x.shape[0], -1, self.step, shape[-1]).swapaxes(0, 1)
        return np.ascontiguousarray(grouped).reshape(shape)

    def spread(self, x: Array) -> Array:
        """Returns *x*, (..., rows, cols), with each `step` rows repeated `n` times."""
        *outer, rows, cols = x.shape
        repeated = np.repeat(x.reshape(-1, 1, self.step, cols), self.n, axis=1)
        return repeated.reshape(*outer, rows * self.n, cols)
