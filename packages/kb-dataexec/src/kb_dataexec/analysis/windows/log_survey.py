"""LogSurvey: the facts about a whole log that are needed before its paths are followed in windows."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.analysis.critical_path.rows import LastTiles
from kb_dataexec.analysis.dma_ops import DmaOps
from kb_dataexec.analysis.windows.chunk_rows import WHOLE, ChunkRows
from kb_dataexec.analysis.windows.row_shift import RowShift
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.ranges import numbered, numbered_rows
from kb_dataexec.log.table_dtypes import TABLE_DTYPES
from kb_messages import LOG_TABLES

_TIMES: Final = LOG_TABLES["transfers"].ascending

Kind = tuple[int, ...]
"""The key of equal services: component, params, direction, memory and bytes."""


class Model(NamedTuple):
    """The first undisturbed row of `transfers` of a kind, its index in the table, and the end of its op."""

    number: int
    row: Array
    end_ps: int


class LogSurvey:
    """Collects facts from each chunk of a log, once and in order.

    `tables` has all rows of the tables in WHOLE that the log has, and `auxiliary` names all of its tables. Chunk i has
    `n_ops[i]` records, the first of which has the id `first_op[i]`. Its tiles came at `ready_ps[i]` or later, and left
    between the two times `came_ps[i]`. It repeats the chunk before it, `shifts[i]` later, unless that is None. `models`
    has a row for each kind of services without a row in `transfers`. `is_in_order` is True if no row of `transfers`
    came behind the chunk with its op.
    """

    def __init__(self) -> None:
        self.n_ops: list[int] = []
        self.first_op: list[int] = []
        self.ready_ps: list[int] = []
        self.came_ps: list[tuple[int, int]] = []
        self.shifts: list[RowShift | None] = []
        self.models: dict[Kind, Model] = {}
        self.auxiliary: tuple[str, ...] = ()
        self._tables: dict[str, list[Array]] = {name: [] for name in WHOLE}
        self._last: dict[int, tuple[int, int, int]] = {}
        self._early = EarlyTransfers()
        self._before: ChunkRows | None = None

    def look(self, chunk: ChunkRows) -> None:
        """Collects the facts from *chunk*, the next chunk of the log."""
        self.auxiliary = tuple(dict.fromkeys((*self.auxiliary, *chunk.tables)))
        self.n_ops.append(len(chunk.ops))
        never = np.iinfo(np.int64).max
        self.first_op.append(chunk.first_op)
        self.ready_ps.append(int(chunk.ops["t_ready_ps"].min(initial=never)))
        came = chunk.ops["t_out_ps"]
        self.came_ps.append((int(came.min(initial=never)), int(came.max(initial=0))))
        self.shifts.append(None if self._before is None else self._before.shift_to(chunk))
        self._before = chunk
        for name, parts in self._tables.items():
            if name in chunk.tables:
                parts.append(chunk.tables[name])
        self._look_at_tiles(chunk.ops)
        if "transfers" in chunk.tables:
            self._look_at_services(chunk)

    @property
    def tables(self) -> dict[str, Array]:
        """The tables whose rows are needed in every window."""
        return {
            name: np.concatenate([np.empty(0, TABLE_DTYPES[name]), *parts])
            for name, parts in self._tables.items()
            if name in self.auxiliary
        }

    @property
    def is_in_order(self) -> bool:
        """Whether each row of `transfers` came with its op, or before."""
        return not len(self._early.rows)

    @property
    def last_tiles(self) -> LastTiles:
        """The last tile of each command."""
        rows = [(seq, op_id, ready) for seq, (_, op_id, ready) in sorted(self._last.items())]
        return LastTiles(*np.array(rows, np.int64).reshape(-1, 3).T)

    def _look_at_tiles(self, ops: Array) -> None:
        seqs, which = numbered(ops["command_seq"])
        last = np.full(len(seqs), -1, np.int64)
        np.maximum.at(last, which, ops["tile_id"])
        mine = np.flatnonzero(ops["tile_id"] == last[which])
        order = mine[np.lexsort((ops["op_id"][mine], which[mine]))]
        _, first = np.unique(which[order], return_index=True)
        rows = ops[order[first]]
        for seq, tile, op_id, ready in zip(
            *(rows[name].tolist() for name in ("command_seq", "tile_id", "op_id", "t_ready_ps")), strict=True
        ):
            known_tile, known_op, known_ready = self._last.get(seq, (-1, 0, 0))
            if tile > known_tile or (tile == known_tile and op_id < known_op):
                known_tile, known_op, known_ready = tile, op_id, ready
            self._last[seq] = known_tile, known_op, known_ready

    def _look_at_services(self, chunk: ChunkRows) -> None:
        ops = chunk.dma
        logged = self._early.take(ops, chunk.tables["transfers"])
        rows = logged.rows
        fits = np.flatnonzero((rows["t_served_ps"] == rows["t_arrived_ps"]) & (rows["shared_ps"] == 0))
        if not len(fits):
            return
        kinds = kinds_of(ops)
        number = numbered_rows(*kinds.T)[logged.place[fits]]
        _, first = np.unique(number, return_index=True)
        for at in fits[first].tolist():
            kind, model = tuple(kinds[logged.place[at]].tolist()), int(logged.numbers[at])
            if kind not in self.models or model < self.models[kind].number:
                self.models[kind] = Model(model, rows[at : at + 1], int(ops.end_ps[logged.place[at]]))


class LoggedTransfers(NamedTuple):
    """Rows of `transfers`, one for each op, in their order: their indices in the table, and the indices of their
    ops.
    """

    rows: Array
    numbers: Array
    place: Array


class EarlyTransfers:
    """`rows` of `transfers` that came earlier than their ops."""

    def __init__(self) -> None:
        self.rows = np.empty(0, TABLE_DTYPES["transfers"])
        self._numbers = np.empty(0, np.int64)
        self._n_rows = 0

    def come_later(self, shift: RowShift) -> None:
        """Moves the remaining rows later by *shift*."""
        self.rows = shift.later(self.rows)

    def take(self, ops: DmaOps, rows: Array) -> LoggedTransfers:
        """Takes out the rows of *ops*, from the earlier rows and from *rows*, the next rows of the table."""
        numbers = np.append(self._numbers, np.arange(self._n_rows, self._n_rows + len(rows)))
        self._n_rows += len(rows)
        rows = np.concatenate([self.rows, rows])
        place, is_there = ops.find(rows["op_id"])
        mine = np.flatnonzero(is_there)
        _, first = np.unique(rows["op_id"][mine], return_index=True)
        mine = mine[np.sort(first)]
        self.rows, self._numbers = rows[~is_there], numbers[~is_there]
        return LoggedTransfers(rows[mine], numbers[mine], place[mine])

    def take_all(self, ops: DmaOps, rows: Array, models: dict[Kind, Model]) -> Array:
        """Takes out the rows of *ops*, and adds a row by one of *models* for each other op of a known kind."""
        own = self.take(ops, rows)
        unlisted = np.ones(len(ops), np.bool_)
        unlisted[own.place] = False
        left = np.flatnonzero(unlisted)
        found = [own.rows]
        if len(left) and models:
            kinds = kinds_of(ops)[left]
            number = numbered_rows(*kinds.T)
            _, first = np.unique(number, return_index=True)
            for which, at in enumerate(first.tolist()):
                model = models.get(tuple(kinds[at].tolist()))
                if model is None:
                    continue
                mine = left[number == which]
                alike = np.repeat(model.row, len(mine))
                alike["op_id"] = ops.op_id[mine]
                for name in _TIMES:
                    alike[name] += ops.end_ps[mine] - model.end_ps
                found.append(alike)
        return np.concatenate(found)


def kinds_of(ops: DmaOps) -> Array:
    """Returns the `Kind` of each of *ops*, as a matrix with a row for each op."""
    columns = ops.component, ops.params, ops.is_read, ops.far.owner, ops.far.nbytes
    return np.stack([column.astype(np.int64) for column in columns], axis=1)
