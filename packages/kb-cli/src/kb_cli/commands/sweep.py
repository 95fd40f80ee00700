"""`kb sweep`: many points of a benchmark and a chip."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path

import click

from kb_cli.benchmark.load import LoadedBenchmark, load_benchmark
from kb_cli.report.html.sweep_files import check_table_file, write_report, write_table
from kb_cli.report.tables.sweep_tables import sweep_tables
from kb_cli.sweep.costs import costs_of
from kb_cli.sweep.definition import Definition, SweepOptions, defined
from kb_cli.sweep.job import Answer, Job
from kb_cli.sweep.job_list import JobList
from kb_cli.sweep.point_store import PointStore
from kb_cli.sweep.points import points_of
from kb_cli.sweep.pools.dask_pool import answers_of_dask
from kb_cli.sweep.pools.local_pool import answers_of_processes
from kb_cli.sweep.sweep import SweepResult, SweepSetup, run_sweep
from kb_cli.sweep.sweep_file import plain_sweep
from kb_cli.terminal.checked_command import CheckedCommand
from kb_cli.terminal.limit_options import limit_options
from kb_cli.terminal.output import emit_json, emit_lines, emit_tables
from kb_cli.terminal.output_file import made_folder
from kb_cli.terminal.units import listed
from kb_messages import BenchmarkError


@click.command("sweep", cls=CheckedCommand)
@click.argument("what", metavar="BENCH|SWEEP.yaml")
@click.option(
    "--topology", help="Bundled chips' names or YAML files, with commas.  [default: one_cube; one_sip for a model]"
)
@click.option("--set", "sets", multiple=True, metavar="PATH=VALUES", help="Values of the chip's YAML at a place.")
@click.option("-p", "params", multiple=True, metavar="KEY=VALUES", help="Values of a parameter of the benchmark.")
@click.option(
    "--list", "table", type=click.Path(path_type=Path), metavar="CSV", help="Points whose values belong together."
)
@click.option("--where", multiple=True, metavar="EXPR", help="Leave out points for which EXPR is false.")
@click.option("--cost", default="", metavar="EXPR", help="What a point costs, for the Pareto front.")
@click.option(
    "--within", default="", metavar="SHARE", help="Latencies that differ by at most SHARE, 1%, are equal on the front."
)
@click.option("--over", multiple=True, metavar="AXIS", help="Add up points that differ in this axis alone: a workload.")
@click.option(
    "--best", multiple=True, metavar="AXES", help="Take the fastest values of these parameters: the best mapping."
)
@click.option("--random", "most", type=click.IntRange(min=1), metavar="POINTS", help="Draw so many points, not all.")
@click.option("--random-seed", type=click.IntRange(min=0), help="Seed of the draw.  [default: 0]")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the inputs.")
@click.option("--verify", is_flag=True, help="Compute the data of every point and check it too.")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes.  [default: one for each core]")
@click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler whose workers simulate (extra dask).")
@click.option(
    "--scheduler-wait",
    type=click.IntRange(1, 3600),
    default=5,
    show_default=True,
    metavar="SECONDS",
    help="How long a scheduler that does not answer is tried.",
)
@click.option("--again", is_flag=True, help="Simulate points whose results are known, too.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("kb-sweeps"), show_default=True, help="Where results go."
)
@click.option(
    "-o",
    "table_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="All points, .csv or .parquet.",
)
@click.option("--rows", type=click.IntRange(min=1), default=15, show_default=True, help="Points in each table.")
@limit_options
@click.option("--json", "as_json", is_flag=True, help="Print one object with all points, nothing else.")
def command(
    what: str,
    topology: str | None,
    sets: tuple[str, ...],
    params: tuple[str, ...],
    table: Path | None,
    where: tuple[str, ...],
    cost: str,
    within: str,
    over: tuple[str, ...],
    best: tuple[str, ...],
    most: int | None,
    random_seed: int | None,
    seed: int,
    verify: bool,
    jobs: int | None,
    scheduler: str | None,
    scheduler_wait: int,
    again: bool,
    out: Path,
    table_file: Path | None,
    rows: int,
    as_json: bool,
) -> None:
    """Simulate every combination of values of a benchmark's parameters and of a chip.

    VALUES are one value or several with commas: 102.4,204.8. A range is 128:1024:128, or 128:4096:*2. PATH may be
    several places with = between, which get the same value. In EXPR, an axis has its name, with _ for other characters.

    The result of each point is kept below OUT under a hash of everything that decides the result. So a sweep that was
    killed goes on where it was, and a sweep that grew simulates the new points alone.
    """
    options = SweepOptions(topology, sets, params, table, where, cost, most, random_seed, over, within, best)
    if table_file is not None:
        check_table_file(table_file, Path(what), *([table] if table is not None else []))
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        definition, loaded = _loaded(defined(what, options))
        points = points_of(definition)
        job_list = JobList(loaded, definition, points, seed, verify)
        costs = costs_of(definition, points, job_list.chips.values())
        name = listed(list(dict.fromkeys(each.name for each in loaded.values())))
        setup = SweepSetup(name, definition, points, costs, seed)
        points_folder = out / "points"
        store = PointStore(points_folder)

        def workers(missing: Sequence[Job]) -> Iterator[Answer]:
            if scheduler is not None:
                return answers_of_dask(missing, scheduler, scheduler_wait)
            return answers_of_processes(missing, min(jobs or _cores(), len(missing)))

        with made_folder("--out", out), made_folder("--out", points_folder):
            result = run_sweep(setup, job_list, store, workers, again)
    folder = write_report(out, result)
    if table_file is not None:
        write_table(table_file, result)
    _print(result, folder, rows, as_json)
    wrong = any(point.result is not None and point.result.verified is False for point in result.points)
    click.get_current_context().exit(1 if wrong or not result.configurations else 0)


def _loaded(definition: Definition) -> tuple[Definition, dict[str, LoadedBenchmark]]:
    """Returns *definition* with its chip, which its benchmarks tell where none is named, and the benchmarks by label.

    Raises BenchmarkError for benchmarks that have several chips.
    """
    loaded = {each.label: load_benchmark(each.benchmark) for each in definition.mix}
    if definition.topology:
        return definition, loaded
    names = list(dict.fromkeys(each.default_topology for each in loaded.values()))
    if len(names) > 1:
        fix = f"add --topology {names[-1]}, or topology in the file"
        raise BenchmarkError("topology", f"no name, and benchmarks for {listed(names)}", "one chip for all", fix)
    return definition._replace(topology=names[0]), loaded


def _print(result: SweepResult, folder: Path, rows: int, as_json: bool) -> None:
    if as_json:
        emit_json(plain_sweep(result))
        return
    emit_tables(*sweep_tables(result, rows))
    emit_lines(["", f"{folder / 'report.html'}: all points, with pictures"])


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
