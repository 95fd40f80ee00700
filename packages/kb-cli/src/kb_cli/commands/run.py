"""`kb run`: runs a benchmark on a chip, once or for every row of a shapes file."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from time import thread_time
from typing import Literal

import click
from msgspec.structs import replace

from kb_cli.benchmark import bundled
from kb_cli.benchmark.author_calls import prepare
from kb_cli.benchmark.code.user_code import user_code
from kb_cli.benchmark.load import LoadedBenchmark, load_benchmark
from kb_cli.benchmark.param_docs import BenchmarkDoc, benchmark_doc
from kb_cli.benchmark.run_records import CheckMode
from kb_cli.benchmark.setup import Setup
from kb_cli.benchmark.values.params import build_params, parse_assignments
from kb_cli.benchmark.values.shapes import read_shapes
from kb_cli.benchmark.values.workload_options import refuse_for_benchmark, with_workload_options, workload_options
from kb_cli.run.base.progress import RunProgress
from kb_cli.run.base.result import Policy, RunResult, remedies_of
from kb_cli.run.observe.closing_sentence import Timed, best_first, closing_sentence
from kb_cli.run.saving.rows import run_rows
from kb_cli.run.saving.save import Finished, run_once
from kb_cli.run.simulation.sanitizer import found_something
from kb_cli.run.simulation.trace_file import check_trace_name
from kb_cli.terminal.checked_command import CheckedCommand
from kb_cli.terminal.lever_option import lever_option
from kb_cli.terminal.limit_options import limit_options
from kb_cli.terminal.output import emit_json, emit_tables
from kb_cli.terminal.output_file import refuse_overwriting
from kb_cli.whatif.budget import LEAST_S, Budget
from kb_cli.whatif.known_levers import Levers
from kb_cli.whatif.levers import levers_after
from kb_cli.whatif.op_levers import with_op_levers
from kb_engine import PlannedOp
from kb_messages import BenchmarkError, KbError
from kb_topology import load_topology


@click.command("run", cls=CheckedCommand)
@click.argument("bench", required=False)
@click.option("--workload", metavar="NAME|FILE", help="A model's name or its config.json, in place of BENCH.")
@click.option(
    "--topology",
    help="A bundled chip's name, or a YAML file.  [default: one_cube; one_sip for a model]",
)
@click.option("--list", "only_list", is_flag=True, help="List the ops of a workload, and run nothing.")
@click.option("--params", "only_params", is_flag=True, help="List the parameters of BENCH, and run nothing.")
@click.option("-p", "assignments", multiple=True, metavar="KEY=VALUE", help="Set a parameter, e.g. tile=128x128x128.")
@workload_options
@click.option(
    "--shapes",
    type=click.Path(path_type=Path),
    metavar="CSV",
    help="Run every row of a CSV file. Columns that name parameters set them; other columns label the rows.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the inputs.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("kb-runs"), show_default=True, help="Where run folders go."
)
@click.option(
    "--keep",
    "policy",
    type=click.Choice([each.value for each in Policy]),
    default="auto",
    show_default=True,
    help="Data and log in the run folder: auto keeps up to 256 MiB of each a run, 1 GiB of each over all shapes. The "
    "data are memory, references and captured values.",
)
@click.option(
    "--verify",
    "check",
    type=click.Choice([each.value for each in CheckMode]),
    help="How to compare outputs: full, each element; sample, random sums and some rows of products, with the "
    "probability of a miss in the report; auto, sample above 2^37 FLOPs where the benchmark allows.  [default: auto]",
)
@click.option("--no-verify", is_flag=True, help="Do not compute the data; time alone.")
@click.option("--no-log", is_flag=True, help="Do not record operations, which leaves nothing to verify.")
@click.option(
    "--trace",
    "trace_path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write every event of the simulation to FILE, one JSON object a line.",
)
@click.option(
    "--sanitize/--no-sanitize",
    default=None,
    help="Look for missing waits, races of programs, leaks of TCM, wrapped indices; --no-sanitize looks for nothing.  "
    "[default: races alone, where that costs little]",
)
@click.option(
    "--no-templates", is_flag=True, help="Run the kernel of every program of a grid, where a template gives the same."
)
@click.option(
    "--exact",
    type=click.Choice(["isolated", "events", "check"]),
    default="isolated",
    show_default=True,
    help="How to find the times, which are the same: closed isolates commands and skips programs in a steady state; "
    "events simulates every event; check simulates each launch both ways and compares.",
)
@click.option(
    "--sim-stats",
    "show_stats",
    is_flag=True,
    help="Also list how many commands were isolated, skipped or on the slow path (event by event), and why.",
)
@lever_option(
    "After the run, measure up to N values of the chip that would gain most, within 30 s, or 600 s for a model; "
    "each launches BENCH again. 0 "
    "and none measure none.  [default: as many as are measured in the time of the run; none with --json and --shapes]"
)
@limit_options
@click.option("--json", "as_json", is_flag=True, help="Print one object (an array with --shapes), nothing else.")
def command(
    bench: str | None,
    workload: str | None,
    topology: str | None,
    only_list: bool,
    only_params: bool,
    assignments: tuple[str, ...],
    shapes: Path | None,
    seed: int,
    out: Path,
    policy: str,
    check: str | None,
    no_verify: bool,
    no_log: bool,
    trace_path: Path | None,
    sanitize: bool | None,
    no_templates: bool,
    exact: Literal["isolated", "events", "check"],
    show_stats: bool,
    most: int | None,
    as_json: bool,
    of_workload: dict[str, str],
) -> None:
    """Run BENCH, a benchmark, a Python file, a model or its config.json, and check its numbers by its reference."""
    if shapes is not None:
        _check_one_run({"--trace": trace_path is not None, "--levers": bool(most), "--list": only_list})
    _check_passes(check, no_verify, no_log, bool(sanitize))
    with (
        redirect_stdout(sys.stderr) if as_json else nullcontext()
    ):  # a benchmark's own prints must not mix with the JSON
        loaded = _loaded(bench, workload)
        doc = benchmark_doc(loaded) if only_params else None
    if doc is not None:
        return _print_params(doc, as_json)
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        texts = with_workload_options(loaded, parse_assignments(assignments), of_workload)
        rows = read_shapes(shapes, loaded.bench.Params, texts) if shapes is not None else None
        params = build_params(loaded.bench.Params, texts) if rows is None else None
        chip_file = bundled.find("topologies", topology or loaded.default_topology)
        chip = load_topology(chip_file)
        if trace_path is not None:
            check_trace_name(trace_path)
            refuse_overwriting("--trace", trace_path, loaded.path, chip_file)
        flags = {"verify": not no_verify, "log": not no_log, "templates": not no_templates}
        flags |= {"sanitize": bool(sanitize), "races": sanitize is None}
        mode = CheckMode(check or CheckMode.AUTO)
        setup = Setup(loaded, params, chip, seed, **flags, check=mode, exact=exact)
        planned = _planned(setup) if only_list else []
        results = [] if rows is None else run_rows(setup, rows, out, Policy(policy))
    if only_list:
        return _print_plan(setup, planned, as_json)
    if rows is None:
        results = [_run_and_print(setup, (out, Policy(policy), trace_path), most, as_json)]
    else:
        _print_rows(results, as_json)
    if show_stats and not as_json:
        _print_stats(results)
    failed = any(map(_has_failed, results))
    click.get_current_context().exit(1 if failed else 0)


def _check_one_run(given: Mapping[str, bool]) -> None:
    """Raises BenchmarkError for an option of one run that is *given* beside --shapes."""
    if option := next((name for name, is_given in given.items() if is_given), None):
        raise BenchmarkError(option, "the many runs of --shapes", "one run", "leave out one of the two options")


def _check_passes(check: str | None, no_verify: bool, no_log: bool, sanitize: bool) -> None:
    """Raises BenchmarkError for options of passes that need what others leave out."""
    if sanitize and no_log:
        raise BenchmarkError("--sanitize", "no log (--no-log)", "one", "leave out one of the two options")
    if check is not None and (no_verify or no_log):
        option = "--no-verify" if no_verify else "--no-log"
        raise BenchmarkError(f"--verify {check}", f"{option}, which leaves nothing to verify", "one of the two options")


def _loaded(bench: str | None, workload: str | None) -> LoadedBenchmark:
    """Returns the benchmark of one of the two names. Raises BenchmarkError for both, for none, and for a --workload
    that is none.
    """
    if (bench is None) == (workload is None):
        got = "neither" if bench is None else f"BENCH {bench} and --workload {workload}"
        raise BenchmarkError("kb run", got, "BENCH or --workload", "kb list names benchmarks and models")
    loaded = load_benchmark(bench if bench is not None else workload or "")
    if workload is not None:
        refuse_for_benchmark(loaded, "--workload", f"kb run {workload} runs a benchmark")
    return loaded


def _planned(setup: Setup) -> list[PlannedOp]:
    """Returns the ops of the workload of *setup*. Raises BenchmarkError for a benchmark."""
    refuse_for_benchmark(setup.loaded, "--list", f"kb run {setup.loaded.name} --params lists parameters")
    assert setup.workload is not None, "refused before"
    prepare(setup)
    with user_code(setup.loaded.path, "planned"):
        return setup.workload.planned


def _print_plan(setup: Setup, planned: list[PlannedOp], as_json: bool) -> None:
    if as_json:
        emit_json(planned)
        return
    from kb_cli.report.tables.params_tables import plan_tables

    emit_tables(*plan_tables(f"{setup.loaded.name} on {setup.topology.name}", planned))


def _run_and_print(setup: Setup, place: tuple[Path, Policy, Path | None], most: int | None, as_json: bool) -> RunResult:
    """Runs *setup* to *place*, measures levers, and prints the result, also where Ctrl-C ends the measuring."""
    began_s, found = thread_time(), None
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        finished = run_once(setup, *place)
    asked = Budget.asked(setup.workload is not None)
    budget = Budget(work_s=max(thread_time() - began_s, LEAST_S)) if most is None else asked
    try:
        if most or (most is None and not as_json):
            found = _levers(setup, finished, (budget, most))
    finally:
        _print_one(finished.result, found, as_json)
    return finished.result


def _levers(setup: Setup, finished: Finished, limit: tuple[Budget, int | None]) -> Levers | None:
    """Returns the levers of *finished*; None without a log. An error becomes a note, because the run has succeeded."""
    if finished.outcome.where is None:
        return None
    folder = finished.result.run_dir
    try:
        with RunProgress() as progress:
            place = Path(folder) if isinstance(folder, str) else None
            return levers_after(setup, finished, limit, progress, place)
    except KbError as error:
        click.echo(f"note: got no levers: {error}", err=True)
        return None


def _has_failed(result: RunResult) -> bool:
    return result.verified is False or found_something(result.sanitizer) or found_something(result.races)


def _print_params(doc: BenchmarkDoc, as_json: bool) -> None:
    from kb_cli.report.tables.params_tables import params_tables

    if as_json:
        emit_json(doc)
    else:
        emit_tables(*params_tables(doc))


def _print_one(result: RunResult, levers: Levers | None, as_json: bool) -> None:
    remedies = best_first([*(levers.remedies if levers is not None else ()), *remedies_of(result)])
    if levers is not None and isinstance(result.workload_ops, list):
        result = replace(result, workload_ops=with_op_levers(result.workload_ops, levers.levers))
    if as_json:
        _tell_if_dropped([result])
        emit_json(result if levers is None else replace(result, remedies=remedies))
        return
    from kb_cli.report.tables.run_tables import run_tables

    tried = None if levers is None else levers.tried
    timed = Timed.of(result.latency_ps, result.workload_ops)
    sentence = closing_sentence(result.bounded_by, timed, remedies, tried, str(result.run_dir or ""))
    emit_tables(*run_tables(result, sentence))


def _print_rows(results: list[RunResult], as_json: bool) -> None:
    if as_json:
        _tell_if_dropped(results)
        emit_json(results)
        return
    from kb_cli.report.tables.shapes_tables import shapes_tables

    emit_tables(*shapes_tables(results))


def _print_stats(results: list[RunResult]) -> None:
    from kb_cli.report.elements.shared_tables import sim_stats_tables

    for each in results:
        emit_tables(*sim_stats_tables(each.simulated))


def _tell_if_dropped(results: list[RunResult]) -> None:
    """Notes on standard error what `--keep auto` left out. Without --json, the tables say so."""
    dropped = [result for result in results if result.keep.missing and result.keep.policy is Policy.AUTO]
    if dropped and dropped[0].log_digest is not None:
        click.echo(f"note: {len(dropped)} of {len(results)} runs: {dropped[0].keep.missing}", err=True)
