"""The report when the event queue drains while kernels still wait: who waits, where, and for what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kb_engine.ports import StageServer
from kb_messages.errors import SimulationStuckError

if TYPE_CHECKING:
    from kb_engine.kernel_runner import KernelRunner


def stuck_error(runners: Sequence[KernelRunner], servers: Sequence[StageServer]) -> SimulationStuckError:
    """One sentence for every kernel, command and queue that still waits."""
    waiting = [f"{runner.pe.pe_id} waits at {runner.waiting_at}" for runner in runners if runner.waiting_at]
    commands = [sentence for runner in runners for sentence in runner.pe.scheduler.waiting_for()]
    queues = [
        f"{server.node_id} {server.stage_type.name} holds {len(server.queue) + 1} tiles, "
        f"{len(server.blocked)} senders wait for room in its queue of {server.depth}"
        for server in servers
        if server.token is not None
    ]
    return SimulationStuckError(
        "simulation",
        "nothing left to happen while kernels wait: " + "; ".join(waiting + commands + queues),
        "an event that lets one of them go on",
    )
