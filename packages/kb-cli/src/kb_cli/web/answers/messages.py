"""The message of a slice: of the DMA write that sends it, or of the wait of the kernel that took it; and all messages
of a window.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from kb_cli.trace.protobuf import Ints
from kb_cli.web.answer import WebAnswer, json_answer
from kb_cli.web.answers.timeline import times
from kb_cli.web.run_timeline import OPS, WAITS, RunTimeline
from kb_cli.web.web_request import WebRequest


class MessageEnd(Struct, frozen=True, kw_only=True):
    """An end of a message in the timeline: a time of a lane of the table `table`."""

    table: str
    lane: int
    t_ps: int


class ShownMessage(Struct, frozen=True, kw_only=True):
    """A message of `nbytes` bytes from PE `src` to PE `dst`, in slot `slot` of the channel with the tag `tag`.

    Op `op` wrote it to the slot. The kernels sent and took it at `line_sent` and `line_taken`. Times are those of the
    table `sends` of a log; `freed_ps` is None for a slot that was not given back, and `taken_ps` for a message that no
    kernel took. The arrow of the message leads from `sent`, its doorbell, to `taken`, and there is none without
    `taken`. `waited` says
    whether the receiver waited for the message.
    """

    op: int
    src: str
    dst: str
    tag: str
    slot: int
    nbytes: int
    line_sent: str
    line_taken: str
    credit_ps: int
    rung_ps: int
    taken_ps: int | None
    freed_ps: int | None
    sent: MessageEnd
    taken: MessageEnd | None
    waited: bool


def message_of(timeline: RunTimeline, name: str, row: int) -> ShownMessage | None:
    """Returns the message of the slice *row* of the table *name*, None for a slice of no message."""
    log, slices = timeline.log, timeline.table(name).slices
    sends = log.tables.get("sends")
    if sends is None or "commands" not in log.tables or name not in (OPS, WAITS):
        return None
    if name == OPS:
        found = np.flatnonzero(sends["command_seq"] == slices.arguments["command"][row])
    else:
        is_message = timeline.table(name).stages[slices.name[row]] == "message"
        pe = slices.places[slices.track[row]].group
        found = np.flatnonzero(is_message & (sends["t_taken_ps"] == slices.end_ps[row]))
        found = found[[log.strings[each] == pe for each in sends["dst"][found].tolist()]]
    if not len(found) or sends["t_rung_ps"][found[0]] < 0:
        return None
    return _shown(timeline, int(found[0]))


def _shown(timeline: RunTimeline, at: int) -> ShownMessage:
    log = timeline.log
    strings, send, ops = log.strings, log.tables["sends"][at], timeline.table(OPS)
    commands = log.tables["commands"]
    command = commands[np.flatnonzero(commands["command_seq"] == send["command_seq"])[0]]
    writes = np.flatnonzero(ops.slices.arguments["command"] == send["command_seq"])
    write = int(writes[np.argmax(ops.end_ps[writes])])
    dst, taken_ps = strings[send["dst"]], int(send["t_taken_ps"])
    lanes = _lanes_of(timeline, dst) if taken_ps >= 0 else []
    return ShownMessage(
        op=int(ops.slices.arguments["op"][write]),
        src=strings[command["pe"]],
        dst=dst,
        tag=strings[send["tag"]],
        slot=int(send["slot"]),
        nbytes=int(send["nbytes"]),
        line_sent=strings[command["line"]],
        line_taken=strings[send["line_taken"]],
        credit_ps=int(send["t_credit_ps"]),
        rung_ps=int(send["t_rung_ps"]),
        taken_ps=taken_ps if taken_ps >= 0 else None,
        freed_ps=int(send["t_freed_ps"]) if send["t_freed_ps"] >= 0 else None,
        sent=MessageEnd(table=OPS, lane=ops.lane_of(write), t_ps=min(int(ops.end_ps[write]), int(send["t_rung_ps"]))),
        taken=MessageEnd(table=lanes[0][0], lane=lanes[0][1], t_ps=taken_ps) if lanes else None,
        waited=bool(lanes) and _waited(timeline, lanes[0], taken_ps),
    )


def _lanes_of(timeline: RunTimeline, pe: str) -> list[tuple[str, int]]:
    """The lanes of *pe*, first the lane of its waits, if it has one."""
    tables = [name for name in (WAITS, OPS) if name in timeline.tables]
    return [
        (name, lane) for name in tables for lane, place in enumerate(timeline.table(name).lanes) if place.group == pe
    ]


def _waited(timeline: RunTimeline, lane: tuple[str, int], taken_ps: int) -> bool:
    table = timeline.table(lane[0])
    row = table.at(lane[1], taken_ps - 1) if taken_ps else None
    return lane[0] == WAITS and row is not None and int(table.end_ps[row]) == taken_ps


_MOST: Final = 200
"""The most messages of a window that are answered. More arrows would hide what they lead to."""


class MessageArrow(Struct, frozen=True, kw_only=True):
    """The way of a message: from its doorbell to the kernel that took it."""

    sent: MessageEnd
    taken: MessageEnd


class MessageArrows(Struct, frozen=True, kw_only=True):
    """The number of messages that kernels took in a window, and the first of them in the order of time."""

    count: int
    first: list[MessageArrow]


def arrows(asked: WebRequest) -> WebAnswer:
    """Answers with the messages that were on their way between `t0` and `t1`."""
    return json_answer(message_arrows(asked.run.timeline, times(asked)))


def message_arrows(timeline: RunTimeline, window: tuple[int, int]) -> MessageArrows:
    """Returns the messages that were on their way in *window*, its begin and its end in ps."""
    sends = timeline.log.tables.get("sends")
    if sends is None:
        return MessageArrows(count=0, first=[])
    taken, rung = sends["t_taken_ps"], sends["t_rung_ps"]
    there: Ints = np.flatnonzero((rung >= 0) & (taken >= window[0]) & (rung <= window[1]))
    first = sends[there[np.argsort(taken[there], kind="stable")[:_MOST]]]
    ops, lanes = timeline.table(OPS), _first_lanes(timeline)
    writes: Ints = np.flatnonzero(np.isin(ops.slices.arguments["command"], first["command_seq"]))
    writes = writes[np.argsort(ops.end_ps[writes], kind="stable")]
    last = dict(
        zip(ops.slices.arguments["command"][writes].tolist(), writes.tolist(), strict=True)
    )  # the last one stays
    found = []
    for send in first:
        write, end = last[int(send["command_seq"])], lanes.get(timeline.log.strings[send["dst"]])
        if end is not None:
            t_ps = min(int(ops.end_ps[write]), int(send["t_rung_ps"]))
            sent = MessageEnd(table=OPS, lane=ops.lane_of(write), t_ps=t_ps)
            found.append(
                MessageArrow(sent=sent, taken=MessageEnd(table=end[0], lane=end[1], t_ps=int(send["t_taken_ps"])))
            )
    return MessageArrows(count=len(there), first=found)


def _first_lanes(timeline: RunTimeline) -> dict[str, tuple[str, int]]:
    """Returns the first lane of each PE, that of its waits if it has one."""
    tables = [name for name in (OPS, WAITS) if name in timeline.tables]
    return {
        place.group: (name, len(timeline.table(name).lanes) - 1 - lane)
        for name in tables
        for lane, place in enumerate(reversed(timeline.table(name).lanes))
    }
