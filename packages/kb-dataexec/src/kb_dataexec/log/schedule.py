"""The records of a log in the order of pass 2: by command, tile, stage and id, never by time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.parallel import in_parallel
from kb_dataexec.log.columns import Columns, by_column, part
from kb_dataexec.log.rows import DTYPES, Op, OperandRow, op_name
from kb_dataexec.log.tables import OpLog
from kb_messages import SPACE_BY_CODE, LogError, MemorySpace, Role

_KEYS = ("op_id", "stage_index", "tile_id", "command_seq")
_ROW = ("role", "dtype", "release", "owner", "offset", "rows", "row_nbytes", "stride")


class Schedule:
    """Ops and operands of *log*, sorted: the operands of `ops[i]` are the rows `first[i]` to `first[i + 1]`.

    The operands of an op keep their order. By the table `dependencies`, record `followers[i]` follows the earlier
    record `leaders[i]`; the followers ascend. `inserted` are the places of records that are not in the log.

    Raises LogError if two records have the same place or the same id, if the op of an operand does not exist, if a code
    is unknown, if the owner of an operand is in another space, if an immediate is written to, and if an op depends on
    an op that does not exist or does not come before it.
    """

    ops: Array

    def __init__(self, log: OpLog) -> None:
        self.log = log
        self.inserted = np.empty(0, np.int64)
        steps: list[Callable[[], None]] = [partial(log.check, "op log"), self._sort_ops]
        in_parallel(lambda step: step(), steps)
        self.operands, self.first = self._sorted_operands()
        self._check_spaces()
        self.followers, self.leaders = self._explicit()

    def where(self, index: int) -> str:
        """The name of record *index* in errors."""
        row = self.ops[index]
        return op_name(row["op_id"], *(self.log.strings[row[column]] for column in ("name", "component", "line")))

    def iterate(self, start: int, stop: int) -> Iterator[Op]:
        """Yields the records [start, stop) as Ops."""
        strings = self.log.strings
        ids, kinds, names, components, lines, params = (
            self.ops[column][start:stop].tolist() for column in ("op_id", "kind", "name", "component", "line", "params")
        )
        first = self.first[start : stop + 1].tolist()
        columns = part(self.operands, first[0], first[-1])
        rows = list(zip(*(columns[name].tolist() for name in _ROW), strict=True))
        for at, (op_id, kind) in enumerate(zip(ids, kinds, strict=True)):
            operands = [
                OperandRow(role, owner, offset, n, row_nbytes, stride, DTYPES[code], release)
                for role, code, release, owner, offset, n, row_nbytes, stride in rows[
                    first[at] - first[0] : first[at + 1] - first[0]
                ]
            ]
            texts = strings[names[at]], strings[components[at]], strings[lines[at]], strings[params[at]]
            yield Op(op_id, kind, *texts, operands)

    def n_records(self, stop: int) -> int:
        """The number of records of the log among the first *stop* of this schedule."""
        return stop - int(np.searchsorted(self.inserted, stop))

    def insert(self, places: Array, ops: Array, operands: Columns) -> None:
        """Inserts the records *ops*, of one of *operands* each, before those at *places*, which ascend.

        Call it once at most.
        """
        if not len(places):
            return
        at = self.first[places]
        self.ops = np.insert(self.ops, places, ops)
        self.operands = {name: np.insert(rows, at, operands[name]) for name, rows in self.operands.items()}
        self.first = np.append(0, np.cumsum(np.insert(np.diff(self.first), places, 1)))
        self.followers, self.leaders = (
            each + np.searchsorted(places, each, side="right") for each in (self.followers, self.leaders)
        )
        self.inserted = places + np.arange(len(places))

    def _sort_ops(self) -> None:
        self.ops = _sorted_ops(self.log)

    def _sorted_operands(self) -> tuple[Columns, Array]:
        position = _positions(self.ops["op_id"], np.ascontiguousarray(self.log.operands["op_id"]))
        in_order = (position[1:] >= position[:-1]).all()
        order = None if in_order else np.argsort(position, kind="stable")
        count = np.bincount(position, minlength=len(self.ops))
        return by_column(self.log.operands, order), np.append(0, np.cumsum(count))

    def _explicit(self) -> tuple[Array, Array]:
        """The indices of the records of table `dependencies`: (followers, leaders), in the order of followers."""
        rows = self.log.tables.get("dependencies")
        if rows is None or not len(rows):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        sides = []
        for column in ("op_id", "depends_on"):
            wanted = np.ascontiguousarray(rows[column])
            lost = ~np.isin(wanted, self.ops["op_id"])
            got = "op {op_id} after op {depends_on}, of which one is no op of the log"
            self._refuse_dependency(lost, got, "ops of the log")
            sides.append(_positions(self.ops["op_id"], wanted).astype(np.int64))
        followers, leaders = sides
        got = "op {op_id} after op {depends_on}, which does not come before it"
        self._refuse_dependency(leaders >= followers, got, "an op with an earlier place in the order of execution")
        order = np.lexsort((leaders, followers))
        return followers[order], leaders[order]

    def _refuse_dependency(self, wrong: Array, got: str, needs: str) -> None:
        if wrong.any():
            at = int(np.argmax(wrong))
            row = self.log.tables["dependencies"][at]
            values = {column: int(row[column]) for column in ("op_id", "depends_on")}
            raise LogError(f"op log: dependencies row {at}", got.format(**values), needs)

    def _check_spaces(self) -> None:
        owner, space = self.operands["owner"], self.operands["space"]
        immediate = np.flatnonzero(space == MemorySpace.IMMEDIATE.code)
        wrong = (owner >> 10) & 15 != space
        wrong[immediate] = owner[immediate] != 0
        if wrong.any():
            at = int(np.argmax(wrong))
            needs = f"an owner in {SPACE_BY_CODE[int(space[at])]}"
            raise LogError(self._where_operand(at), f"owner {int(owner[at]):#x}", needs)
        written = immediate[np.isin(self.operands["role"][immediate], (Role.DST, Role.OUT))]
        if len(written):
            raise LogError(self._where_operand(int(written[0])), "a write to an immediate", "a memory")

    def _where_operand(self, at: int) -> str:
        return self.where(int(np.searchsorted(self.first, at, side="right")) - 1)


def _positions(ids: Array, wanted: Array) -> Array:
    """The index of each of *wanted* in *ids*, which are distinct. Raises LogError for an id that is not there."""
    by_id = np.argsort(ids, kind="stable")
    ordered = ids[by_id]
    if not len(ids):
        at, lost = wanted, np.ones(len(wanted), np.bool_)
    elif ordered[-1] - ordered[0] == len(ids) - 1:
        at = wanted - ordered[0]
        lost = (wanted < ordered[0]) | (wanted > ordered[-1])
    else:
        at = np.minimum(np.searchsorted(ordered, wanted), len(ids) - 1)
        lost = ordered[at] != wanted
    if lost.any():
        raise LogError("op log: operands", f"an operand of op {int(wanted[np.argmax(lost)])}", "an op of that id")
    position: Array = by_id[at] if len(ids) else at
    return position


def _sorted_ops(log: OpLog) -> Array:
    ops = log.ops
    ids = np.sort(ops["op_id"])
    if (ids[1:] == ids[:-1]).any():
        twice = int(ids[1:][ids[1:] == ids[:-1]][0])
        raise LogError("op log: ops", f"op {twice} twice", "each id once")
    # np.lexsort sorts by its last key first.
    ops = ops.take(np.lexsort(tuple(ops[key] for key in _KEYS)))
    same = np.logical_and.reduce([ops[key][1:] == ops[key][:-1] for key in _KEYS[1:]])
    if same.any():
        at = int(np.argmax(same))
        first, second = (int(ops["op_id"][at + step]) for step in (0, 1))
        place = ", ".join(f"{key} {int(ops[key][at])}" for key in reversed(_KEYS[1:]))
        raise LogError("op log: ops", f"ops {first} and {second} both at {place}", "one record at a place")
    return ops
