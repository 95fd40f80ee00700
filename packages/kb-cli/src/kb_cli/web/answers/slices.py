"""The view of one slice: its record in the log, and the chain of causes of its end, back to the start of its
program.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from kb_cli.web.answer import WebAnswer, json_answer
from kb_cli.web.answers.messages import ShownMessage, message_of
from kb_cli.web.answers.timeline import LATEST_PS
from kb_cli.web.lanes.lane_table import LaneTable
from kb_cli.web.run_timeline import OPS, RunTimeline
from kb_cli.web.web_request import WebRequest
from kb_dataexec.analysis import PathColumns
from kb_messages import WaitReason


class SliceRecord(Struct, frozen=True, kw_only=True):
    """The record of a service in the op log. `waits_ps` has the reasons for which it started later than its tile came.

    The tile came at `ready_ps`, and left for its next block at `out_ps`.
    """

    op: int
    component: str
    stage: str
    line: str
    command: int
    tile: int
    ready_ps: int
    out_ps: int
    waits_ps: dict[str, int]


class ShownSlice(Struct, frozen=True, kw_only=True):
    """A slice of a lane, the ops of its neighbours there, and its message, None for none."""

    table: str
    lane: int
    group: str
    title: str
    name: str
    t0_ps: int
    t1_ps: int
    record: SliceRecord | None
    before: int | None
    after: int | None
    message: ShownMessage | None = None


class NoSlice(Struct, frozen=True, kw_only=True):
    """The answer for a moment without a slice."""

    table: str
    lane: int
    t_ps: int


def one_slice(asked: WebRequest) -> WebAnswer:
    """Answers with the slice of `op`, or the one of the lane `lane` of `table` at the time `t`."""
    timeline = asked.run.timeline
    if "op" in asked.fields:
        return json_answer(shown_slice(timeline, OPS, timeline.row_of(asked.whole("op", 0, 2**62))))
    name, lane, t_ps = asked.field("table"), asked.whole("lane", 0, 2**31), asked.whole("t", 0, LATEST_PS)
    row = timeline.table(name).at(lane, t_ps)
    found = NoSlice(table=name, lane=lane, t_ps=t_ps) if row is None else shown_slice(timeline, name, row)
    return json_answer(found)


def shown_slice(timeline: RunTimeline, name: str, row: int) -> ShownSlice:
    """Returns the slice *row* of the table *name*."""
    table = timeline.table(name)
    lane = table.lane_of(row)
    rows, op = table.rows(lane), _op(table, row)
    return ShownSlice(
        table=name,
        lane=lane,
        group=table.lanes[lane].group,
        title=table.lanes[lane].title,
        name=table.slices.names[table.slices.name[row]],
        t0_ps=int(table.start_ps[row]),
        t1_ps=int(table.end_ps[row]),
        record=None if op is None else record_of(timeline, op),
        before=_op(table, row - 1) if row > rows.start else None,
        after=_op(table, row + 1) if row + 1 < rows.stop else None,
        message=message_of(timeline, name, row),
    )


def _op(table: LaneTable, row: int) -> int | None:
    """Returns the op of a slice, None for a slice of a launch or of a processor."""
    ops = table.slices.arguments.get("op")
    return int(ops[row]) if ops is not None and ops[row] >= 0 else None


def record_of(timeline: RunTimeline, op: int) -> SliceRecord:
    """Returns the record of *op*, which is in the log."""
    found, strings = timeline.log.ops[timeline.record_of(op)], timeline.log.strings
    waits = {reason.name.lower(): int(found[f"wait_{reason.name.lower()}_ps"]) for reason in WaitReason}
    return SliceRecord(
        op=op,
        component=strings[found["component"]],
        stage=strings[found["name"]],
        line=strings[found["line"]],
        command=int(found["command_seq"]),
        tile=int(found["tile_id"]),
        ready_ps=int(found["t_ready_ps"]),
        out_ps=int(found["t_out_ps"]),
        waits_ps={name: ps for name, ps in waits.items() if ps},
    )


_PAGE: Final = 200
"""The links of a chain in one answer."""


class WaitedFor(Struct, frozen=True, kw_only=True):
    """The cause for which an op started, or its tile left, not earlier: the edge, and an op, None for no op."""

    via: str
    op: int | None


class ChainLink(Struct, frozen=True, kw_only=True):
    """A segment of a chain: `block` did `what` from `t0_ps` to `t1_ps`, and held up the next segment by `via`."""

    t0_ps: int
    t1_ps: int
    pe: str
    block: str
    what: str
    line: str
    via: str
    op: int | None


class ChainShare(Struct, frozen=True, kw_only=True):
    """The picoseconds of the whole chain in which `block` did `what`."""

    block: str
    what: str
    ps: int


class WhyThen(Struct, frozen=True, kw_only=True):
    """The chain of the service `shown`, the latest link first, from the number `skip` on; it has `count` links.

    It begins at `from_ps`, with its program. `shares`, the largest first, add up to the end of the service.
    """

    shown: ShownSlice
    start: WaitedFor
    left: WaitedFor
    from_ps: int
    count: int
    skip: int
    links: list[ChainLink]
    shares: list[ChainShare]


def why(asked: WebRequest) -> WebAnswer:
    """Answers with the chain of the field `op`, some links of it from `skip` on."""
    timeline, op = asked.run.timeline, asked.whole("op", 0, 2**62)
    shown = shown_slice(timeline, OPS, timeline.row_of(op))
    causes, ids = timeline.causes, np.array([op])
    (start,), (left,) = causes.holders(ids, "start"), causes.holders(ids, "left")
    chain = timeline.chain(op)
    skip = asked.whole("skip", 0, len(chain.start_ps)) if "skip" in asked.fields else 0
    return json_answer(
        WhyThen(
            shown=shown,
            start=WaitedFor(via=start.via, op=None if start.op_id < 0 else start.op_id),
            left=WaitedFor(via=left.via, op=None if left.op_id < 0 else left.op_id),
            from_ps=int(chain.start_ps[0]) if len(chain.start_ps) else shown.t0_ps,
            count=len(chain.start_ps),
            skip=skip,
            links=_links(chain, skip),
            shares=_shares(chain),
        )
    )


def _links(chain: PathColumns, skip: int) -> list[ChainLink]:
    last = len(chain.start_ps) - skip
    rows = slice(max(last - _PAGE, 0), last)
    columns = (chain.start_ps, chain.end_ps, chain.pe, chain.block, chain.what, chain.line, chain.via, chain.op_id)
    strings = chain.strings
    found = [
        ChainLink(
            t0_ps=start,
            t1_ps=end,
            pe=strings[pe],
            block=strings[block],
            what=strings[what],
            line=strings[line],
            via=strings[via],
            op=None if op < 0 else op,
        )
        for start, end, pe, block, what, line, via, op in zip(
            *(column[rows].tolist() for column in columns), strict=True
        )
    ]
    return found[::-1]


def _shares(chain: PathColumns) -> list[ChainShare]:
    keys, number = np.unique(np.stack((chain.block, chain.what), axis=1), axis=0, return_inverse=True)
    spent = np.zeros(len(keys), np.int64)
    np.add.at(spent, number.reshape(-1), chain.end_ps - chain.start_ps)
    found = [
        ChainShare(block=chain.strings[block], what=chain.strings[what], ps=ps)
        for (block, what), ps in zip(keys.tolist(), spent.tolist(), strict=True)
    ]
    return sorted(found, key=lambda each: (-each.ps, each.block, each.what))
