"""One run: makes inputs, simulates (pass 1), computes the data (pass 2) and compares it. Writes nothing but the log."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import click
import numpy as np
import numpy.typing as npt

from kb_cli.benchmark.author_calls import (
    Arrays,
    check_capacity,
    expected_outputs,
    flops_of,
    inputs_of,
    launch,
    prepare,
)
from kb_cli.benchmark.expected import AnyExpected, AnyOpExpected
from kb_cli.benchmark.sampled import Factors, factors_of, sampled_outputs
from kb_cli.benchmark.setup import Setup
from kb_cli.run.base.frame import Frame
from kb_cli.run.base.progress import PASS_1, SET_UP, VERIFY, RunProgress
from kb_cli.run.base.remedy import Remedy
from kb_cli.run.base.result import Compared, CounterSum, Sanitized, SimStats, ValueWait
from kb_cli.run.observe.counters import BlockCounters, ValueWaits
from kb_cli.run.observe.frames import frame_of
from kb_cli.run.observe.log_room import LogRoom
from kb_cli.run.observe.metrics import Metrics, measure
from kb_cli.run.observe.plan_tally import PlanTally
from kb_cli.run.observe.simulation_watch import SimulationWatch
from kb_cli.run.observe.timed_host import HostTimes, TimedHost
from kb_cli.run.observe.usage import Usage
from kb_cli.run.records.captures import CaptureCollector, Captured, print_captured
from kb_cli.run.records.usage_file import UsageTable, usage_table
from kb_cli.run.rules.kernel_rules import RuleSearch
from kb_cli.run.simulation.read_back import ReadBack, read_back
from kb_cli.run.simulation.sanitizer import Naming, SanitizerWatch, numbering_of, races_of, sanitize_run
from kb_cli.run.simulation.sim_stats import compared_of, compared_text, sim_stats
from kb_cli.run.simulation.trace_file import Trace
from kb_cli.run.simulation.verdict import Verdict, Writers, behind_outputs, execute_and_look, judge
from kb_cli.run.simulation.workload_verdict import judge_workload
from kb_dataexec import FolderLogWriter, LogWriter, MemoryLogWriter, MemoryStore, OpLog
from kb_dataexec.analysis import Programs, RaceReport, RaceSearch, Where
from kb_dataexec.log import LogSummary
from kb_engine import Engine, LaunchResult, Tensor
from kb_engine.observe import Callbacks, Observer
from kb_engine.program import AssertionWatch, LeakWatch, WrapWatch
from kb_messages import KbError, SimulationStuckError


class Wall(NamedTuple):
    """Seconds on this machine.

    `timing` covers the launches and closing the log, but not the inputs and the host's allocations. `data` covers the
    executor, but not reading the log. `verify` covers the references, the allowed errors and the comparison.
    """

    timing: float
    data: float = 0.0
    verify: float = 0.0


class Made(NamedTuple):
    """The answers of the benchmark before its launches: inputs with their digests, operations, and the factors of
    outputs to sample.
    """

    inputs: Arrays
    digests: dict[str, str]
    flops: int
    factors: Factors


class Computed(NamedTuple):
    """The results of pass 2: the op log, the memory after it or the error that stopped it, the output tensors, and the
    programs that wrote them.
    """

    log: OpLog
    memory: MemoryStore | KbError
    tensors: dict[str, Tensor]
    writers: Writers


class DataPass(NamedTuple):
    """The results of pass 2 and the comparison: `memory` as in `Computed`, and the values of the kernel's captures."""

    wall: Wall
    memory: MemoryStore | KbError | None = None
    expected: Mapping[str, AnyExpected | AnyOpExpected] = {}
    verdict: Verdict | None = None
    captured: Sequence[Captured] = ()


