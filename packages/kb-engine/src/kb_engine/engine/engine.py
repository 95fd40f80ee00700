"""The engine: a chip that is built from its topology, and runs kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

from kb_dataexec import LogWriter, MemoryStore, OpLog
from kb_dataexec.log import LogSummary
from kb_engine.block.component import ComponentBase
from kb_engine.block.stage_server import StageServer
from kb_engine.engine.build import OF_STAGES, Exactness, build
from kb_engine.engine.disabled import WITHOUT_TEMPLATES, why_nothing_skips
from kb_engine.engine.dropped_interrupts import raises_dropped_interrupts
from kb_engine.engine.kernel_positions import standing_lines
from kb_engine.engine.launch_to_end import LaunchToEnd
from kb_engine.engine.polling import MOST_REPEATED_LOADS, PollingGuard
from kb_engine.engine.progress import NO_PROGRESS_EVENTS, ProgressGuard
from kb_engine.engine.registry import Registry
from kb_engine.engine.simulated_work import EventWork, SimulatedWork
from kb_engine.fabric.fabric import Fabric
from kb_engine.fastforward.replay.purity import MadeKernel
from kb_engine.fastforward.steady_state.program_skipper import ProgramSkipper
from kb_engine.language.tl import Language
from kb_engine.launch.grid_launch import GridLaunch
from kb_engine.launch.host_calls import HostCall
from kb_engine.launch.launch import Launch, LaunchResult, PeLaunch
from kb_engine.launch.targets import check_form, check_there
from kb_engine.memory.device_memory import DeviceMemory
from kb_engine.observe.listeners import listener, told_of_each
from kb_engine.observe.observer import Callbacks, Observer
from kb_engine.observe.slow_path import SkipRefusal, SlowPathReasons
from kb_engine.program.author.kernel_check import check_kernel
from kb_engine.program.author.kernel_lines import kernel_lines
from kb_engine.program.grid import Grid
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.port import FrontEnd
from kb_engine.program.runner import Kernel, KernelCall
from kb_engine.program.session import Session
from kb_engine.timing.clock import Clock
from kb_engine.timing.collector import collector_off, look_once
from kb_messages import (
    CubeTarget,
    KbError,
    KernelError,
    Matrix,
    MmuMessage,
    TraceEvent,
)
from kb_topology import Topology

_OF_PROGRAMS: Final = ("on_allocate", "on_free", "on_program_end")
"""What observers are told of programs that look at no values, and not of those that are skipped."""

_VALUES: Final = SkipRefusal(
    "the front end does not tell when it decides by values", "take `Language` as front end, or kernels of `kb_triton`"
)

SharedT = TypeVar("SharedT")


class Engine:
    """A simulated chip. With a *writer* every stage service is logged.

    *observers* watch the run (`kb_engine.observe`); a function in their place gets the trace events, as of
    `Callbacks(on_trace=...)`. A run without a writer and observers pays for neither. A launch in
    which no stage ends for *no_progress_events* events counts as stuck, and so does one whose kernels make
    *most_repeated_loads* loads in a row that can only give what they gave before. `host_calls` makes the host's calls,
    and is None for a topology without a host. With *templates*, programs of a grid that do as one of them did are
    repeated without their kernel. Tiles of one command that come in periods are not all simulated; `folder` counts
    them, and is None where each event counts.

    *exact* says how commands are simulated that nothing can meet. `closed`: each kind of them once
    (`kb_engine.fastforward.isolated`); `events`: all of them, event by event, and nothing is folded; `check`: as
    `closed`, and a share of those that were not simulated is simulated beside that, event by event, and both are
    compared. So are periods of programs before and behind those that are skipped. `checked` counts. `work` tells what
    was done. Times, counts and the op log are the same. Commands of few stages are not worth it. `closed` counts such
    commands; it is None where there are none, as with observers that hear of stages or of the trace.

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
        exact: Exactness = "closed",
    ) -> None:
        if exact not in get_args(Exactness):
            raise KbError("Engine", f"exact={exact!r}", " or ".join(map(repr, get_args(Exactness))))
        guard = ProgressGuard(no_progress_events, lambda n_events: self._to_end.stands_still(n_events))
        polling = PollingGuard(most_repeated_loads, lambda: self._launches.values(), lambda: self.memory)
        watching = (Callbacks(on_trace=observers),) if callable(observers) else observers
        reasons = SlowPathReasons()
        with collector_off():
            watching = *watching, guard, polling
            built = build(topology, registry or Registry(), writer, watching, exact, reasons)
        look_once()
        self.chip = built.chip
        self.pes = built.pes
        self.session = built.session
        self.host_calls = built.host_calls
        self.folder = built.folder
        self._told_of_skipped = told_of_each(watching[:-2], "on_issue", "on_issue_again")  # no skipped program polls
        heard = [name for name in _OF_PROGRAMS if listener(watching[:-2], name) is not None]
        if self._told_of_skipped is not None:
            heard.insert(0, "on_issue")
        is_told_all = not heard or (heard == ["on_issue"] and writer is not None)
        self._checks = exact == "check"
        self.grid_folding: ProgramSkipper | None = None
        self._launches = built.launches
        self._to_end = LaunchToEnd(built)
        self._launched = 0
        self._of_hosts: Any = None
        self._templates = templates
        self.closed = built.closed
        self._work = EventWork(built.session, built.closed, built.folder, reasons)
        self._why_not: SkipRefusal | None = None
        if not templates:
            self._why_not = WITHOUT_TEMPLATES
        elif built.folder is None or not is_told_all:
            told = [name for name in (*OF_STAGES, "on_trace") if listener(watching[:-2], name) is not None]
            told += [name for name in heard if name != "on_issue" or writer is None]
            self._why_not = why_nothing_skips(exact, built.chip.fabric.is_foreseen, told)

    @property
    def topology(self) -> Topology:
        """What the chip was built from."""
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
        """Run *kernel* once on each of *pe_ids*, or the programs of *grid* on them, until all are done.

        The kernel's first argument is what *front_end* makes of its program port. Kernel lines are relative to *root*.

        Where the topology has a host, the launch goes over the fabric to *targets*; without *targets*, to the cubes of
        *pe_ids*. On other topologies all kernels begin at once.

        Raises KernelError when a kernel misuses `tl`, is no plain function, or takes other arguments, when a target is
        not there, and for whatever a kernel raises. Raises SimulationStuckError when a kernel waits and nothing is left
        to happen, or only events that lead nowhere. After one of these errors nothing more can be simulated, and each
        further call raises KbError.
        """
        if not pe_ids and not targets:
            raise KernelError("launch", "no PEs", "at least one")
        if targets is not None:
            check_form(targets)
            if self.host_calls is None:
                check_there(self.topology.graph, targets)
        check_kernel(kernel, len(arguments), root)
        self.memory.keep_initial()
        call = KernelCall(kernel, arguments, root, front_end, kernel_lines(root))
        where = self._launched, self.session, [self.pes[pe_id] for pe_id in pe_ids]
        self._launches.clear()
        self._work.begins()
        launch, folding = self._made_launch(where, call, grid)
        self._launched += 1
        self._launches[launch.number] = launch
        if self.closed is not None:
            self.closed.begin_launch(len(pe_ids))
        listeners = self.session.listeners
        if listeners.on_launch is not None:
            listeners.on_launch()
        try:
            result = self._to_end.run(launch, targets)
        except BaseException as error:
            if self.closed is not None and isinstance(error, Exception):
                self.closed.open_all()
            launch.abandon(error)
            raise
        finally:
            self.session.keep_commands(False)  # nobody looks at the launch any more
        self._work.ended(kernel, launch, folding)
        if listeners.on_launched is not None:
            listeners.on_launched()
        return result

    def _made_launch(
        self, where: tuple[int, Session, list[ProcessingElement]], call: KernelCall, grid: Grid | None
    ) -> tuple[Launch, ProgramSkipper | SkipRefusal | None]:
        """The launch of *call*, and what folds its programs, or why nothing does; None where there is no grid."""
        if grid is None:
            return PeLaunch(*where, call), None
        tells = _tells_of_values(call.kernel, call.front_end)
        why = self._why_not if tells else _VALUES
        launch = GridLaunch(*where, call, grid, self._templates and tells)
        templates = launch.templates
        if templates is None or templates.is_near or why is not None:
            return launch, why or launch.why_not
        where_to_tell = self._told_of_skipped, self._checks
        self.grid_folding = ProgramSkipper(launch, templates, self.session, self.chip, where[2], *where_to_tell)
        return launch, self.grid_folding

    def send(self, messages: Sequence[MmuMessage]) -> HostCall | None:
        """Have the MMUs of the PEs that *messages* name obey them, in one call of the host.

        Without a host the call takes no time, and the result is None. Every PE that is named is there and has an MMU.
        Raises AddressError when an MMU refuses; over the fabric, the refusal is a KernelError.
        """
        messages = [message for message in messages if message.pes]
        if self.host_calls is None:
            for each in messages:
                for pe_id in each.pes:
                    mmu = self.pes[pe_id].mmu
                    assert mmu is not None
                    mmu.apply(each)
            return None
        return self.host_calls.accepted(self.host_calls.call(messages)) if messages else None

    @property
    def work(self) -> SimulatedWork:
        """How the launches were simulated: what was closed, skipped or repeated, and why the rest was not."""
        return self._work.so_far()

    @property
    def checked(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """With `exact="check"`: the closed commands that were compared and those that took a known outcome, and the
        programs that were compared and those that were skipped, of all launches."""
        closed = self.closed
        return (0, 0) if closed is None else (closed.n_checked, closed.n_taken), self._work.programs

    @property
    def programs(self) -> tuple[int, int]:
        """The number of kernels of the last launch that have ended, and that of all its kernels. (0, 0) before."""
        launches = self._launches.values()
        return sum(launch.n_ended for launch in launches), sum(launch.total for launch in launches)

    def standing(self) -> list[str]:
        """Where each kernel of the last launch stands, as lines of text. It may be asked for at any moment."""
        return standing_lines(self._launches.values())

    def rebase(self, memory: MemoryStore, writer: LogWriter | None = None) -> None:
        """Begin anew between two launches, on the same chip: the memories hold what *memory* holds. The clock runs on.

        The next launch is number 0 of a new op log in *writer*, and all TCM is free. So its log is that of a chip that
        was just built, with later times; only a memory that keeps rows open between launches may make a difference.
        Tensors of hosts that were made before are gone, so make a new Host. What `close_log` has not written of the
        log so far is dropped. Mappings of MMUs stay.

        Raises KbError for a *writer* where the engine was built without one, and for none where it was built with one.
        """
        has_log = self.session.recorder is not None
        if has_log != (writer is not None):
            got, needs = ("no writer", "one") if has_log else ("a writer", "none")
            raise KbError("rebase", f"{got} for an engine with{'' if has_log else 'out'} an op log", needs)
        self.session.restart(memory, writer)
        self.fabric.forget_ops()
        for pe in self.pes.values():
            pe.restart()
        self._launched = 0
        self._launches.clear()
        self._of_hosts = None

    def shared_by_hosts(self, make: Callable[[Engine], SharedT]) -> SharedT:
        """What all hosts of the chip know of it, such as which bytes are taken: *make* makes it once, and for hosts
        behind a `rebase` again."""
        if self._of_hosts is None:
            self._of_hosts = make(self)
        found: SharedT = self._of_hosts
        return found

    def flush_log(self) -> None:
        """Write the records that are pending, so that the log of a run that ends here has them."""
        if self.session.recorder is not None:
            self.session.recorder.flush()

    def close_log(self) -> OpLog | LogSummary | None:
        """Write the records that are pending and close the log; None without a log."""
        recorder = self.session.recorder
        return recorder.close() if recorder is not None else None

    def log_host_write(self, matrix: Matrix, data: bytes, times_ps: tuple[int, int]) -> None:
        """Record a host write after the first launch. *times_ps* are its begin and its end."""
        session = self.session
        if session.recorder is not None:
            seq, op_id = session.next_command_seq(), session.take_op_ids(1)
            session.recorder.host_write(matrix, data, seq, op_id, times_ps)


def _tells_of_values(kernel: Kernel, front_end: FrontEnd) -> bool:
    """Whether *front_end* tells `ProgramPort.leave` when it decides by values: `tl` does, and who makes kernels."""
    return front_end is Language or isinstance(kernel, MadeKernel)
