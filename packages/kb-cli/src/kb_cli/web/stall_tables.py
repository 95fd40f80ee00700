"""Waits of tiles: by block and reason, and single ones with the ops that caused them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_cli.trace.protobuf import Ints
from kb_cli.web.run_timeline import RunTimeline
from kb_dataexec import OpLog
from kb_dataexec.analysis import Moment, all_transfers, service_parts
from kb_messages import WaitReason

SERVICE, QUEUE_FULL, MEMORY, SHARED = "service", "queue_full", "memory", "shared_links"
TILE_BUFFER, FETCH_ORDER = BEFORE = ("tile_buffer", "fetch_order")
"""Reasons for which a tile came late to its first block. All other waits are of tiles that are there."""


class StallRow(Struct, frozen=True, kw_only=True):
    """Picoseconds of tiles at one stage of one kind of block, by reason; `service` is work and no wait."""

    block: str
    stage: str
    tiles: int
    ps: dict[str, int]


class LongWait(Struct, frozen=True, kw_only=True):
    """One long wait: `op` waited for `ps` picoseconds, until `t_ps`, for `reason`.

    `holder` is the op that it waited for, None where no op is known, and `via` the edge from there.
    """

    op: int
    component: str
    stage: str
    line: str
    reason: str
    ps: int
    t_ps: int
    via: str
    holder: int | None
    holder_at: str
    holder_line: str


class WaitColumn(NamedTuple):
    """The waits for one reason, in picoseconds for each row of the log's ops, and the moment at which they ended."""

    reason: str
    ps: Ints
    moment: Moment


class Stalls:
    """The waits of all tiles of *timeline*, in columns, queried for any part of them.

    `component`, `stage` and `line` have numbers of `strings`, for each row of the log's ops.
    """

    def __init__(self, timeline: RunTimeline) -> None:
        self._timeline, log = timeline, timeline.log
        ops, self.strings = log.ops, log.strings
        self.component, self.stage, self.line = (ops[name].copy() for name in ("component", "name", "line"))
        self._ready, self._out = ops["t_ready_ps"].copy(), ops["t_out_ps"].copy()
        self.columns = [
            WaitColumn(reason.name.lower(), ops[f"wait_{reason.name.lower()}_ps"].copy(), "start")
            for reason in WaitReason
        ]
        self.columns.append(WaitColumn(QUEUE_FULL, ops["t_out_ps"] - ops["t_end_ps"], "left"))
        held, shared = _transfer_waits(log)
        self.columns += [WaitColumn(MEMORY, held, "served"), WaitColumn(SHARED, shared, "start")]
        buffer, order = _dispatch_waits(timeline)
        self.columns += [WaitColumn(TILE_BUFFER, buffer, "ready"), WaitColumn(FETCH_ORDER, order, "ready")]
        self._service = ops["t_end_ps"] - ops["t_start_ps"] - held - shared

    def which(self, pe: str | None, line: str | None, window: tuple[int, int] | None) -> npt.NDArray[np.bool_]:
        """Returns the rows of *pe*, of *line*, and of tiles that were there at some time of *window*; None is all of
        them.
        """
        strings = self._timeline.log.strings
        found = np.ones(len(self.line), np.bool_)
        if pe is not None:
            found &= np.array([text.startswith(f"{pe}.") for text in strings], np.bool_)[self.component]
        if line is not None:
            found &= np.array([text == line for text in strings], np.bool_)[self.line]
        if window is not None:
            found &= (self._out >= window[0]) & (self._ready < window[1])
        return found

    def rows(self, which: npt.NDArray[np.bool_]) -> list[StallRow]:
        """Returns a row for each kind of block and stage, in the order of the most waiting."""
        strings = self._timeline.log.strings
        kinds = {text: text.rpartition(".")[2] for text in strings}
        names = sorted(set(kinds.values()))
        kind = np.array([names.index(kinds[text]) for text in strings], np.int64)[self.component[which]]
        key = kind * len(strings) + self.stage[which]
        keys, number = np.unique(key, return_inverse=True)
        tiles = np.bincount(number, minlength=len(keys)).tolist()
        sums = {each.reason: _sums(each.ps[which], number, len(keys)) for each in self.columns}
        sums[SERVICE] = _sums(self._service[which], number, len(keys))
        found = [
            StallRow(
                block=names[value // len(strings)],
                stage=strings[value % len(strings)],
                tiles=tiles[at],
                ps={reason: spent[at] for reason, spent in sums.items() if spent[at]},
            )
            for at, value in enumerate(keys.tolist())
        ]
        return sorted(found, key=lambda row: (row.ps.get(SERVICE, 0) - sum(row.ps.values()), row.block, row.stage))

    def wait(self, ps: int, row: int, column: WaitColumn) -> LongWait:
        """Returns the wait of *ps* picoseconds of the op in *row*, for the reason of *column*, with its holder."""
        log = self._timeline.log
        op, strings = log.ops[row], log.strings
        via, holder = self._holder(int(op["op_id"]), column)
        held_by = None if holder is None else log.ops[self._timeline.record_of(holder)]
        times = {"start": "t_start_ps", "left": "t_out_ps", "served": "t_end_ps", "ready": "t_ready_ps"}
        return LongWait(
            op=int(op["op_id"]),
            component=strings[op["component"]],
            stage=strings[op["name"]],
            line=strings[op["line"]],
            reason=column.reason,
            ps=ps,
            t_ps=int(op[times[column.moment]]),
            via=via,
            holder=holder,
            holder_at="" if held_by is None else f"{strings[held_by['component']]}: {strings[held_by['name']]}",
            holder_line="" if held_by is None else strings[held_by["line"]],
        )

    def _holder(self, op: int, column: WaitColumn) -> tuple[str, int | None]:
        if "kernels" in self._timeline.log.missing or column.reason == SHARED:
            return "", None
        (found,) = self._timeline.causes.holders(np.array([op]), column.moment)
        return found.via, None if found.op_id in (-1, op) else found.op_id


def _sums(ps: Ints, number: Ints, count: int) -> list[int]:
    found = np.zeros(count, np.int64)
    np.add.at(found, number, ps)
    return [int(each) for each in found]


def _transfer_waits(log: OpLog) -> tuple[Ints, Ints]:
    """Returns for each op the picoseconds in which its memory served others, and in which it shared links."""
    waited, shared = np.zeros(log.n_ops, np.int64), np.zeros(log.n_ops, np.int64)
    if "transfers" in log.missing or not log.n_ops:
        return waited, shared
    parts = service_parts(log, all_transfers(log))
    rows = _rows_of(log, parts["op_id"])
    waited[rows], shared[rows] = parts["wait_ps"], parts["shared_ps"]
    return waited, shared


def _dispatch_waits(timeline: RunTimeline) -> tuple[Ints, Ints]:
    """Returns for each op the picoseconds for which its tile waited for a buffer, and for the fetches of earlier
    tiles.
    """
    log = timeline.log
    buffer, order = np.zeros(log.n_ops, np.int64), np.zeros(log.n_ops, np.int64)
    if "kernels" not in log.missing and log.n_ops:
        found = timeline.causes.dispatch_waits()
        rows = _rows_of(log, found.op_id)
        buffer[rows], order[rows] = found.tile_buffer_ps, found.fetch_order_ps
    return buffer, order


def _rows_of(log: OpLog, op_ids: Ints) -> Ints:
    """Returns the rows of *op_ids*, which are all in *log*."""
    ids = np.ascontiguousarray(log.ops["op_id"])
    order = np.argsort(ids, kind="stable")
    found: Ints = order[np.searchsorted(ids[order], op_ids)]
    return found