class RunOutcome(NamedTuple):
    """All results of one run.

    `verdict` is None without verification. `log`, `stage_times` and `where` are None without a log. `sanitized`,
    `races`, `computed` and `compared` are None unless they were asked for. `captured` has the values that the kernels
    captured, `value_waits` the waits for computed values, and `simulated` the statistics of pass 1. `host` is None on a
    topology without a host. `remedies` are those of the kernel, and None where no rule looked. `choices` has what the
    benchmark chose on this chip, and `frame` what the latency counts.
    """

    metrics: Metrics
    frame: Frame
    usage: UsageTable
    counters: list[CounterSum]
    launches: list[LaunchResult]
    host: HostTimes | None
    flops: int
    inputs_sha256: dict[str, str]
    log: LogSummary | None
    stage_times: dict[str, dict[str, int]] | None
    where: Where | None
    initial_memory: MemoryStore
    expected: Mapping[str, AnyExpected | AnyOpExpected]
    verdict: Verdict | None
    wall: Wall
    sanitized: Sanitized | None = None
    races: RaceReport | None = None
    computed: Computed | None = None
    captured: Sequence[Captured] = ()
    value_waits: Sequence[ValueWait] = ()
    compared: Compared | None = None
    simulated: SimStats | None = None
    remedies: Sequence[Remedy] | None = None
    choices: Mapping[str, str | int] = {}


class _LogLooks(NamedTuple):
    """All that looks at the log of a run while its chunks are read."""

    races: Sequence[RaceSearch]
    programs: Programs
    rules: RuleSearch | None

    @classmethod
    def of(cls, setup: Setup, host: TimedHost) -> _LogLooks:
        """Returns the looks at the log of the launches of *host*."""
        rules = RuleSearch(host, host.launches) if setup.rules and setup.log else None
        return cls(_race_search(setup), Programs(), rules)

    def on_chunks(self, is_whole: bool) -> list[Callable[[OpLog], object]]:
        """The functions that take each chunk. Programs are found later in a log of which all rows are there."""
        looks: list[Callable[[OpLog], object]] = [each.look for each in self.races]
        if self.rules is not None:
            looks.append(self.rules.look)
        return looks if is_whole else [*looks, self.programs.look]

    def remedies(self, where: Where | None, usage: UsageTable, metrics: Metrics, looks: bool) -> list[Remedy] | None:
        """Returns the remedies on the kernel's side; None for a run without a log, or where no rule looked."""
        if where is None or self.rules is None:
            return None
        return self.rules.remedies(where, usage, metrics, looks)


def simulate(setup: Setup, log_folder: Path | None, progress: RunProgress, trace: Trace | None = None) -> RunOutcome:
    """Runs *setup*. The log streams to *log_folder*, or stays in memory when that is None.

    *trace* is called with each event of pass 1. Raises KbErrors: for an exception in the benchmark's code, with the
    author's frames, and for errors of kernels and engine. A KeyboardInterrupt gets notes on where the run was.
    """
    watch = SimulationWatch(progress)
    try:
        return _simulate(setup, log_folder, progress, trace, watch)
    except KeyboardInterrupt as error:
        kernel_positions: list[str] = []
        if progress.phase == PASS_1:
            watch.tell()
            kernel_positions = watch.kernel_positions
        for note in (progress.interrupted(kernel_positions), *kernel_positions):
            error.add_note(note)
        raise
    except SimulationStuckError as error:
        progress.stuck(str(error).splitlines())
        raise


