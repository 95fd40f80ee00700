"""The run folder of one launch of a script: a row of the script's run."""

from __future__ import annotations

from pathlib import Path

from kb_cli.benchmark.load import LoadedBenchmark
from kb_cli.benchmark.run_records import RecordedScript
from kb_cli.benchmark.scripts import ScriptBenchmark, ScriptLaunch
from kb_cli.benchmark.setup import Setup
from kb_cli.run.base.files import LOG
from kb_cli.run.base.result import Policy, RunResult
from kb_cli.run.observe.frames import frame_of
from kb_cli.run.observe.metrics import measure
from kb_cli.run.observe.stage_tally import StageTally
from kb_cli.run.observe.timed_host import HostTimes
from kb_cli.run.records.usage_file import usage_table, write_usage
from kb_cli.run.records.where_time import write_where
from kb_cli.run.rules.kernel_rules import RuleSearch
from kb_cli.run.saving.keep import Room, keep
from kb_cli.run.saving.outcome_result import make_result
from kb_cli.run.saving.save import write_results, write_sources
from kb_cli.run.simulation.sanitizer import Naming, numbering_of, races_of
from kb_cli.run.simulation.simulate import RunOutcome, Wall
from kb_cli.script.launch_watch import LaunchWatch
from kb_dataexec.analysis import Element, RaceReport, RaceSearch, where
from kb_dataexec.files import writing
from kb_dataexec.log import LogSummary, write_log
from kb_messages import BenchmarkError, read_bytes

_MOST_NBYTES = 16 << 20
"""The most bytes of a kernel's file. Source: assumed."""


def write_row(
    folder: tuple[Path, Path],
    launch: ScriptLaunch,
    watch: LaunchWatch,
    record: RecordedScript,
    policy: Policy,
    room: Room,
) -> RunResult:
    """Writes *launch*, which *watch* observed, to the first path of *folder*, whose later name is the second path."""
    path, final = folder
    setup = setup_of(launch, record)
    with writing(path):
        path.mkdir()
    write_sources(path, setup)
    log = launch.log
    summary = LogSummary(log.digest, log.n_ops, log.n_operands, {name: len(each) for name, each in log.tables.items()})
    if policy is not Policy.NONE:
        write_log(path / LOG, log)
    outcome = outcome_of(launch, watch, summary)
    kept = keep(path, outcome, policy, room)
    write_usage(path, outcome.usage)
    assert outcome.where is not None
    write_where(path, outcome.where)
    result = make_result(setup, outcome, kept, str(final), shape_of(launch, record.launch))
    write_results(path, setup, outcome, result)
    return result


def shape_of(launch: ScriptLaunch, number: int) -> dict[str, object]:
    """Returns the fields that distinguish a launch from others, like the cells of a shapes file."""
    return {"launch": number, "kernel": launch.kernel, "grid": "x".join(map(str, launch.grid))}


def setup_of(launch: ScriptLaunch, record: RecordedScript) -> Setup:
    """Returns the setup that repeats *launch*."""
    bench = ScriptBenchmark(record, launch.arguments)
    source = read_bytes(launch.file, BenchmarkError, _MOST_NBYTES)
    loaded = LoadedBenchmark(launch.kernel, launch.file, source, bench, script=record)
    return Setup(loaded, bench.arguments, launch.host.engine.topology, 0, verify=False, log=True)


def outcome_of(launch: ScriptLaunch, watch: LaunchWatch, log: LogSummary) -> RunOutcome:
    """Returns *launch* as the outcome of a run that verified nothing: the script judges its data."""
    engine = launch.host.engine
    metrics = measure(engine, [launch.result], watch.plans, None, watch.usage)
    stages, searched, naming = StageTally(), watch.sanitizer, _naming(launch)
    rules = RuleSearch(launch.host, [launch.result])
    for look in (stages.look, rules.look):
        look(launch.log)
    found, table = where(launch.log), usage_table(watch.usage, engine.topology.graph, metrics.span_ps)
    return RunOutcome(
        metrics=metrics,
        usage=table,
        frame=frame_of(engine, [launch.result], launch.host.copies),
        counters=watch.counters.sums,
        launches=[launch.result],
        host=_host_times(launch),
        flops=0,
        inputs_sha256={},
        log=log,
        stage_times=stages.stage_times,
        where=found,
        initial_memory=launch.initial,
        expected={},
        verdict=None,
        wall=Wall(launch.timing_s, launch.data_s),
        sanitized=None if searched is None else searched.found(launch.log, launch.initial, launch.result, naming),
        races=_races(launch, naming) if watch.looks_for_races and searched is None else None,
        remedies=rules.remedies(found, table, metrics, is_script=True),
    )


def _naming(launch: ScriptLaunch) -> Naming:
    """The names of elements and of programs in *launch*."""

    def element(number: int, owner: int, offset: int) -> Element | None:
        found = launch.element_at(owner, offset)
        return None if found is None else Element(tensor=found[0], index=found[1])

    return element, [numbering_of(launch.result)]


def _races(launch: ScriptLaunch, naming: Naming) -> RaceReport:
    search = RaceSearch()
    search.look(launch.log)
    return races_of(search, launch.log, launch.initial, naming)


def _host_times(launch: ScriptLaunch) -> HostTimes | None:
    host, result = launch.host, launch.result
    if host.engine.host_calls is None:
        return None
    return HostTimes(
        write_ps=host.write_ps,
        read_ps=host.read_ps,
        map_ps=host.map_ps,
        launch_ps=result.start_ps - result.call_ps,
        response_ps=result.response_ps - result.end_ps,
    )
