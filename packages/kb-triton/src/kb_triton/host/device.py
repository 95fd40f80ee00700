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
from kb_engine.program import AssertionWatch, authors_traceback
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
    latency_ps,
    write_back,
)
from kb_triton.host.options import Options, options_of, topology_of
from kb_triton.host.trials import Trials

_MOST_REPEATED_LOADS: Final = 1 << 10
"""The loads that a polling PE repeats before its launch counts as stuck, which takes some seconds. Source: assumed."""


_BUS_BITS: Final = 1024
"""The width of the memory's bus that host code is told. Source: assumed, the width of one stack of HBM (JESD235)."""


class RunningChip:
    """Keeps the engine of *topology* from launch to launch, and builds another after a launch that failed.

    Each launch begins with empty caches and closed rows, so that equal launches take the same time in any order. A chip
    whose blocks remember earlier requests is built anew for that.

    With *has_log*, each launch has an op log. *watched* returns the observers of an engine. *templates* is the
    parameter of `Engine`.
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
        self._remembers = False

    def new_host(self, root: Path) -> Host:
        """Returns a host with empty memories, for one launch. Kernel lines are relative to *root*."""
        if self._remembers:
            self._engine = None
        elif self._engine is not None and not self._engine.clock.is_broken:
            self._engine.rebase(MemoryStore(self._engine.memory.store.regions), self._writer())
        return Host(self.engine(), root)

    def kernel_positions(self) -> list[str]:
        """Where the programs of the last launch stand, as lines of text, also when an interrupt has stopped it."""
        return self._engine.kernel_positions() if self._engine is not None else []

    def log_so_far(self) -> OpLog | None:
        """Returns the op log of an interrupted launch, up to the interrupt; None without a log.

        Call `new_host` before the next simulation.
        """
        if self._engine is None or not self._has_log:
            return None
        self._engine.flush_log()
        log = self._engine.close_log()
        return log if isinstance(log, OpLog) else None

    def engine(self) -> Engine:
        """Returns the engine, after building one where there is none or the last launch failed."""
        if self._engine is None or self._engine.clock.is_broken:
            self._engine = Engine(
                self.topology,
                self._writer(),
                self._watched(),
                most_repeated_loads=_MOST_REPEATED_LOADS,
                templates=self._templates,
            )
            self._remembers = _remembers(self._engine)
        return self._engine

    def _writer(self) -> MemoryLogWriter | None:
        return MemoryLogWriter() if self._has_log else None


def _remembers(engine: Engine) -> bool:
    """Whether a block has state of no kind: its times depend on earlier requests, as those of a cache do."""
    kinds = {type(each) for each in engine.components.values()}
    stated = [vars(owner).get("state") for kind in kinds for owner in kind.__mro__]
    return any(isinstance(each, tuple) and each for each in stated)


class Device:
    """The chip of *topology*. Each launch computes its data before it returns. Launches of several threads take turns.

    Arrays count as resident on the chip; with *transfers*, their transfer to the chip and back takes time on a topology
    with a host. *schedule* is the parameter of `Host.launch`. *autotune* is the number of configurations that a tuned
    kernel tries, None for all. *watched* returns the observers of a chip. *templates* is the parameter of `Engine`.
    *on_launch* is called with each finished launch. *around* returns a context for each launch; its argument says
    whether the launch is only timed. `elapsed_ps` is the simulated time of all launches together, from the start of the
    first program of each to the end of the last one, with the transfers; `tunings` has the outcomes of autotuners. A
    *lenient* device runs kernels that Triton's compiler refuses.
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
        lenient: bool = False,
    ) -> None:
        self.topology = topology
        self.lenient = lenient
        self.autotune = autotune
        self.elapsed_ps = 0
        self.n_launches = 0
        self.tunings: list[Tuning] = []
        self._times_ps: list[int] | None = None
        self._trials: Trials | None = None
        self._lock = RLock()
        self._transfers = transfers
        self._schedule = schedule
        self._on_launch = on_launch
        self._templates = templates
        self._around = around
        self._assertions = AssertionWatch()
        self._logged = RunningChip(topology, True, lambda: [*watched(), self._assertions], templates)
        self._timed = RunningChip(topology, has_log=False, templates=templates)
        self._running = self._logged

    @classmethod
    def of(cls, options: Options, **more: Any) -> Device:
        """Returns the device of *options*, with *more* arguments of the class. Raises TopologyError for a bad chip."""
        more = {"templates": options.templates, "lenient": options.lenient, **more}
        return cls(topology_of(options), options.transfers, options.schedule, options.autotune, **more)

    def launch(self, function: LaunchedFunction, grid: Grid, arguments: Mapping[str, Any]) -> None:
        """Runs *function* over *grid*. Arrays among *arguments* reach the kernel as pointers, and get the results.

        Raises OutOfResources when the TCM of a PE is full, KernelError for a mistake of the kernel, and
        SimulationStuckError for programs that wait forever. Their tracebacks show, below this method, only frames of
        the author's files.
        """
        with self._lock:
            try:
                if self._times_ps is not None:
                    self._times_ps.append(self._trial_ps(function, grid, arguments))
                else:
                    with self._around(False):
                        self._launch(function, grid, arguments)
            except KbError as error:
                raise error.with_traceback(authors_traceback(error)) from None

    def kernel_positions(self) -> list[str]:
        """Where the programs of the last launch stand, as lines of text, also when an interrupt has stopped it."""
        return self._running.kernel_positions()

    def log_so_far(self) -> OpLog | None:
        """The op log of an interrupted launch, up to the interrupt; None for a launch that is only timed."""
        return self._running.log_so_far()

    def _launch(self, function: LaunchedFunction, grid: Grid, arguments: Mapping[str, Any]) -> None:
        began = perf_counter()
        self._running = self._logged
        self._assertions.clear()
        host = self._logged.new_host(_root_of(function))
        call = PreparedLaunch(function, grid, arguments, self._schedule, self._transfers, host)
        result = call.run()
        log, initial = host.engine.close_log(), host.engine.initial_memory
        assert isinstance(log, OpLog)
        assert initial is not None
        timed = perf_counter()
        after, seen = Executor(log, initial).run_and_look(self._assertions.looks)
        failed = self._assertions.failed(seen)
        if failed is not None:
            raise failed
        written = write_back(log, after, call.storages.found)
        if self._transfers:
            call.charge_results(written)
        self.n_launches += 1
        self.elapsed_ps += latency_ps(result) + host.write_ps + host.read_ps
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
                    places=call.places,
                    timing_s=timed - began,
                    data_s=perf_counter() - timed,
                )
            )

    def run_on(self, host: Host, function: LaunchedFunction, grid: Grid, arguments: Mapping[str, Any]) -> LaunchResult:
        """Runs pass 1 of a launch on *host*, also on another chip. No array changes. Raises the errors of `launch`."""
        return PreparedLaunch(function, grid, arguments, self._schedule, self._transfers, host).run()

    @property
    def is_timing(self) -> bool:
        """Whether launches are only timed, because a block of `timing` is open."""
        return self._times_ps is not None

    @contextmanager
    def timing(self, trials: Trials | None = None) -> Iterator[list[int]]:
        """Within the block, launches are only timed, and their picoseconds are appended to the list.

        A launch that equals one of *trials* has its time, and is not simulated again.
        """
        before, self._times_ps, self._trials = (self._times_ps, self._trials), [], trials
        try:
            yield self._times_ps
        finally:
            self._times_ps, self._trials = before

    def _trial_ps(self, function: LaunchedFunction, grid: Grid, arguments: Mapping[str, Any]) -> int:
        """Returns the picoseconds of a launch in a block of `timing`."""
        if self._trials is None:
            return self.time_ps(function, grid, arguments)
        return self._trials.time_ps(lambda: self.time_ps(function, grid, arguments), function, grid, arguments)

    def tuned(self, tuning: Tuning) -> None:
        """Keeps *tuning* for reports."""
        self.tunings.append(tuning)

    @property
    def properties(self) -> dict[str, int]:
        """Facts of the chip under the names that host code knows from a GPU. Clocks are in kHz, the bus in bits.

        The clock of the memory is that at which a bus of `mem_bus_width`, with two transfers a cycle, has the bandwidth
        of all HBM.
        """
        pes = list(self._timed.engine().pes.values())
        tcm = min(pe.tcm.nbytes for pe in pes)
        return {
            "multiprocessor_count": self._n_pes_of_a_launch,
            "max_shared_mem": tcm,
            "max_num_regs": pes[0].register_nbytes // 4,
            "warpSize": 32,
            "sm_clock_rate": round(self.clock_ghz * 1e6),
            "mem_clock_rate": round(self.hbm_gbs * 8e6 / (2 * _BUS_BITS)),
            "mem_bus_width": _BUS_BITS,
        }

    @property
    def _n_pes_of_a_launch(self) -> int:
        """The number of PEs that a launch on arrays has: those of the SIPs over which arrays lie."""
        graph, memories = self.topology.graph, self.topology.address_map
        cubes = [each.cubes for each in memories.interleaved.values() if each.memory == memories.default_memory]
        places = [sip for (sip, _), _ in graph.pe_places.values()]
        sips = {sip for found in cubes for sip, _ in found} or {places[0]}
        return sum(sip in sips for sip in places)

    @property
    def cache_nbytes(self) -> int:
        """The bytes of all caches in front of memories; 0 for a chip without one."""
        return sum(getattr(each, "cache_nbytes", 0) for each in self._components())

    @property
    def hbm_nbytes(self) -> int:
        """The bytes of HBM of the chip."""
        regions = self.topology.address_map.regions
        return sum(each.nbytes for each in regions if each.space is MemorySpace.HBM)

    @property
    def hbm_gbs(self) -> float:
        """The bandwidth of all HBM of the chip in GB/s; 0 where no block states one."""
        nodes = self.topology.graph.nodes
        hbm = [
            each for each in self._components()
            if (memory := nodes[each.node_id].memory) is not None and memory.space is MemorySpace.HBM
        ]  # fmt: skip
        return fsum(getattr(each.spec, "bw_gbs", 0) for each in hbm)

    def peak_flops(self, kind: DType) -> float:
        """Returns the operations per second of all arrays for products of *kind*; 0 where no array takes the type."""
        total = 0.0
        for each in self._components():
            with suppress(PlanError):
                total += float(each.peak_flops(kind)) if hasattr(each, "peak_flops") else 0.0
        return total

    @property
    def clock_ghz(self) -> float:
        """The fastest clock of an array for products in GHz; 0 where the chip has no array."""
        clocks = (float(each.spec.clock_ghz) for each in self._components() if hasattr(each, "peak_flops"))
        return max(clocks, default=0.0)

    def _components(self) -> Iterable[Any]:
        return self._timed.engine().components.values()

    def time_ps(self, function: LaunchedFunction, grid: Grid, arguments: Mapping[str, Any]) -> int:
        """Returns the picoseconds from the start of the first program to the end of the last one, without a launch.

        No array changes, and `elapsed_ps` stays.

        Raises the errors of `launch`.
        """
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
        except KernelError as error:
            if isinstance(
                error.__cause__, TimeoutError | MemoryError
            ):  # a limit of this machine, which a log makes worse
                raise
            # A kernel that reads computed values needs a log. An error with another cause is raised again.
            self._running = chip = RunningChip(self.topology, has_log=True, templates=self._templates)
            result = PreparedLaunch(function, grid, arguments, self._schedule, False, chip.new_host(root)).run()
        return latency_ps(result)


def _root_of(function: LaunchedFunction) -> Path:
    """Returns the folder to which kernel lines of *function* are relative."""
    return Path(function.fn.__code__.co_filename).parent


class _Current:
    """The device of the process."""

    def __init__(self) -> None:
        self._device: Device | None = None

    def use(self, device: Device | None) -> Device | None:
        """Makes *device* the current one, and returns the device before."""
        before, self._device = self._device, device
        return before

    def current(self) -> Device:
        """Returns the current device, after making one of the environment variables where there is none."""
        if self._device is None:
            self._device = Device.of(options_of())
        return self._device


_CURRENT = _Current()


def use(device: Device | None) -> None:
    """Makes *device* run the launches from now on; None for the device that the environment variables describe."""
    _CURRENT.use(device)


@contextmanager
def using(device: Device) -> Iterator[None]:
    """Makes *device* run the launches within the block."""
    before = _CURRENT.use(device)
    try:
        yield
    finally:
        _CURRENT.use(before)


def current() -> Device:
    """Returns the device that runs launches; without `use`, the one that the environment variables describe.

    Raises KbError for environment variables with wrong values.
    """
    return _CURRENT.current()
