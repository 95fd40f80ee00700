"""RowShift: the distance from rows to later rows that repeat them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array

_OP_IDS: Final = frozenset(("op_id", "behind_op"))
_NOTHING: Final = -1
_ROWS: Final = 1 << 12
"""Rows that are compared at a time. Source: assumed; half a MB stays in a cache."""


class RowShift(NamedTuple):
    """A distance in op ids, tile numbers and picoseconds."""

    ops: int
    tiles: int
    ps: int

    def times(self, n: int) -> RowShift:
        """Returns *n* times the shift."""
        return RowShift(self.ops * n, self.tiles * n, self.ps * n)

    def later(self, rows: Array) -> Array:
        """Returns *rows* of a table of a log, later by the shift. -1 is no op, no tile and no time, and stays."""
        found = rows.view(f"V{rows.dtype.itemsize}").copy().view(rows.dtype)  # numpy copies records field by field
        for name in rows.dtype.names or ():
            step = self._step(name)
            if step:
                np.add(found[name], step, out=found[name], where=found[name] != _NOTHING)
        return found

    def leads(self, rows: Array, later: Array) -> bool:
        """Whether *later* equals *rows* moved by the shift."""
        return len(rows) == len(later) and all(
            self.later(rows[at : at + _ROWS]).tobytes() == later[at : at + _ROWS].tobytes()
            for at in range(0, len(rows), _ROWS)
        )

    def _step(self, column: str) -> int:
        if column in _OP_IDS:
            return self.ops
        if column == "tile_id":
            return self.tiles
        return self.ps if column.startswith("t_") else 0
