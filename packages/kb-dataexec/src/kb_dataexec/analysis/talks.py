"""Sums of the SYNC_TABLES of a log: the waits of kernels for other PEs, by line and reason, and the channels."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from kb_dataexec.analysis.stream_calls import of_programs
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.ranges import numbered_rows
from kb_dataexec.log.table_dtypes import TABLE_DTYPES
from kb_dataexec.log.tables import OpLog
from kb_messages import SyncReason


class SyncWaits(Struct, frozen=True, kw_only=True):
    """The waits at the kernel line `line` for one reason: `message`, `credit`, `signal` or `barrier`.

    `count` has all waits, also those that took no time, and `waited_ps` is the sum of their picoseconds over all PEs.
    The longest one took `longest_ps`; PE `pe` then waited for PE `other`.
    """

    line: str
    reason: str
    count: int
    waited_ps: int
    longest_ps: int
    pe: str
    other: str


class Channels(Struct, frozen=True, kw_only=True):
    """Channels with equal messages and ways, all with the tag `tag`. `channels` counts them; the first leads from `src`
    to `dst`.

    Each has `messages` with `nbytes` bytes in all. `mean_ps` and `longest_ps` are the picoseconds from the credit to
    the doorbell; the mean is rounded down. `slots` counts the slots that had messages, and `busy_slots` is the mean
    number of slots with a message, from the first credit to the moment at which the last slot came free, and over the
    channels. A slot has its message from the credit on until the receiver frees the slot.
    """

    src: str
    dst: str
    tag: str
    channels: int
    messages: int
    nbytes: int
    mean_ps: int
    longest_ps: int
    slots: int
    busy_slots: float


def sync_waits(log: OpLog) -> list[SyncWaits]:
    """Returns the waits of *log* by line and reason, the longest sum first. Empty for a log without waits."""
    waits = of_programs(log.tables.get("waits", np.empty(0, TABLE_DTYPES["waits"])))
    if not len(waits):
        return []
    group, took_ps = numbered_rows(waits["line"], waits["reason"]), waits["to_ps"] - waits["from_ps"]
    found = []
    for rows in _rows_by(group):
        longest = waits[rows[np.argmax(took_ps[rows])]]
        each = SyncWaits(
            line=log.strings[longest["line"]],
            reason=SyncReason(longest["reason"]).name.lower(),
            count=len(rows),
            waited_ps=int(took_ps[rows].sum()),
            longest_ps=int(longest["to_ps"] - longest["from_ps"]),
            pe=log.strings[longest["pe"]],
            other=log.strings[longest["other"]],
        )
        found.append(each)
    return sorted(found, key=lambda each: (-each.waited_ps, each.line, each.reason))


def channels(log: OpLog) -> list[Channels]:
    """Returns the channels of *log*, equal ones together, the most time from credits to doorbells first.

    Messages that were on their way when the log ended are left out. Empty for a log without messages.
    """
    sends = log.tables.get("sends")
    if sends is None or "commands" not in log.tables:
        return []
    sends = sends[sends["t_rung_ps"] >= 0]
    commands = log.tables["commands"]
    order = np.argsort(commands["command_seq"], kind="stable")
    at = np.searchsorted(commands["command_seq"], sends["command_seq"], sorter=order)
    src = commands["pe"][order[at]]
    alike: dict[tuple[int, ...], list[tuple[int, float]]] = {}
    for rows in _rows_by(numbered_rows(src, sends["dst"], sends["tag"])):
        alike.setdefault(_numbers(sends[rows]), []).append((int(rows[0]), _busy_slots(sends[rows])))
    found = []
    for (tag, messages, nbytes, way_ps, longest_ps, slots), members in alike.items():
        first = members[0][0]
        each = Channels(
            src=log.strings[src[first]],
            dst=log.strings[sends["dst"][first]],
            tag=log.strings[tag],
            channels=len(members),
            messages=messages,
            nbytes=nbytes,
            mean_ps=way_ps // messages,
            longest_ps=longest_ps,
            slots=slots,
            busy_slots=sum(busy for _, busy in members) / len(members),
        )
        found.append(each)
    return sorted(found, key=lambda each: -each.mean_ps * each.messages * each.channels)


def _numbers(sends: Array) -> tuple[int, ...]:
    """The tag of the messages of one channel, their count and bytes, the sum and the longest of their ways, the number
    of slots."""
    way_ps = sends["t_rung_ps"] - sends["t_credit_ps"]
    slots = len(np.unique(sends["slot"]))
    tag, nbytes = int(sends["tag"][0]), int(sends["nbytes"].sum())
    return tag, len(sends), nbytes, int(way_ps.sum()), int(way_ps.max()), slots


def _busy_slots(sends: Array) -> float:
    """The mean number of slots with a message in one channel. A slot that stayed full counts up to the last time."""
    freed_ps, start_ps = sends["t_freed_ps"], sends["t_credit_ps"]
    end_ps = max(int(sends[name].max()) for name in ("t_rung_ps", "t_taken_ps", "t_freed_ps"))
    busy_ps = int((np.where(freed_ps < 0, end_ps, freed_ps) - start_ps).sum())
    return busy_ps / max(end_ps - int(start_ps.min()), 1)


def _rows_by(group: Array) -> list[Array]:
    """The rows of each group, in their order. Groups stand in the order of their first rows."""
    order = np.argsort(group, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(group) else []
    return sorted(parts, key=lambda rows: int(rows[0]))
