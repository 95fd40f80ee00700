"""The order of rows in the op log: by time, then by PE.

It follows from times and the chip alone. So it does not depend on the order in which the simulator came to know rows
of one picosecond.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kb_engine.block.in_flight import CommandInFlight
from kb_engine.observe.group_texts import Ints

Positions = npt.NDArray[np.intp]


class RowOrder:
    """The order of rows that belong to ops of *commands*, which are in the order of their op ids.

    *pe_numbers* numbers the PEs of the chip. Rows at *before_ps* or later are kept for another time, because more rows
    of that time may come.
    """

    def __init__(self, commands: Sequence[CommandInFlight], pe_numbers: Mapping[str, int], before_ps: int) -> None:
        self._first_ops = np.array([command.first_op for command in commands], dtype=np.int64)
        self._pes = np.array([pe_numbers[command.submitted.pe] for command in commands], dtype=np.int64)
        self._before_ps = before_ps

    def split(self, op_ids: Ints, times_ps: Ints) -> tuple[Positions, Positions]:
        """Which rows are written now, in their order, and which are kept, in the order in which they came.

        Rows of one PE and one picosecond stay in the order in which they came.
        """
        everything = np.arange(len(op_ids))
        if not len(op_ids):
            return everything, everything
        pes = self._pes[np.searchsorted(self._first_ops, op_ids, side="right") - 1]
        order = np.lexsort((pes, times_ps))
        n_now = int(np.searchsorted(times_ps[order], self._before_ps))
        return order[:n_now], np.sort(order[n_now:])
