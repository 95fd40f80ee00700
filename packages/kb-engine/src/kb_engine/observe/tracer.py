"""Tracer: makes the events of the trace while the simulation runs.

An engine in which no observer overrides `on_trace` has no Tracer and plain StageServers, so it pays nothing for traces.

Design: docs/design/trace-and-stuck-runs.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final

from kb_engine.block.in_flight import CommandInFlight, TileToken
from kb_engine.block.pe_roles import CommandScheduler
from kb_engine.observe.chip import Chip
from kb_engine.observe.observer import Observer
from kb_engine.timing.clock import Clock
from kb_messages import (
    ENGINE_QUEUE,
    CommandComplete,
    CommandSubmitted,
    CompletionRecord,
    DispatchWait,
    EngineComplete,
    EngineStart,
    FabricTransfer,
    KernelEnd,
    KernelStart,
    LaunchEvent,
    LaunchResponse,
    LaunchSent,
    StageEvent,
    SubCommandDispatched,
    TileReady,
    TraceEvent,
    WaitReason,
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

    It keeps the events of the current picosecond and the transfers that are under way.
    """

    def __init__(self, sink: Callable[[TraceEvent], None]) -> None:
        self._sink = sink
        self._heap: list[tuple[Key, int, TraceEvent]] = []
        self._event_order = count()
        self._now_ps = 0

    def add(self, event: TraceEvent, now_ps: int, ends_earlier_service: bool = False) -> None:
        """Takes an event that becomes known at *now_ps*: never before an earlier call's, nor after the event's time."""
        if now_ps > self._now_ps:
            self._now_ps = now_ps
            self._release(now_ps)
        heappush(self._heap, (order_key(event, ends_earlier_service), next(self._event_order), event))

    def flush(self) -> None:
        """Hands over the remaining events, because nothing more happens before the next call of the host."""
        while self._heap:
            self._sink(heappop(self._heap)[-1])

    def _release(self, now_ps: int) -> None:
        heap = self._heap
        while heap and heap[0][0][0] < now_ps:
            self._sink(heappop(heap)[-1])


class Tracer(Observer):
    """Makes trace events and passes them to *sink* in the order of `trace_order`."""

    _clock: Clock
    _schedulers: dict[str, CommandScheduler[Any]]

    def __init__(self, sink: Callable[[TraceEvent], None]) -> None:
        self._order = TraceOrder(sink)

    def on_built(self, chip: Chip) -> None:
        """Finds the clock and the scheduler of every PE."""
        nodes = chip.topology.graph.nodes
        self._clock = chip.clock
        self._schedulers = {
            str(nodes[node_id].pe_id): block
            for node_id, block in chip.components.items()
            if isinstance(block, CommandScheduler)
        }

    def on_return(self) -> None:
        """Hands over everything: no earlier event can follow."""
        self._order.flush()

    def on_housekeeping(self) -> None:
        """Hands over everything when nothing is left to happen."""
        if self._clock.is_idle:
            self._order.flush()

    def command_submitted(self, context: CommandInFlight) -> None:
        """Traces a command that enters its PE's submission queue, after waiting for its operands and then for room
        there.
        """
        submitted, plan, now = context.submitted, context.shared_plan, self._clock.now_ps
        event = CommandSubmitted(
            t_ps=now,
            command_seq=submitted.command_seq,
            pe=submitted.pe,
            component=self._schedulers[submitted.pe].node_id,
            line=submitted.line,
            name=plan.kind,
            n_tiles=plan.n_tiles,
            first_op_id=context.first_op,
            n_ops=plan.n_stages,
            waits_ps=_named(
                [
                    (ENGINE_QUEUE, context.turn_ps),
                    (WaitReason.OPERAND.name.lower(), context.operand_ps - context.turn_ps),
                    (DispatchWait.QUEUE_FULL, context.t_submitted_ps - context.t_issued_ps),
                ]
            ),
        )
        self._order.add(event, now)

    def command_completed(self, record: CompletionRecord, line: str) -> None:
        """Traces that the program took a command's record from the completion queue."""
        event = CommandComplete(
            t_ps=record.t_ps,
            command_seq=record.command_seq,
            pe=record.pe,
            component=self._schedulers[record.pe].node_id,
            line=line,
            n_tiles=record.n_tiles,
        )
        self._order.add(event, self._clock.now_ps)

    def launch_event(self, event: LaunchEvent) -> None:
        """A step of a launch happens now."""
        self._order.add(event, self._clock.now_ps)

    def fabric_transfer(self, event: FabricTransfer) -> None:
        """Traces a transfer whose end is known now. The end may lie ahead."""
        self._order.add(event, self._clock.now_ps)

    def dispatched(self, token: TileToken) -> None:
        """The feeder puts *token* into its first queue now."""
        now, context = self._clock.now_ps, token.context
        spent, since = [], context.t_submitted_ps
        for reason, until in self._schedulers[context.submitted.pe].dispatch_waits(token):
            spent.append((reason, until - since))
            since = until
        spent.append((DispatchWait.SCHEDULER, now - since))
        stage = token.stages[token.index]
        event = SubCommandDispatched(
            t_ps=now,
            op_id=token.op_id,
            command_seq=context.submitted.command_seq,
            tile_id=token.tile.tile_id,
            component=stage.component,
            stage=stage.stage_type.name.lower(),
            waits_ps=_named(spent),
        )
        self._order.add(event, now)
        self.ready(token, 0, 0)

    def ready(self, token: TileToken, order_ps: int, blocked_ps: int) -> None:
        """The block of its current stage takes *token*.

        After its last stage *token* waited *order_ps* for the transfers before it, and then *blocked_ps* for room.
        """
        waits = _named([(DispatchWait.TRANSFER_ORDER, order_ps), (DispatchWait.QUEUE_FULL, blocked_ps)])
        self._order.add(TileReady(waits_ps=waits, **self._of_stage(token)), self._clock.now_ps)

    def started(self, token: TileToken) -> None:
        """The service of *token* begins now."""
        waits = token.waits or []
        in_queue = token.t_start - token.t_ready - sum(waited for _, waited in waits)
        named = _named((reason.name.lower(), waited) for reason, waited in [(WaitReason.CHANNEL, in_queue), *waits])
        self._order.add(EngineStart(waits_ps=named, **self._of_stage(token)), self._clock.now_ps)

    def ended(self, token: TileToken) -> None:
        """The service of *token* ends now."""
        now, last = self._clock.now_ps, token.index + 1 == len(token.stages)
        event = EngineComplete(completes_tile=last, **self._of_stage(token))
        self._order.add(event, now, ends_earlier_service=token.t_start < now)

    def _of_stage(self, token: TileToken) -> dict[str, Any]:
        stage = token.stages[token.index]
        return {
            "t_ps": self._clock.now_ps,
            "op_id": token.op_id,
            "command_seq": token.context.submitted.command_seq,
            "tile_id": token.tile.tile_id,
            "stage_index": token.index,
            "component": stage.component,
            "stage": stage.stage_type.name.lower(),
        }


def _named(waits: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The sum of the waits by reason. Reasons with no wait are left out."""
    sums: dict[str, int] = {}
    for reason, waited_ps in waits:
        if waited_ps:
            sums[str(reason)] = sums.get(str(reason), 0) + waited_ps
    return sums
