"""The trace's total order: by time, then by a key that follows from the event alone."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final

from kb_messages import (
    CommandComplete,
    CommandSubmitted,
    EngineComplete,
    EngineStart,
    FabricTransfer,
    KernelEnd,
    KernelStart,
    LaunchResponse,
    LaunchSent,
    StageEvent,
    SubCommandDispatched,
    TileReady,
    TraceEvent,
)

_KIND: Final = {TileReady: 0, EngineStart: 1, EngineComplete: 2}
_LAUNCH_KIND: Final = {LaunchSent: 0, KernelStart: 1, KernelEnd: 0, LaunchResponse: 1}
_TRANSFERS, _ENDS, _BEGINNINGS, _THE_REST, _RETURNS = range(5)

Key = tuple[Any, ...]


def order_key(event: TraceEvent, ends_earlier_service: bool = False) -> Key:
    """The key that sorts *event* into the trace. Two events with equal keys are equal.

    Events at one time are sorted by phase: transfers that end; services that end and began earlier
    (*ends_earlier_service*); launches and kernels that begin; all other events; kernels and launches that end. Services
    that end come before services that start, so that no service starts on a channel that is not free.

    Within a phase, services and other events are sorted by command, tile, stage index, and then ready, start, end. A
    command's submission precedes its tiles, and its completion follows them. Launches are sorted by number, then by PE.
    """
    if isinstance(event, FabricTransfer):
        return event.t_end_ps, _TRANSFERS, event.src, event.dst, event.t_start_ps, event.nbytes
    if isinstance(event, (LaunchSent, KernelStart, KernelEnd, LaunchResponse)):
        phase = _BEGINNINGS if isinstance(event, (LaunchSent, KernelStart)) else _RETURNS
        return event.t_ps, phase, event.launch, _LAUNCH_KIND[type(event)], getattr(event, "pe", "")
    if isinstance(event, CommandSubmitted):
        return event.t_ps, _THE_REST, event.command_seq, 0
    if isinstance(event, CommandComplete):
        return event.t_ps, _THE_REST, event.command_seq, 2
    phase = _ENDS if ends_earlier_service else _THE_REST
    return event.t_ps, phase, event.command_seq, 1, event.tile_id, *_within_tile(event)


def _within_tile(event: SubCommandDispatched | StageEvent) -> tuple[int, int]:
    return (-1, 0) if isinstance(event, SubCommandDispatched) else (event.stage_index, _KIND[type(event)])


class TraceOrder:
    """Sorts events and hands each to *sink* as soon as no earlier event can follow.

    It holds back the events of the current picosecond and the transfers that are under way.
    """

    def __init__(self, sink: Callable[[TraceEvent], None]) -> None:
        self._sink = sink
        self._heap: list[tuple[Key, int, TraceEvent]] = []
        self._event_order = count()
        self._now_ps = 0

    def add(self, event: TraceEvent, now_ps: int, ends_earlier_service: bool = False) -> None:
        """Take an event that becomes known at *now_ps*: never before an earlier call's, nor after the event's time."""
        if now_ps > self._now_ps:
            self._now_ps = now_ps
            self._release(now_ps)
        heappush(self._heap, (order_key(event, ends_earlier_service), next(self._event_order), event))

    def flush(self) -> None:
        """Hand over the remaining events, because nothing more happens before the next call of the host."""
        while self._heap:
            self._sink(heappop(self._heap)[-1])

    def _release(self, now_ps: int) -> None:
        heap = self._heap
        while heap and heap[0][0][0] < now_ps:
            self._sink(heappop(heap)[-1])
