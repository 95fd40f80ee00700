"""BlockShapes: the shapes of the blocks of tensors that transfers of a log move."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kb_cli.run.rules.chip_places import tensor_numbers, tensor_starts
from kb_cli.run.rules.work.op_sums import first_operands, hashed, ops_named
from kb_dataexec import OpLog
from kb_engine import Host
from kb_messages import DTYPE_BY_CODE, Role


class BlockShapes:
    """Collects the first rectangles of the transfers *name*, far from the PE: pass each chunk of a log to `look`.

    Of a composite, the first tile counts.
    """

    def __init__(self, name: str, role: Role) -> None:
        self._name, self._role = name, role
        self._lines: set[int] = set()
        self._found: dict[tuple[int, ...], tuple[int, int]] = {}
        self._strings: Sequence[str] = ()

    def look(self, chunk: OpLog) -> None:
        """Takes *chunk*, a part of a log with the operands of its ops, or a whole log."""
        self._strings = chunk.strings
        ops = ops_named(chunk, self._name, first_tiles=True)
        if not len(ops):
            return
        line = ops["line"].astype(np.int64)
        rows, row_nbytes, dtype, owner, offset, _ = first_operands(chunk, ops["op_id"], self._role)
        columns = line, rows, row_nbytes, dtype
        _, first = np.unique(hashed(columns), return_index=True)
        for at in first.tolist():
            self._lines.add(int(line[at]))
            self._found.setdefault(tuple(int(column[at]) for column in columns), (int(owner[at]), int(offset[at])))

    @property
    def lines(self) -> set[str]:
        """The kernel lines of the transfers."""
        return {self._strings[line] for line in self._lines}

    def of_tensors(self, host: Host) -> set[tuple[int, int, int, int]]:
        """The rows and columns of all blocks of tensors of two dimensions, each with those of its tensor."""
        places = np.array(list(self._found.values()), np.int64).reshape(-1, 2)
        tensors, found = host.tensors, set()
        numbers = tensor_numbers(tensor_starts(host), places[:, 0], places[:, 1]).tolist()
        for (_, rows, row_nbytes, code), number in zip(self._found, numbers, strict=True):
            if rows and number >= 0 and len(tensors[number].shape) == 2:
                tensor = tensors[number]
                found.add((rows, row_nbytes // DTYPE_BY_CODE[code].nbytes, tensor.rows, tensor.cols))
        return found
