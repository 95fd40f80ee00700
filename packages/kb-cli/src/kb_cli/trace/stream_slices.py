"""Slices of the host's streams: transfers, waits for events, and waits of launches for PEs."""

from __future__ import annotations

from typing import Final

import numpy as np

from kb_cli.trace.arrange import LAUNCHES, pe_order
from kb_cli.trace.slices import by_number, without_overlap
from kb_cli.trace.tracks import Slices, TrackPlace
from kb_dataexec import OpLog
from kb_messages import HostCallKind, SyncReason

_NAMES: Final = {
    HostCallKind.WRITE: "write",
    HostCallKind.READ: "read",
    HostCallKind.COPY: "copy",
    HostCallKind.WAIT: "wait for an event",
}


def stream_slices(log: OpLog) -> Slices | None:
    """Returns the host's transfers of streams, their waits for events, and the waits of launches for PEs.

    Each slice has its exact picoseconds, and the line of the host's call in its name. None for a log without any.
    """
    rows = sorted([*_calls(log), *_waits(log)], key=_order)
    if not rows:
        return None
    places = list(dict.fromkeys(place for place, *_ in rows))
    at = {place: number for number, place in enumerate(places)}
    names = list(dict.fromkeys(name for _, name, *_ in rows))
    name_at = {name: number for number, name in enumerate(names)}
    track = np.array([at[place] for place, *_ in rows], np.int64)
    number = np.array([name_at[name] for _, name, *_ in rows], np.int64)
    start, end = (np.array([row[column] for row in rows], np.int64) for column in (2, 3))
    times = {"start_ps": start, "end_ps": end}
    return without_overlap(Slices(places, track, start, end, number, names, times))


_Row = tuple[TrackPlace, str, int, int]
"""A place, a name, the begin and the end in picoseconds."""


def _order(row: _Row) -> tuple[object, ...]:
    place, name, start, end = row
    of_pe = pe_order(place.group) if place.group != LAUNCHES else ()
    return of_pe, by_number(place.title), start, end, name


def _calls(log: OpLog) -> list[_Row]:
    calls = log.tables.get("calls")
    if calls is None:
        return []
    columns = (calls[name].tolist() for name in ("stream", "call_kind", "line", "t_start_ps", "t_end_ps"))
    return [
        (
            TrackPlace(LAUNCHES, f"stream {stream}: host" if stream >= 0 else "copies"),
            f"{_NAMES[kind]} {log.strings[line]}",
            start,
            end,
        )
        for stream, kind, line, start, end in zip(*columns, strict=True)
        if kind in _NAMES and end > start
    ]


def _waits(log: OpLog) -> list[_Row]:
    waits = log.tables.get("waits")
    if waits is None:
        return []
    busy = waits[waits["reason"] == SyncReason.PE_BUSY]
    columns = (busy[name].tolist() for name in ("pe", "line", "from_ps", "to_ps"))
    return [
        (TrackPlace(log.strings[pe], "waits for the PE"), f"launch {log.strings[line]}", start, end)
        for pe, line, start, end in zip(*columns, strict=True)
    ]
