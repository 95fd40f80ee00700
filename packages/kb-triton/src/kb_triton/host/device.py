"""Device: the simulated chip that runs the launches of a process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from math import fsum
from pathlib import Path
from threading import RLock
from time import perf_counter
from typing import Any, Final

from kb_dataexec import Executor, MemoryLogWriter, MemoryStore, OpLog
from kb_engine import Engine, Host, LaunchResult
from kb_engine.observe import Observer
from kb_engine.program import authors_traceback
from kb_messages import DType, KbError, KernelError, MemorySpace, PlanError
from kb_topology import Topology
from kb_triton.host.arrays import shown
from kb_triton.host.launches import (
    Grid,
    Launched,
    LaunchedFunction,
    OutOfResources,
    PreparedLaunch,
    Tuning,
    write_back,
)
from kb_triton.host.options import Options, options_of, topology_of

_MOST_REPEATED_LOADS: Final = 1 << 10
"""Source: assumed. Each PE that polls does so as often before the launch counts as stuck: some seconds."""


class RunningChip:
    """The chip of *topology*, with an op log for each launch or without. *watched* gives the observers of an engine.

    *templates* is as for `Engine`.
    """

    def __init__(
        self,
        topology: Topology,
        has_log: bool,
        watched: Callable[[], Sequence[Observer]] = tuple,
        templates: bool = True,
    ) -> None:
        self.topology = topology
        self._templates = templates
        self._has_log = has_log
        self._watched = watched
        self._engine: Engine | None = None

    def new_host(self, root: Path) -> Host:
        """A host whose memories are empty, for one launch. Kernel lines are relative to *root*."""
        if self._engine is not None and not self._engine.clock.is_broken:
            self._engine.rebase(MemoryStore(self._engine.memory.store.regions), self._writer())
        return Host(self.engine(), root)

    def standing(self) -> list[str]:
        """Where the programs of the last launch stand, as lines of text, also when an interrupt has stopped it."""
        return self._engine.standing() if self._engine is not None else []

    def log_so_far(self) -> OpLog | None:
        """The op log of the last launch up to here, if there is one. Nothing may be simulated before the next one."""
        if self._engine is None or not self._has_log:
            return None
        self._engine.flush_log()
        log = self._engine.close_log()
        return log if isinstance(log, OpLog) else None

    def engine(self) -> Engine:
        """The engine, which is built if there is none that works."""
        if self._engine is None or self._engine.clock.is_broken:
            self._engine = Engine(
                self.topology,
                self._writer(),
                self._watched(),
                most_repeated_loads=_MOST_REPEATED_LOADS,
                templates=self._templates,
            )
        return self._engine

    def _writer(self) -> MemoryLogWriter | None:
        return MemoryLogWriter() if self._has_log else None


class Device:
    """The chip of *topology*. Each launch computes its data before it returns. Launches of several threads take turns.

    Arrays count as resident on the chip; with *transfers*, their way there and back takes time on a topology with a
    host. *schedule* is that of the programs of a grid, as for `Host.launch`. *autotune* is how many
    configurations a tuned kernel tries, None for all. *watched* gives the observers of a chip. *templates* is as for
    `Engine`. `on_launch` is called with each finished launch. *around* is a block around each launch, and with True
    around each one that is timed alone. `elapsed_ps` adds up the time of all launches. `tunings` are what autotuners
    found out.
    """

    def __init__(
        self,
        topology: Topology,
        transfers: bool = False,
        schedule: str = "dynamic",
        autotune: int | None = None,
        watched: Callable[[], Sequence[Observer]] = tuple,
        on_launch: Callable[[Launched], None] | None = None,
        templates: bool = True,
        around: Callable[[bool], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self.topology = topology
        self.autotune = autotune
        self.elapsed_ps = 0
        self.n_launches = 0
        self.tunings: list[Tuning] = []
        self._times_ps: list[int] | None = None
        self._lock = RLock()
        self._transfers = transfers
        self._schedule = schedule
        self._on_launch = on_launch
        self._templates = templates
        self._around = around
        self._logged = RunningChip(topology, has_log=True, watched=watched, templates=templates)
        self._timed = RunningChip(topology, has_log=False, templates=templates)
        self._running = self._logged

    @classmethod
    def of(cls, options: Options, **more: Any) -> Device:
        """The device that *options* describe. *more* are further arguments. Raises TopologyError for a bad chip."""
        more = {"templates": options.templates, **more}
        return cls(topology_of(options), options.transfers, options.schedule, options.autotune, **more)

    def launch(self, function: LaunchedFunction, grid: Grid, arguments: Mapping[str, Any]) -> None:
        """Run *function* over *grid*. Arrays among *arguments* reach it as pointers, and get the results.

        Raises OutOfResources when the TCM of a PE is full, KernelError for what the kernel does wrong, and
        SimulationStuckError for programs that wait for ever. Below this method, their tracebacks have the frames of the
        author's files alone.
        """
        with self._lock:
            try:
                if self._times_ps is not None:
                    self._times_ps.append(self.time_ps(function, grid, arguments))
                else:
                    with self._around(False):
                        self._launch(function, grid, arguments)
            except KbError as error:
                raise error.with_traceback(authors_traceback(error)) from None

    def standing(self) -> list[str]:
        """Where the programs of the last launch stand, as lines of text, also when an interrupt has stopped it."""
        return self._running.standing()

    def log_so_far(self) -> OpLog | None:
        """The op log of a launch that an interrupt has stopped, up to there; None for one that is timed alone."""
        return self._running.log_so_far()

    def _launch(self, function: LaunchedFunction, grid: Grid, arguments: Mapping[str, Any]) -> None:
        began = perf_counter()
        self._running = self._logged
        host = self._logged.new_host(_root_of(function))
        call = PreparedLaunch(function, grid, arguments, self._schedule, self._transfers, host)
        result = call.run()
        log, initial = host.engine.close_log(), host.engine.initial_memory
        assert isinstance(log, OpLog)
        assert initial is not None
        timed = perf_counter()
        after = Executor(log, initial).run()
        written = write_back(log, after, call.storages.found)
        if self._transfers:
            call.charge_results(written)
        self.n_launches += 1
        self.elapsed_ps += result.response_ps - result.call_ps + host.write_ps + host.read_ps
        if self._on_launch is not None:
            self._on_launch(
                Launched(
                    kernel=function.__name__,
                    file=Path(function.fn.__code__.co_filename),
                    grid=grid,
                    arguments={name: shown(each) for name, each in arguments.items()},
                    host=host,
                    result=result,
                    log=log,
                    initial=initial,
                    after=after,
                    timing_s=timed - began,
                    data_s=perf_counter() - timed,
                )
            )

    def run_on(self, host: Host, function: LaunchedFunction, grid: Grid, arguments: Mapping[str, Any]) -> LaunchResult:
        """Run pass 1 of a launch on *host*, whose chip may be another. No array changes. Raises as `launch`."""
        return PreparedLaunch(function, grid, arguments, self._schedule, self._transfers, host).run()

    @property
    def is_timing(self) -> bool:
        """Whether launches are timed alone, because a block of `timing` is open."""
        return self._times_ps is not None

    @contextmanager
    def timing(self) -> Iterator[list[int]]:
        """Launches in the block are timed by `time_ps` alone, which fills the list."""
        before, self._times_ps = self._times_ps, []
        try:
            yield self._times_ps
        finally:
            self._times_ps = before

    def tuned(self, tuning: Tuning) -> None:
        """Keep *tuning* for reports."""
        self.tunings.append(tuning)

    @property
    def properties(self) -> dict[str, int]:
        """The chip under the names that host code knows from a GPU."""
        pes = list(self._timed.engine().pes.values())
        tcm = min(pe.tcm_nbytes - pe.scheduler.reserved_nbytes for pe in pes)
        return {
            "multiprocessor_count": len(pes),
            "max_shared_mem": tcm,
            "max_num_regs": pes[0].register_nbytes // 4,
            "warpSize": 32,
        }

    @property
    def hbm_nbytes(self) -> int:
        """Bytes of HBM of the chip."""
        regions = self.topology.address_map.regions
        return sum(each.nbytes for each in regions if each.space is MemorySpace.HBM)

    @property
    def hbm_gbs(self) -> float:
        """GB/s of all HBM of the chip together; 0 where no block states a bandwidth."""
        nodes = self.topology.graph.nodes
        hbm = [
            each for each in self._components()
            if (memory := nodes[each.node_id].memory) is not None and memory.space is MemorySpace.HBM
        ]  # fmt: skip
        return fsum(getattr(each.spec, "bw_gbs", 0) for each in hbm)

    def peak_flops(self, kind: DType) -> float:
        """Operations a second of all arrays for products of *kind*; 0 where none takes such operands."""
        total = 0.0
        for each in self._components():
            with suppress(PlanError):
                total += float(each.peak_flops(kind)) if hasattr(each, "peak_flops") else 0.0
        return total

    @property
    def clock_ghz(self) -> float:
        """The fastest clock of an array for products; 0 where the chip has none."""
        clocks = (float(each.spec.clock_ghz) for each in self._components() if hasattr(each, "peak_flops"))
        return max(clocks, default=0.0)

    def _components(self) -> Iterable[Any]:
        return self._timed.engine().components.values()

    def time_ps(self, function: LaunchedFunction, grid: Grid, arguments: Mapping[str, Any]) -> int:
        """Picoseconds that `launch` would take. No array changes, and the time counts nowhere. Raises as `launch`."""
        with self._around(True):
            return self._timed_alone(function, grid, arguments)

    def _timed_alone(self, function: LaunchedFunction, grid: Grid, arguments: Mapping[str, Any]) -> int:
        self._running = self._timed
        root = _root_of(function)
        call = PreparedLaunch(function, grid, arguments, self._schedule, False, self._timed.new_host(root))
        try:
            result = call.run()
        except OutOfResources:
            raise
        except KernelError:  # without a log, no kernel can look at what is computed; any other error comes again
            self._running = chip = RunningChip(self.topology, has_log=True, templates=self._templates)
            result = PreparedLaunch(function, grid, arguments, self._schedule, False, chip.new_host(root)).run()
        return result.response_ps - result.call_ps


def _root_of(function: LaunchedFunction) -> Path:
    """The folder to which lines of *function* are relative."""
    return Path(function.fn.__code__.co_filename).parent


class _Current:
    """The device of the process."""

    def __init__(self) -> None:
        self._device: Device | None = None

    def use(self, device: Device | None) -> Device | None:
        """As the function `use`. Returns the device before."""
        before, self._device = self._device, device
        return before

    def current(self) -> Device:
        """As the function `current`."""
        if self._device is None:
            self._device = Device.of(options_of())
        return self._device


_CURRENT = _Current()


def use(device: Device | None) -> None:
    """Have *device* run the launches from now on; None for the one that the environment variables describe."""
    _CURRENT.use(device)


@contextmanager
def using(device: Device) -> Iterator[None]:
    """In the block, *device* runs the launches."""
    before = _CURRENT.use(device)
    try:
        yield
    finally:
        _CURRENT.use(before)


def current() -> Device:
    """The device that runs launches; without `use`, the one that the environment variables describe.

    Raises KbError for variables that describe none.
    """
    return _CURRENT.current()