def _simulate(
    setup: Setup, log_folder: Path | None, progress: RunProgress, trace: Trace | None, watch: SimulationWatch
) -> RunOutcome:
    progress.begin(SET_UP, "inputs()")
    made = _made(setup)
    writer = _new_writer(log_folder) if setup.log else None
    plans, usage = PlanTally(), Usage()
    room = LogRoom(setup, log_folder is not None, _needs_rows(setup, made.factors)) if setup.log else None
    watched = SanitizerWatch(LeakWatch(), WrapWatch()) if setup.sanitize else None
    counters, captures, looks, assertions = BlockCounters(), CaptureCollector(), ValueWaits(), AssertionWatch()
    traced = Callbacks(on_trace=trace) if trace is not None else None
    progress.begin(SET_UP, "building the chip")
    with _closed_on_error(writer):
        observers = _given(room, plans, usage, counters, traced, watch, captures, assertions, looks, *(watched or ()))
        templates = setup.templates and watched is None  # a program that is repeated has no elements to look at
        engine = Engine(setup.topology, writer, observers, templates=templates, exact=setup.exact)
        watch.follow(engine)
        host = TimedHost(engine, setup.loaded.root, progress, setup.checks or setup.compute)
        progress.begin(SET_UP, "launch()")
        outputs = _launched(setup, host, made.inputs)
    began = perf_counter()
    closed = engine.close_log()
    compared = _compared(engine) if setup.exact == "check" else None
    timing = host.wall_s + perf_counter() - began
    initial = engine.initial_memory
    assert initial is not None, "there was a launch"
    sampled = sampled_outputs(setup, made.factors, outputs)
    is_whole, on_log = _needs_rows(setup, sampled), _LogLooks.of(setup, host)
    read = read_back(setup, writer, closed, log_folder, progress, plans.n_stages, is_whole, on_log.on_chunks(is_whole))
    writers = _writers(host, outputs, read.rows, on_log.programs)
    passed = _data_pass(setup, read, initial, (made, outputs), sampled, (captures, assertions), writers, progress)
    print_captured(passed.captured)
    metrics = measure(engine, host.launches, plans, getattr(setup.params, "dtype", None), usage)
    table = usage_table(usage, setup.topology.graph, metrics.span_ps)
    return RunOutcome(
        metrics=metrics,
        frame=frame_of(engine, host.launches, host.copies),
        usage=table,
        counters=counters.sums,
        launches=host.launches,
        host=host.times,
        flops=made.flops,
        inputs_sha256=made.digests,
        log=read.summary,
        stage_times=read.stage_times,
        where=read.where,
        initial_memory=initial,
        expected=passed.expected,
        verdict=passed.verdict,
        wall=passed.wall._replace(timing=timing),
        sanitized=_sanitized(watched, read.rows, initial, host, progress),
        races=_races(on_log.races, read.rows, initial, host),
        computed=_computed(setup, read.rows, passed, outputs, writers),
        captured=[each for each in passed.captured if not each.capture.is_print],
        value_waits=looks.found,
        compared=compared,
        simulated=sim_stats(engine, is_noted=templates and setup.exact != "events"),
        remedies=on_log.remedies(read.where, table, metrics, bool(looks.found)),
        choices=host.choices,
    )


def _made(setup: Setup) -> Made:
    prepare(setup)
    check_capacity(setup)
    inputs = inputs_of(setup)
    flops = flops_of(setup)
    digests = {name: array_sha256(array) for name, array in inputs.items()}
    return Made(inputs, digests, flops, factors_of(setup, inputs, flops))


def _compared(engine: Engine) -> Compared:
    """The work that was simulated twice and compared, which is said on standard error."""
    compared = compared_of(engine)
    click.echo(compared_text(compared), err=True)
    return compared


def _race_search(setup: Setup) -> list[RaceSearch]:
    """A search for races where one is to be made, otherwise none. A sanitizer makes its own."""
    return [RaceSearch()] if setup.races and setup.log and not setup.sanitize else []


def _races(search: Sequence[RaceSearch], log: OpLog | None, initial: MemoryStore, host: TimedHost) -> RaceReport | None:
    return races_of(search[0], log, initial, _naming(host)) if search else None


def _sanitized(
    watched: SanitizerWatch | None, log: OpLog | None, initial: MemoryStore, host: TimedHost, progress: RunProgress
) -> Sanitized | None:
    """Returns the findings of the sanitizers; None unless they were asked for, and without a log."""
    if watched is None or log is None:
        return None
    progress.begin(VERIFY, "sanitizing")
    windows = [(each.start_ps, each.end_ps) for each in host.launches]
    return sanitize_run(log, initial, windows, watched, _naming(host))


def _naming(host: TimedHost) -> Naming:
    """The names of the elements and programs of all launches of *host*."""
    return host.element_at, [numbering_of(each) for each in host.launches]


def _writers(host: TimedHost, outputs: Mapping[str, Tensor], rows: OpLog | None, looked: Programs) -> Writers:
    """The programs that wrote *outputs*. *looked* has seen the chunks of a log that was read without *rows*."""
    found = {name: host.argument_of(tensor) for name, tensor in outputs.items()}
    arguments = {name: argument for name, argument in found.items() if argument is not None}
    programs = partial(Programs.of, rows) if rows is not None else lambda: looked
    return Writers(programs, [numbering_of(each) for each in host.launches], arguments)


