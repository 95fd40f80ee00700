"""Tracer: makes the events of the trace while the simulation runs.

An engine in which no observer overrides `on_trace` has no Tracer and plain StageServers, so it pays nothing for traces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kb_engine.block.in_flight import CommandInFlight, TileToken
from kb_engine.block.pe_roles import CommandScheduler
from kb_engine.observe.chip import Chip
from kb_engine.observe.observer import Observer
from kb_engine.observe.trace_order import TraceOrder
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
    LaunchEvent,
    SubCommandDispatched,
    TileReady,
    TraceEvent,
    WaitReason,
)


class Tracer(Observer):
    """Makes trace events and passes them to *sink* in the order of `trace_order`."""

    _clock: Clock
    _schedulers: dict[str, CommandScheduler[Any]]

    def __init__(self, sink: Callable[[TraceEvent], None]) -> None:
        self._order = TraceOrder(sink)

    def on_built(self, chip: Chip) -> None:
        """Look up the clock, and the scheduler of every PE."""
        nodes = chip.topology.graph.nodes
        self._clock = chip.clock
        self._schedulers = {
            str(nodes[node_id].pe_id): block
            for node_id, block in chip.components.items()
            if isinstance(block, CommandScheduler)
        }

    def on_return(self) -> None:
        """Hand over everything: no earlier event can follow."""
        self._order.flush()

    def on_housekeeping(self) -> None:
        """Hand over everything when nothing is left to happen."""
        if self._clock.is_idle:
            self._order.flush()

    def command_submitted(self, context: CommandInFlight) -> None:
        """A command enters its PE's submission queue, after it waited for its operands and then for room there."""
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
        """The program took a command's record from the completion queue."""
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
        """The end of a transfer is known now. It may lie ahead."""
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
