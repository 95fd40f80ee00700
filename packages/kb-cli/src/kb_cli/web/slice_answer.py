"""One slice with all that the log says of it."""

from __future__ import annotations

from msgspec import Struct

from kb_cli.web.answer import WebAnswer, json_answer
from kb_cli.web.lane_table import LaneTable
from kb_cli.web.run_timeline import OPS, RunTimeline
from kb_cli.web.timeline_answer import LATEST_PS
from kb_cli.web.web_request import WebRequest
from kb_messages import WaitReason


class SliceRecord(Struct, frozen=True, kw_only=True):
    """What the op log says of a service. `waits_ps` has the reasons for which it started later than its tile came.

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
    """A slice of a lane, and the ops of its neighbours there, None for none."""

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


class NoSlice(Struct, frozen=True, kw_only=True):
    """There is no slice at this moment."""

    table: str
    lane: int
    t_ps: int


def one_slice(asked: WebRequest) -> WebAnswer:
    """The slice of `op`, or the one of the lane `lane` of `table` at the time `t`."""
    timeline = asked.run.timeline
    if "op" in asked.fields:
        return json_answer(shown_slice(timeline, OPS, timeline.row_of(asked.whole("op", 0, 2**62))))
    name, lane, t_ps = asked.field("table"), asked.whole("lane", 0, 2**31), asked.whole("t", 0, LATEST_PS)
    row = timeline.table(name).at(lane, t_ps)
    found = NoSlice(table=name, lane=lane, t_ps=t_ps) if row is None else shown_slice(timeline, name, row)
    return json_answer(found)


def shown_slice(timeline: RunTimeline, name: str, row: int) -> ShownSlice:
    """The slice *row* of the table *name*."""
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
    )


def _op(table: LaneTable, row: int) -> int | None:
    """The op of a slice, None for one of a launch or of a processor."""
    ops = table.slices.arguments.get("op")
    return int(ops[row]) if ops is not None and ops[row] >= 0 else None


def record_of(timeline: RunTimeline, op: int) -> SliceRecord:
    """What the log says of *op*, which is there."""
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
