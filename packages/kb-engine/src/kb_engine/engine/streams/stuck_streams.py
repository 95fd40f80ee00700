"""The report on streams of the host that can never go on, because nobody records an event, or in a circle.

Design: docs/design/trace-and-stuck-runs.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kb_engine.launch.pe_turns import PeTurns
from kb_engine.launch.streams import HostEvent, StreamCall
from kb_engine.timing.units import ns_text
from kb_messages import HostCallKind, SimulationStuckError

_MOST_SHOWN: Final = 6
"""The most streams, and the most calls behind one, that a report lists."""


def stuck_streams_error(where: str, calls: Sequence[StreamCall], turns: PeTurns) -> SimulationStuckError:
    """Returns the error to raise at *where* for the open *calls* of streams, in their order in each stream.

    *turns* knows which launches wait for PEs.
    """
    of_stream: dict[int, list[StreamCall]] = {}
    for call in calls:
        of_stream.setdefault(call.stream, []).append(call)
    lines = [_line(mine, turns) for mine in list(of_stream.values())[:_MOST_SHOWN]]
    if len(of_stream) > _MOST_SHOWN:
        lines.append(f"and {len(of_stream) - _MOST_SHOWN} more streams")
    lines += _ends(of_stream)
    n = len(calls)
    return SimulationStuckError(
        where,
        f"{n} call{'s' if n > 1 else ''} of streams cannot go on, and no event is scheduled",
        "an event that lets one of them go on",
        "\n  ".join(["who waits for whom:", *lines]),
    )


def waits_for_pes(calls: Sequence[StreamCall], turns: PeTurns) -> list[str]:
    """Returns a line for each launch among *calls* that waits for a PE which another launch has."""
    found = []
    for call in calls:
        holder = turns.holder(call.launch) if call.kind is HostCallKind.LAUNCH else None
        if holder is not None:
            pe_id, other = holder
            found.append(
                f"stream {call.stream}: launch {call.launch} at {call.line} waits for {pe_id}, which launch {other} has"
            )
    return found


def _line(calls: Sequence[StreamCall], turns: PeTurns) -> str:
    """The line for a stream: its first open call, and the calls behind it."""
    first, behind = calls[0], calls[1:]
    text = f"stream {first.stream}: {_waiting(first, turns)}"
    if behind:
        shown = ", ".join(_named(each) for each in behind[:_MOST_SHOWN])
        more = f" and {len(behind) - _MOST_SHOWN} more" if len(behind) > _MOST_SHOWN else ""
        text += f"; behind it {shown}{more}"
    return text


def _waiting(call: StreamCall, turns: PeTurns) -> str:
    since = f" since {ns_text(call.start_ps)}" if call.has_started else ""
    if call.kind is HostCallKind.WAIT and call.event is not None:
        return f"call {call.number}, the wait at {call.line}, waits{since} for {_event(call.event)}"
    waits = waits_for_pes([call], turns)
    if waits:
        return waits[0].partition(": ")[2]
    return f"call {call.number}, {_named(call)}, has no answer{since}"


def _event(event: HostEvent) -> str:
    made = f"event {event.number}, made at {event.line}"
    call = event.recorded_by
    if call is None:
        return f"{made}, which no call records"
    return f"{made}, which call {call.number} of stream {call.stream} records at {call.line}"


def _named(call: StreamCall) -> str:
    names = {
        HostCallKind.LAUNCH: f"launch {call.launch}",
        HostCallKind.RECORD: "the record",
        HostCallKind.WAIT: "the wait",
    }
    return f"{names.get(call.kind, f'the {call.kind.name.lower()}')} at {call.line}"


def _ends(of_stream: dict[int, list[StreamCall]]) -> list[str]:
    """The lines on what is missing: events that nobody records, or a circle of streams."""
    missing = {
        call.event.number: call.event
        for call in (calls[0] for calls in of_stream.values())
        if call.kind is HostCallKind.WAIT and call.event is not None and call.event.recorded_by is None
    }
    if missing:
        each = [f"stream.record of event {number}, made at {event.line}" for number, event in sorted(missing.items())]
        return [f"missing: {', '.join(each[:_MOST_SHOWN])}"]
    seen: list[int] = []
    stream: int | None = next(iter(of_stream), None)
    while stream is not None and stream not in seen:
        seen.append(stream)
        stream = _next(of_stream.get(stream, []))
    if stream is None:
        return []
    circle = seen[seen.index(stream) :]
    names = " and ".join(f"stream {each}" for each in circle)
    wait = "waits for itself" if len(circle) == 1 else "wait for each other"
    return [f"a circle: {names} {wait}; record each event before the wait that leads back to it"]


def _next(calls: Sequence[StreamCall]) -> int | None:
    """The stream that the first of *calls* waits for."""
    event = calls[0].event if calls and calls[0].kind is HostCallKind.WAIT else None
    return None if event is None or event.recorded_by is None else event.recorded_by.stream