def _launched(setup: Setup, host: TimedHost, inputs: Arrays) -> dict[str, Tensor]:
    """Returns the output tensors of the benchmark's launches. An interrupted or stuck run flushes the log first."""
    try:
        return launch(setup, host, inputs)
    except (KeyboardInterrupt, SimulationStuckError):
        host.engine.flush_log()
        raise


def _given(*observers: Observer | None) -> list[Observer]:
    return [each for each in observers if each is not None]


def _new_writer(folder: Path | None) -> LogWriter:
    return MemoryLogWriter() if folder is None else FolderLogWriter(folder)


@contextmanager
def _closed_on_error(writer: LogWriter | None) -> Iterator[None]:
    """Closes the log's files when the run fails."""
    try:
        yield
    except BaseException:
        if writer is not None:
            writer.abort()
        raise


def _computed(
    setup: Setup, log: OpLog | None, passed: DataPass, tensors: dict[str, Tensor], writers: Writers
) -> Computed | None:
    if not setup.compute or log is None or passed.memory is None:
        return None
    return Computed(log, passed.memory, tensors, writers)


def _needs_rows(setup: Setup, sampled: Mapping[str, object] | None) -> bool:
    """Whether something needs all rows of the log together.

    A call of `kernbench.run` needs them, and so do the search for hazards and a check in full, whose allowed errors may
    follow from the sums in the log. With *sampled* outputs there is no check in full, and the ops of a workload state
    their allowed errors.
    """
    return setup.compute or setup.sanitize or (setup.checks and not sampled and setup.workload is None)


def _data_pass(
    setup: Setup,
    read: ReadBack,
    initial: MemoryStore,
    given: tuple[Made, dict[str, Tensor]],
    sampled: Mapping[str, AnyExpected] | None,
    looked: tuple[CaptureCollector, AssertionWatch],
    writers: Writers,
    progress: RunProgress,
) -> DataPass:
    """Runs pass 2 and the comparison, as far as *setup* asks for them. The wall times have no `timing`.

    An assertion that does not hold is the verdict, or raises AssertionFailure in a run that checks nothing else.
    """
    captures, assertions = looked
    if read.log is None or not (setup.checks or setup.compute):
        if unchecked := assertions.unchecked_text():
            click.echo(unchecked, err=True)
        return DataPass(Wall(0.0), captured=captures.without_pass_2())
    began = perf_counter()
    looks = captures.looks
    memory, seen = execute_and_look(read.log, initial, [*looks, *assertions.looks], progress)
    executed = perf_counter()
    found, failed = captures.captured(seen[: len(looks)]), assertions.failed(seen[len(looks) :])
    if failed is not None and not setup.checks:
        raise failed
    if not setup.checks:
        return DataPass(Wall(0.0, executed - began), memory, captured=found)
    if setup.workload is not None:
        verdict, kept = judge_workload(read.log, memory, setup, progress, writers)
        return DataPass(Wall(0.0, executed - began, perf_counter() - executed), memory, kept, verdict, found)
    expected = _in_full(setup, read.rows, *given, progress) if sampled is None else sampled
    verdict = judge(read.log, memory if failed is None else failed, expected, progress, writers)
    return DataPass(Wall(0.0, executed - began, perf_counter() - executed), memory, expected, verdict, found)


def _in_full(
    setup: Setup, rows: OpLog | None, made: Made, outputs: dict[str, Tensor], progress: RunProgress
) -> Mapping[str, AnyExpected]:
    """Returns the references of *outputs*, and the allowed errors, which may follow from the sums in *rows*."""
    assert rows is not None, "they were read together for this check"
    progress.begin(VERIFY, "reference() and tolerance()")
    return expected_outputs(setup, made.inputs, outputs, partial(behind_outputs, rows))


def array_sha256(array: npt.NDArray[Any]) -> str:
    """Returns the sha256 of an array's dtype, shape and bytes, in hex."""
    digest = hashlib.sha256(f"{array.dtype.name} {array.shape}\n".encode())
    digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
