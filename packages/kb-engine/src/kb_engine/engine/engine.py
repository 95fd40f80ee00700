"""The engine: a chip that is built from its topology, and runs kernels.

Design: docs/design/architecture.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

from kb_dataexec import LogWriter, MemoryLogWriter, MemoryStore, OpLog
from kb_dataexec.log import LogSummary
from kb_engine.block.component import ComponentBase
from kb_engine.block.fabric_roles import MemoryComponent
from kb_engine.block.stage_server import StageServer
from kb_engine.engine.build import Exactness, build
from kb_engine.engine.dropped_interrupts import raises_dropped_interrupts
from kb_engine.engine.exact_check import ExactCheck
from kb_engine.engine.guards.limits import Limits, check_grid, limits_of
from kb_engine.engine.guards.livelock import MOST_REPEATED_LOADS, NO_PROGRESS_EVENTS, PollingGuard, ProgressGuard
from kb_engine.engine.guards.long_runs import LongRunGuard
from kb_engine.engine.launch_to_end import LaunchToEnd
from kb_engine.engine.registry import Registry
from kb_engine.engine.simulated_work import SimulatedWork, WorkCounter
from kb_engine.engine.strategies import FastForward, LaunchRequest, Strategy, fast_forward_of, made_launch
from kb_engine.engine.streams.engine_streams import EngineStreams, Piece, StreamPlace
from kb_engine.engine.stuck import kernel_positions, never_yields_error
from kb_engine.fabric.fabric import Fabric
from kb_engine.language.tl import Language
from kb_engine.launch.host_calls import HostCall
from kb_engine.launch.launch import Launch, LaunchResult
from kb_engine.launch.streams import HostEvent, StreamCall
from kb_engine.launch.targets import check_form, check_there, targets_of
from kb_engine.memory.device_memory import DeviceMemory
from kb_engine.observe.observer import Callbacks, Observer
from kb_engine.observe.recorder import HostMove
from kb_engine.observe.slow_path import SkipRefusal, SlowPathReasons
from kb_engine.program.author.kernel_check import check_kernel
from kb_engine.program.author.kernel_lines import kernel_lines
from kb_engine.program.author.watchdog import KernelNeverYields, watching
from kb_engine.program.grid import Grid
from kb_engine.program.port import FrontEnd
from kb_engine.program.runner import Kernel, KernelCall
from kb_engine.timing.clock import Clock
from kb_engine.timing.collector import collect_once, collector_off
from kb_messages import (
    OFFSET_MASK,
    CubeTarget,
    HostCallKind,
    KbError,
    KernelError,
    Matrix,
    MmuMessage,
    Rectangle,
    TraceEvent,
)
from kb_topology import Topology

EVENTS_ASKED_FOR: Final = SkipRefusal("`exact` is `events`", "simulate with `exact` as `isolated`")
NO_WING: Final = SkipRefusal("the wing `kb_engine.fastforward` is not installed", "install all of kb-engine")

SharedT = TypeVar("SharedT")


class Engine:
    """A simulated chip. With a *writer* every stage service is logged.

    *observers* watch the run (`kb_engine.observe`); a function in their place gets the trace events, as with
    `Callbacks(on_trace=...)`. A run without a writer and observers pays for neither. A launch in which no stage ends
    for *no_progress_events* events counts as stuck, and so does a launch whose kernels make *most_repeated_loads* loads
    in a row that can only repeat earlier results. `host_calls` makes the host's calls, and is None for a topology
    without a host.

    *exact* chooses how much is simulated event by event. `isolated` skips work that follows exactly from other work, by
    the strategies of `fast_forward`; `events` skips nothing, and `fast_forward` is None; `check` skips like `isolated`,
    simulates each launch once more on a second engine that skips nothing, and raises KbError where times, counts,
    traffic, states of blocks, bytes, errors or rows of the log differ. Times, counts and the op log are the same in all
    three. With *templates*, programs of a grid that repeat an earlier program are replayed without their kernel. `work`
    counts the skipped work. *limits* end work without end, and change no result; by default they are those of the
    environment (`limits_of`).

    Raises TopologyError when the topology names blocks that are not installed or attributes they do not take, and
    KbError for another *exact*.
    """

    def __init__(
        self,
        topology: Topology,
        writer: LogWriter | None = None,
        observers: Sequence[Observer] | Callable[[TraceEvent], None] = (),
        registry: Registry | None = None,
        no_progress_events: int = NO_PROGRESS_EVENTS,
        most_repeated_loads: int = MOST_REPEATED_LOADS,
        templates: bool = True,
        exact: Exactness = "isolated",
        limits: Limits | None = None,
    ) -> None:
        if exact not in get_args(Exactness):
            raise KbError("Engine", f"exact={exact!r}", " or ".join(map(repr, get_args(Exactness))))
        self.limits = limits_of() if limits is None else limits
        length = LongRunGuard(self.limits, lambda: self._launches.values(), self._is_searching)
        guard = ProgressGuard(
            no_progress_events, lambda n_events: self._to_end.stands_still(n_events), lambda: self._launches.values()
        )
        polling = PollingGuard(most_repeated_loads, lambda: self._launches.values(), lambda: self.memory)
        watchers = (Callbacks(on_trace=observers),) if callable(observers) else observers
        reasons, registry = SlowPathReasons(), registry or Registry()
        with collector_off():
            built = build(topology, registry, writer, (*watchers, guard, polling, length))
            self.fast_forward: FastForward | None = None
            if exact != "events":
                self.fast_forward = fast_forward_of(built, watchers, templates, reasons)
        collect_once()  # so that the objects of the chip count as old
        self.chip = built.chip
        self.pes = built.pes
        self.session = built.session
        self.host_calls = built.host_calls
        self._launches = built.launches
        self._to_end = LaunchToEnd(built)
        self._launched = 0
        self._of_hosts: Any = None
        wing = self.fast_forward
        self._strategies: Sequence[Strategy] = () if wing is None else wing.strategies
        self._work = WorkCounter(built.session, wing, EVENTS_ASKED_FOR if exact == "events" else NO_WING, reasons)
        self.streams = EngineStreams(built, wing, self._work, self.limits, self._to_end.raise_stuck)
        self._check: ExactCheck | None = None
        if exact == "check":
            most = no_progress_events, most_repeated_loads
            other = None if writer is None else MemoryLogWriter()
            second = Engine(topology, other, (), registry, *most, exact="events", limits=self.limits)
            self._check = ExactCheck(self, second)

    @property
    def topology(self) -> Topology:
        """The topology of the chip."""
        return self.chip.topology

    @property
    def clock(self) -> Clock:
        """The simulation's clock."""
        return self.chip.clock

    @property
    def fabric(self) -> Fabric:
        """The links, and the transfers on them."""
        return self.chip.fabric

    @property
    def components(self) -> dict[str, ComponentBase[Any]]:
        """Every block by node id, in the topology's order."""
        return self.chip.components

    @property
    def servers(self) -> list[StageServer]:
        """Every stage queue with the service behind it, in the topology's order."""
        return self.chip.servers

    @property
    def memory(self) -> DeviceMemory:
        """The bytes of all memories."""
        return self.session.memory

    @property
    def initial_memory(self) -> MemoryStore | None:
        """The bytes of all memories as the first launch found them; None before."""
        return self.session.memory.initial

    @raises_dropped_interrupts
    @collector_off()
    def launch(
        self,
        kernel: Kernel,
        arguments: Sequence[Any],
        pe_ids: Sequence[str],
        root: Path,
        targets: Sequence[CubeTarget] | None = None,
        front_end: FrontEnd = Language,
        grid: Grid | None = None,
    ) -> LaunchResult:
        """Runs *kernel* once on each of *pe_ids*, or the programs of *grid* on them, until all are done.

        *front_end* makes the kernel's first argument from the program port. Kernel lines are relative to *root*.

        Where the topology has a host, the launch goes over the fabric to *targets*; without *targets*, to the cubes of
        *pe_ids*. On other topologies all kernels begin at once.

        Raises KernelError when a kernel misuses `tl`, is no plain function, or takes other arguments, when a target is
        not there, for any exception of a kernel, and for work beyond `limits`. Raises SimulationStuckError when a
        kernel waits and nothing is left to happen, or only events that lead nowhere, and for a kernel that runs on
        without letting simulated time pass. After one of these errors nothing more can be simulated, and
        each further call raises KbError.
        """
        self.wait_for()
        self._check_launch(kernel, arguments, pe_ids, root, targets, grid)
        self.memory.keep_initial()
        if self._check is not None:
            self._check.before_launch()
        call = KernelCall(kernel, arguments, root, front_end, kernel_lines(root))
        request = LaunchRequest(self._launched, self.session, [self.pes[pe_id] for pe_id in pe_ids], call, grid)
        self._launches.clear()
        self._work.begins()
        again = kernel, arguments, pe_ids, root, targets, front_end, grid
        made = made_launch(self._strategies, request)
        try:
            result = self._run(made.launch, targets)
        except KbError as error:
            if self._check is not None:
                self._check.failed(error, *again)
            raise
        finally:
            refusal = made.ended()
        sends = any(launch.exchange.is_used for launch in self._launches.values())
        self._work.ended(kernel, refusal, sends)
        if self._check is not None:
            self._check.launched(result, *again)
        if self.session.listeners.on_launched is not None:
            self.session.listeners.on_launched()
        return result

    def launch_in(
        self,
        place: StreamPlace,
        got: Callable[[LaunchResult], None],
        kernel: Kernel,
        arguments: Sequence[Any],
        pe_ids: Sequence[str],
        root: Path,
        targets: Sequence[CubeTarget] | None = None,
        front_end: FrontEnd = Language,
        grid: Grid | None = None,
    ) -> StreamCall:
        """Launches *kernel* in the stream of *place*. The arguments behind *got* are those of `launch`.

        Returns at once, and `wait_for` simulates. *got* is called with the times. Raises the errors of `launch` that
        need no simulation.
        """
        self._check_launch(kernel, arguments, pe_ids, root, targets, grid)
        self._check_streams()
        call = KernelCall(kernel, arguments, root, front_end, kernel_lines(root))
        request = LaunchRequest(self._launched, self.session, [self.pes[pe_id] for pe_id in pe_ids], call, grid)
        self._launched += 1
        found = self.streams.launch(place, request, targets or targets_of(self.topology.graph, pe_ids), got)
        if self._check is not None:
            again = kernel, arguments, pe_ids, root, targets, front_end, grid
            self._check.added(found, lambda other: other.launch_in(place, lambda _: None, *again))
        return found

    def move_in(
        self,
        place: StreamPlace,
        kind: HostCallKind,
        pieces: Sequence[Piece],
        begun: Callable[[], None] = lambda: None,
    ) -> StreamCall:
        """Has the host write, read or copy *pieces* in the stream of *place*. Bytes change when the transfer begins.

        *begun* is called then, before the bytes change. Raises TopologyError when no links lead to a memory, or none
        back.
        """
        self._check_streams()
        found = self.streams.move(place, kind, pieces, begun)
        if self._check is not None:
            self._check.added(found, lambda other: other.move_in(place, kind, pieces))
        return found

    def order_in(self, place: StreamPlace, kind: HostCallKind, event: HostEvent) -> StreamCall:
        """Has the stream of *place* record *event*, or wait for it. Raises KernelError for an event that is recorded
        already.
        """
        self._check_streams()
        found = self.streams.order(place, kind, event)
        if self._check is not None:
            self._check.added(found, lambda other: other.order_in(place, kind, other.streams.twin_of(event)))
        return found

    @raises_dropped_interrupts
    @collector_off()
    def _simulate_streams(self, call: StreamCall | None) -> None:
        try:
            self.streams.wait_for(call)
        except KbError as error:
            if self._check is not None:
                self._check.streams_failed(error)
            raise
        if self._check is not None:
            self._check.streams_ran(call, not self.session.under_way.n_calls)

    def wait_for(self, call: StreamCall | None = None) -> None:
        """Simulates until *call* of a stream has ended, or, without it, until all calls of streams have.

        Raises the errors of `launch`, and SimulationStuckError for an event that nobody records. Nothing more can be
        simulated then.
        """
        if self.session.under_way.has_unseen and (call is None or not call.is_seen):
            self._simulate_streams(call)

    def _check_streams(self) -> None:
        """Prepares for a call of a stream. Raises KbError on an engine that can simulate nothing more."""
        if self.clock.is_broken:
            raise KbError("simulation", "a call after one that failed or got stuck", "a new engine", "build it again")
        if self._check is not None and not self.session.under_way.n_calls:
            self._check.before_launch()

    def _check_launch(
        self,
        kernel: Kernel,
        arguments: Sequence[Any],
        pe_ids: Sequence[str],
        root: Path,
        targets: Sequence[CubeTarget] | None,
        grid: Grid | None,
    ) -> None:
        """Raises the errors of `launch` that need no simulation."""
        if not pe_ids and not targets:
            raise KernelError("launch", "no PEs", "at least one")
        if targets is not None:
            check_form(targets)
            if self.host_calls is None:
                check_there(self.topology.graph, targets)
        check_kernel(kernel, len(arguments), root)
        if grid is not None:
            check_grid(grid, self.limits)

    def _run(self, launch: Launch, targets: Sequence[CubeTarget] | None) -> LaunchResult:
        """Sends *launch* to its PEs and has the clock run until the launch is answered."""
        self._launched += 1
        self._launches[launch.number] = launch
        wing, listeners = self.fast_forward, self.session.listeners
        if wing is not None:
            wing.launch_begins(len(launch.pe_ids))
        if listeners.on_launch is not None:
            listeners.on_launch()
        try:
            with watching(self.clock, self.limits.watchdog_s):
                return self._to_end.run(launch, targets)
        except BaseException as error:
            never_yields = isinstance(error, KernelNeverYields)
            if wing is not None and (never_yields or isinstance(error, Exception)):
                wing.launch_failed()
            launch.abandon(error)
            if never_yields:
                raise never_yields_error(error, launch, self.limits) from TimeoutError("an error of this machine")
            raise

    def _is_searching(self) -> bool:
        """Whether programs of the launch under way may yet be skipped."""
        return self.fast_forward is not None and self.fast_forward.is_searching

    def send(self, messages: Sequence[MmuMessage]) -> HostCall | None:
        """Has the MMUs of the PEs that *messages* name obey them, in one call of the host.

        Without a host the call takes no time, and the result is None. Every PE that is named is there and has an MMU.
        Raises AddressError when an MMU refuses; over the fabric, the refusal is a KernelError.
        """
        self.wait_for()
        messages = [message for message in messages if message.pes]
        call = self._send(messages)
        if self._check is not None:
            self._check.sent(messages)
        return call

    def _send(self, messages: Sequence[MmuMessage]) -> HostCall | None:
        if self.host_calls is None:
            for each in messages:
                for pe_id in each.pes:
                    mmu = self.pes[pe_id].mmu
                    assert mmu is not None
                    mmu.apply(each)
            return None
        return self.host_calls.accepted(self.host_calls.call(messages)) if messages else None

    def move(self, matrices: Sequence[Matrix], write: bool) -> list[tuple[int, int]]:
        """Has the host read or write *matrices*. Returns the picoseconds of the begin and the end of each transfer.

        Without a host the transfers take no time. Raises TopologyError when no links lead to a memory, or none back.
        """
        self.wait_for()
        now_ps = self.clock.now_ps
        times_ps = [(now_ps, now_ps)] * len(matrices)
        if self.host_calls is not None:
            times_ps = self.host_calls.move(matrices, write)
        if self._check is not None:
            self._check.moved(times_ps, matrices, write)
        return times_ps

    def warm(self, matrices: Sequence[Matrix], written: bool) -> None:
        """Brings the bytes of *matrices* into the caches in front of their memories, without time. *written* is as in
        `MemoryComponent.warm`.
        """
        self.wait_for()
        for part in self._parts_in_memories(matrices):
            memory = self.components[self.topology.address_map.by_owner[part.owner].node_id]
            if isinstance(memory, MemoryComponent):
                memory.warm(part, written)
        if self._check is not None:
            self._check.warmed(matrices, written)

    def _parts_in_memories(self, matrices: Sequence[Matrix]) -> Iterator[Rectangle]:
        """The bytes of *matrices* in each memory. Interleaved bytes lie in several memories."""
        for rectangle in (each.rectangle for each in matrices):
            region = self.topology.address_map.interleaved.get(rectangle.owner)
            if region is None:
                yield rectangle
                continue
            for number, offset, rows, row_nbytes, stride in region.interleaving.parts(
                rectangle.base & OFFSET_MASK, rectangle.rows, rectangle.row_nbytes, rectangle.stride
            ):
                yield Rectangle(region.slices[number] + offset, rows, row_nbytes, stride)

    @property
    def work(self) -> SimulatedWork:
        """How the launches were simulated: the isolated and skipped work, and the reasons why the rest was not
        skipped."""
        return self._work.so_far()

    @property
    def n_checked(self) -> int:
        """The number of launches that `exact="check"` simulated once more, event by event, and found equal."""
        return 0 if self._check is None else self._check.n_launches

    @property
    def programs(self) -> tuple[int, int]:
        """The number of kernels of the last launch that have ended, and that of all its kernels. (0, 0) before."""
        launches = self._launches.values()
        return sum(launch.n_ended for launch in launches), sum(launch.total for launch in launches)

    def kernel_positions(self) -> list[str]:
        """Returns the position of each kernel of the last launch, as lines of text, at any moment."""
        return kernel_positions(self._launches.values())

    def rebase(self, memory: MemoryStore, writer: LogWriter | None = None) -> None:
        """Begins anew between two launches, on the same chip. The memories get the bytes of *memory*; the clock runs
        on.

        The next launch is number 0 of a new op log in *writer*, and all TCM is free. So its log is the log of a chip
        that was just built, with later times; only a memory that keeps rows open between launches may make a
        difference. Tensors of earlier hosts are gone, so make a new Host. Rows of the old log that `close_log` has not
        written are dropped. Mappings of MMUs stay.

        Raises KbError for a *writer* where the engine was built without one, and for none where it was built with one.
        """
        self.wait_for()
        has_log = self.session.recorder is not None
        if has_log != (writer is not None):
            got, needs = ("no writer", "one") if has_log else ("a writer", "none")
            raise KbError("rebase", f"{got} for an engine with{'' if has_log else 'out'} an op log", needs)
        self.session.restart(memory, writer)
        self.fabric.forget_ops()
        for pe in self.pes.values():
            pe.restart()
        self.streams.restart()
        self._launched = 0
        self._launches.clear()
        self._of_hosts = None
        if self._check is not None:
            self._check.rebased(writer)

    def shared_by_hosts(self, make: Callable[[Engine], SharedT]) -> SharedT:
        """Returns the object that all hosts of the chip share, such as the map of taken bytes.

        *make* makes the object once, and once more after a `rebase`.
        """
        if self._of_hosts is None:
            self._of_hosts = make(self)
        found: SharedT = self._of_hosts
        return found

    def flush_log(self) -> None:
        """Writes the records that are pending, so that the log of a run that ends here has them."""
        if self.session.recorder is not None:
            self.session.recorder.flush()

    def close_log(self) -> OpLog | LogSummary | None:
        """Writes the records that are pending and closes the log; None without a log.

        The log of a chip on which an error has ended a launch is not complete. Raises KbError where another log has not
        one row for each op that was numbered.
        """
        session, recorder = self.session, self.session.recorder
        if not self.clock.is_broken:
            self.wait_for()
        if recorder is None:
            return None
        if self.clock.is_broken:
            return recorder.close_early()
        if recorder.rows.n_rows != session.n_ops:
            got = f"{recorder.rows.n_rows} rows of {session.n_ops} ops that were issued"
            raise KbError("op log", got, "a row for each op", "run with --exact events, and report the kernel")
        log = recorder.close()
        if self._check is not None:
            self._check.closed(log)
        return log

    def log_host_write(self, matrix: Matrix, data: bytes, times_ps: tuple[int, int]) -> None:
        """Logs a host write after the first launch. *times_ps* are its begin and its end."""
        session = self.session
        if session.recorder is not None:
            seq, op_id = session.take_numbers()
            session.recorder.host_moved(HostMove(None, matrix, data, "host", (seq, op_id), times_ps))
        if self._check is not None:
            self._check.host_wrote(matrix, data, times_ps)
