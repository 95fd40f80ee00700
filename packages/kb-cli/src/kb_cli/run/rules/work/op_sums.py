"""OpSums: the ops of one stage of a log, added up where block, kernel line, parameters and operands are alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec import OpLog
from kb_messages import DTYPE_BY_CODE, DType, Role

_TEXTS: Final = ("component", "line", "params")
_SIDES: Final = ("rows", "row_nbytes", "dtype")
_PLACE: Final = ("owner", "offset", "stride")
_ODD: Final = 0x9E3779B97F4A7C15
"""An odd number whose multiples spread over 64 bits. Source: Knuth, The Art of Computer Programming 3, 6.4."""


class Shape(NamedTuple):
    """The rows and columns of an operand, in elements of `dtype`."""

    rows: int
    cols: int
    dtype: DType


class OpSum(NamedTuple):
    """`n_ops` ops of the block `component` at the kernel line `line`, with equal parameters and shapes.

    `took_ps` are the picoseconds of all services together. `shapes` has the first operand of each role that was asked
    for, and `places` the owner and the offset of that operand of the first of these ops; an op without such an operand
    has none.
    """

    component: str
    line: str
    params: str
    shapes: dict[Role, Shape]
    places: dict[Role, tuple[int, int]]
    n_ops: int
    took_ps: int


class OpSums:
    """Adds up the ops with the name *name*, such as `gemm`: pass each chunk of a log to `look`."""

    def __init__(self, name: str, roles: Sequence[Role]) -> None:
        self._name, self._roles = name, roles
        self._sums: dict[tuple[int, ...], list[int]] = {}
        self._places: dict[tuple[int, ...], list[int]] = {}
        self._strings: Sequence[str] = ()

    def look(self, chunk: OpLog) -> None:
        """Takes *chunk*, a part of a log with the operands of its ops, or a whole log."""
        self._strings = chunk.strings
        if self._name not in chunk.strings:
            return
        rows = np.flatnonzero(chunk.ops["name"] == chunk.strings.index(self._name))
        if not len(rows):
            return
        mine = chunk.ops[rows]
        columns, places = [mine[name].astype(np.int64) for name in _TEXTS], []
        for role in self._roles:
            found = first_operands(chunk, mine["op_id"], role)
            columns += found[: len(_SIDES)]
            places += found[len(_SIDES) : len(_SIDES) + 2]
        _, first, which = np.unique(hashed(columns), return_index=True, return_inverse=True)
        took = np.bincount(which, mine["t_end_ps"] - mine["t_start_ps"], len(first))
        keys = np.stack([column[first] for column in columns], axis=1).tolist()
        at = np.stack([column[first] for column in places], axis=1).tolist()
        for key, place, count, ps in zip(keys, at, np.bincount(which).tolist(), took.tolist(), strict=True):
            total = self._sums.setdefault(tuple(key), [0, 0])
            total[0] += count
            total[1] += int(ps)
            self._places.setdefault(tuple(key), place)

    def __iter__(self) -> Iterator[OpSum]:
        """Yields the sums, sorted by their texts and shapes."""
        found = []
        for key, (count, took_ps) in self._sums.items():
            shapes, places = {}, {}
            for number, role in enumerate(self._roles):
                rows, row_nbytes, code = key[3 * number + 3 : 3 * number + 6]
                if rows:
                    dtype = DTYPE_BY_CODE[code]
                    shapes[role] = Shape(rows, row_nbytes // dtype.nbytes, dtype)
                    owner, offset = self._places[key][2 * number : 2 * number + 2]
                    places[role] = owner, offset
            component, line, params = (self._strings[number] for number in key[:3])
            found.append(OpSum(component, line, params, shapes, places, count, took_ps))
        return iter(sorted(found, key=lambda each: (*each[:3], [*map(str, each.shapes.values())])))


def first_operands(chunk: OpLog, op_ids: np.ndarray, role: Role) -> list[np.ndarray]:
    """Returns rows, bytes of a row, dtype code, owner, offset and stride of the first operand with *role* of *op_ids*.

    All are 0 for an op without such an operand.
    """
    operands = chunk.operands
    mine = operands[operands["role"] == role]
    order = np.argsort(mine["op_id"], kind="stable")
    ids = mine["op_id"][order]
    if not len(ids):
        return [np.zeros(len(op_ids), np.int64) for _ in (*_SIDES, *_PLACE)]
    at = np.minimum(np.searchsorted(ids, op_ids), len(ids) - 1)
    is_there = ids[at] == op_ids
    return [np.where(is_there, mine[side][order[at]].astype(np.int64), 0) for side in (*_SIDES, *_PLACE)]


def hashed(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Returns one number of 64 bits for each row of *columns*. Equal rows have equal numbers; others hardly ever."""
    found = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        found = (found ^ column.astype(np.uint64)) * np.uint64(_ODD)
        found ^= found >> np.uint64(29)
    return found
