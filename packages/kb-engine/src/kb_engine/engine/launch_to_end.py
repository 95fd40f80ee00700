"""LaunchToEnd: has the clock run until all programs of a launch have ended, or says why they never do.

Design: docs/design/trace-and-stuck-runs.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from msgspec.structs import replace

from kb_engine.engine.build import Built
from kb_engine.engine.stuck import stuck_error
from kb_engine.engine.wait_graph import WaitGraph
from kb_engine.launch.host_calls import HostCalls
from kb_engine.launch.launch import Launch, LaunchResult
from kb_engine.launch.targets import targets_of
from kb_engine.timing.units import ns_text
from kb_messages import CubeTarget, KbError, KernelLaunch, LaunchResponse, LaunchSent


class LaunchToEnd:
    """Runs launches on the chip *built*, one after the other."""

    def __init__(self, built: Built) -> None:
        self._chip = built.chip
        self._session = built.session
        self._host_calls = built.host_calls
        self._launches = built.launches

    def run(self, launch: Launch, targets: Sequence[CubeTarget] | None) -> LaunchResult:
        """Runs the programs of *launch*, which the host sends to *targets*, if there is a host. Returns the times.

        Raises SimulationStuckError when a kernel waits and nothing is left to happen.
        """
        if self._host_calls is None:
            return self._at_once(launch)
        there = targets or targets_of(self._chip.topology.graph, launch.pe_ids)
        return self._over_fabric(self._host_calls, launch, there)

    def stands_still(self, n_events: int) -> NoReturn:
        """Raises SimulationStuckError, because no stage ended for *n_events* events."""
        self.raise_stuck("livelock", f"no stage has ended for {n_events:,} events")

    def _at_once(self, launch: Launch) -> LaunchResult:
        clock, on_return = self._chip.clock, self._session.listeners.on_return
        start = clock.now_ps
        for pe_id in launch.pe_ids:
            launch.reach(pe_id, start, lambda: None)
        try:
            clock.drain()
        finally:
            if on_return is not None:
                on_return()
        self._check_finished(launch)
        result = launch.result(start, start)
        return replace(result, response_ps=result.end_ps)

    def _over_fabric(self, host: HostCalls, launch: Launch, targets: Sequence[CubeTarget]) -> LaunchResult:
        number, tracer = launch.number, self._session.tracer

        def sent(t_ps: int) -> None:
            if tracer is not None:
                tracer.launch_event(LaunchSent(t_ps=t_ps, launch=number, n_pes=len(launch.pe_ids)))

        message = KernelLaunch(launch=number, targets=tuple(targets))
        call = host.call([message], sent)
        if any(runner.kernel.waiting_at for runner in launch.runners):
            self._check_finished(launch)
        host.check_answered()
        if tracer is not None:
            tracer.launch_event(LaunchResponse(t_ps=call.response_ps, launch=number, ok=call.refusal is None))
            tracer.on_return()
        host.accepted(call)
        self._check_finished(launch)
        return launch.result(call.call_ps, call.response_ps)

    def _check_finished(self, launch: Launch) -> None:
        if launch.unfinished:
            self._chip.clock.mark_broken()
            self.raise_stuck("deadlock", "no event is scheduled")
        try:
            launch.exchange.close()
        except KbError:
            self._chip.clock.mark_broken()
            raise

    def raise_stuck(self, kind: str, why: str, notes: Sequence[str] = ()) -> NoReturn:
        """Raises SimulationStuckError about the launches under way. *why* and *notes* are as in `stuck_error`."""
        launches = list(self._launches.values())
        runners = [runner for launch in launches for runner in launch.runners]
        label = self._chip.topology.address_map.label
        where = f"{kind} at {ns_text(self._chip.clock.now_ps)}"
        raise stuck_error(WaitGraph(runners, self._chip.servers, label), where, why, launches, notes)
