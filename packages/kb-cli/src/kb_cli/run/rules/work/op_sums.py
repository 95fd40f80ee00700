"""OpSums: the ops of one stage of a log, added up where block, kernel line, parameters and operands are alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_dataexec import OpLog
from kb_messages import DTYPE_BY_CODE, DType, Role

_TEXTS: Final = ("component", "line", "params")
_SIDES: Final = ("rows", "row_nbytes", "dtype", "owner", "offset", "stride")
_DENSE: Final = 8
Array = npt.NDArray[Any]
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
    for; an op without such an operand has none.
    """

    component: str
    line: str
    params: str
    shapes: dict[Role, Shape]
    n_ops: int
    took_ps: int


class OpSums:
    """Adds up the ops with the name *name*, such as `gemm`: pass each chunk of a log to `look`.

    Ops of a pure cost that take equally long, by the same block with the same parameters at the same line, count as
    alike. Their shapes are those of the first of them.
    """

    def __init__(self, name: str, roles: Sequence[Role]) -> None:
        self._name, self._roles = name, roles
        self._sums: dict[tuple[int, ...], list[int]] = {}
        self._sides: dict[tuple[int, ...], list[int]] = {}
        self._strings: Sequence[str] = ()

    def look(self, chunk: OpLog) -> None:
        """Takes *chunk*, a part of a log with the operands of its ops, or a whole log."""
        self._strings = chunk.strings
        mine = ops_named(chunk, self._name)
        if not len(mine):
            return
        took = mine["t_end_ps"] - mine["t_start_ps"]
        columns = [*(mine[name].astype(np.int64) for name in _TEXTS), took]
        _, first, which = np.unique(hashed(columns), return_index=True, return_inverse=True)
        keys = list(map(tuple, np.stack([column[first] for column in columns], axis=1).tolist()))
        for key, n_ops in zip(keys, np.bincount(which).tolist(), strict=True):
            total = self._sums.setdefault(key, [0, 0])
            total[0] += n_ops
            total[1] += n_ops * key[-1]
        new = [number for number, key in enumerate(keys) if key not in self._sides]
        if new:
            ids = mine["op_id"][first[new]]
            sides = [column for role in self._roles for column in first_operands(chunk, ids, role)[:3]]
            for number, found in zip(new, np.stack(sides, axis=1).tolist(), strict=True):
                self._sides[keys[number]] = found

    def __iter__(self) -> Iterator[OpSum]:
        """Yields the sums, sorted by their texts and shapes."""
        found = []
        for key, (n_ops, took_ps) in self._sums.items():
            shapes = {}
            for number, role in enumerate(self._roles):
                rows, row_nbytes, code = self._sides[key][3 * number : 3 * number + 3]
                if rows:
                    dtype = DTYPE_BY_CODE[code]
                    shapes[role] = Shape(rows, row_nbytes // dtype.nbytes, dtype)
            component, line, params = (self._strings[number] for number in key[:3])
            found.append(OpSum(component, line, params, shapes, n_ops, took_ps))
        return iter(sorted(found, key=lambda each: (*each[:3], [*map(str, each.shapes.values())])))


def ops_named(chunk: OpLog, name: str, first_tiles: bool = False) -> Array:
    """Returns the rows of the ops of *chunk* with the name *name*; with *first_tiles*, those of the first tile of each
    command: all of a load or a store, and a sample of a composite.
    """
    if name not in chunk.strings:
        return chunk.ops[:0]
    is_mine = chunk.ops["name"] == chunk.strings.index(name)
    if first_tiles:
        is_mine &= chunk.ops["tile_id"] == 0
    found: Array = chunk.ops[is_mine]
    return found


def operands_of(chunk: OpLog, op_ids: Array, role: Role) -> Array:
    """Returns the rows of the operands of *op_ids* with *role*, ascending by the id of the op."""
    if not len(op_ids):
        return chunk.operands[:0]
    low, high = int(op_ids.min()), int(op_ids.max())
    ids = chunk.operands["op_id"]
    near = np.flatnonzero((chunk.operands["role"] == role) & (ids >= low) & (ids <= high))
    if high - low < _DENSE * (len(ids) + len(op_ids)):  # ids of a log are dense, so a table is faster than a search
        is_wanted = np.zeros(high - low + 1, np.bool_)
        is_wanted[op_ids - low] = True
        near = near[is_wanted[ids[near] - low]]
    else:
        near = near[np.isin(ids[near], op_ids)]
    found = chunk.operands[near]
    in_order: Array = found[np.argsort(found["op_id"], kind="stable")]
    return in_order


def first_operands(chunk: OpLog, op_ids: Array, role: Role) -> list[Array]:
    """Returns rows, bytes of a row, dtype code, owner, offset and stride of the first operand with *role* of *op_ids*.

    All are 0 for an op without such an operand.
    """
    mine = operands_of(chunk, op_ids, role)
    if not len(mine):
        return [np.zeros(len(op_ids), np.int64) for _ in _SIDES]
    ids = mine["op_id"]
    at = np.minimum(np.searchsorted(ids, op_ids), len(ids) - 1)
    is_there = ids[at] == op_ids
    return [np.where(is_there, mine[side][at].astype(np.int64), 0) for side in _SIDES]


def hashed(columns: Sequence[Array]) -> Array:
    """Returns one number of 64 bits for each row of *columns*. Equal rows have equal numbers; others hardly ever."""
    found = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        found = (found ^ column.astype(np.uint64)) * np.uint64(_ODD)
        found ^= found >> np.uint64(29)
    return found
