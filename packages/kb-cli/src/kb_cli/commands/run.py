"""`kb run`: a benchmark on a chip, once or for every row of a file of shapes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path

import click

from kb_cli.benchmark import bundled
from kb_cli.benchmark.load import load_benchmark
from kb_cli.benchmark.params import build_params, parse_assignments, shown_params
from kb_cli.benchmark.setup import Setup
from kb_cli.benchmark.shapes import Row, read_shapes
from kb_cli.run.files import RUN, write_json
from kb_cli.run.folder import NewRunFolder
from kb_cli.run.identity import folder_name, identity
from kb_cli.run.keep import SHAPES_LIMIT, Policy
from kb_cli.run.result import RunResult
from kb_cli.run.sanitizer import found_something
from kb_cli.run.save import record_run, rows_json
from kb_cli.run.trace_file import trace_to
from kb_cli.terminal.output import emit_json, emit_tables, progress_bar
from kb_messages import BenchmarkError, KbError
from kb_topology import load_topology


@click.command("run")
@click.argument("bench")
@click.option("--topology", default="one_cube", show_default=True, help="A bundled chip's name, or a YAML file.")
@click.option("-p", "assignments", multiple=True, metavar="KEY=VALUE", help="Set a parameter, e.g. tile=128x128x128.")
@click.option(
    "--shapes",
    type=click.Path(path_type=Path),
    metavar="CSV",
    help="Run every row of a CSV file with columns M, N, K; other columns label the rows.",
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
    help="Memory, references and log in the run folder: auto keeps up to 256 MiB a run, 1 GiB over all shapes.",
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
@click.option("--sanitize", is_flag=True, help="Look for missing waits, races between PEs, and leaks of TCM.")
@click.option("--json", "as_json", is_flag=True, help="Print one object (an array with --shapes), nothing else.")
def command(
    bench: str,
    topology: str,
    assignments: tuple[str, ...],
    shapes: Path | None,
    seed: int,
    out: Path,
    policy: str,
    no_verify: bool,
    no_log: bool,
    trace_path: Path | None,
    sanitize: bool,
    as_json: bool,
) -> None:
    """Run BENCH, a bundled benchmark's name or a Python file, and check its numbers against its reference."""
    if shapes is not None and trace_path is not None:
        raise BenchmarkError("--trace", "the many runs of --shapes", "one run", "leave out one of the two options")
    if sanitize and no_log:
        raise BenchmarkError("--sanitize", "no log (--no-log)", "one", "leave out one of the two options")
    with redirect_stdout(sys.stderr) if as_json else nullcontext():  # what a benchmark prints is not our JSON
        loaded = load_benchmark(bench)
        texts = parse_assignments(assignments)
        rows = read_shapes(shapes, loaded.bench.Params, texts) if shapes is not None else None
        params = build_params(loaded.bench.Params, texts) if rows is None else None
        chip = load_topology(bundled.find("topologies", topology))
        setup = Setup(loaded, params, chip, seed, verify=not no_verify, log=not no_log, sanitize=sanitize)
        results = (
            _run_once(setup, out, Policy(policy), trace_path)
            if rows is None
            else _run_rows(setup, rows, out, Policy(policy))
        )
    _print(results, as_json, rows is not None)
    failed = any(result.verified is False or found_something(result.sanitizer) for result in results)
    click.get_current_context().exit(1 if failed else 0)


def _run_once(setup: Setup, out: Path, policy: Policy, trace_path: Path | None) -> list[RunResult]:
    name = folder_name(setup.loaded.name, {**identity(setup), "params": shown_params(setup.params)})
    with NewRunFolder(out, name) as folder:
        with trace_to(trace_path) as trace, progress_bar("checking the numbers") as progress:
            result = record_run((folder.path, folder.final), setup, policy, progress=progress, trace=trace)
        folder.commit()
    return [result]


def _run_rows(setup: Setup, rows: list[Row], out: Path, policy: Policy) -> list[RunResult]:
    config = {**identity(setup), "rows": [[row.cells, shown_params(row.params)] for row in rows]}
    results: list[RunResult] = []
    left = SHAPES_LIMIT
    with NewRunFolder(out, folder_name(setup.loaded.name, config)) as folder:
        with progress_bar("shapes") as progress:
            for number, row in enumerate(rows):
                if progress is not None:
                    progress(number, len(rows))
                paths = (folder.path / f"{number:04d}", folder.final / f"{number:04d}")
                with _told_where(row):
                    results.append(record_run(paths, setup._replace(params=row.params), policy, left, row.cells))
                gc.collect()  # an engine is full of cycles, and holds the memories of its chip
                left -= results[-1].keep.nbytes if results[-1].keep.data else 0
        write_json(folder.path / RUN, rows_json(setup, results))
        folder.commit()
    return results


@contextmanager
def _told_where(row: Row) -> Iterator[None]:
    """An error of a row names the row's line first."""
    try:
        yield
    except KbError as error:
        error.where = f"{row.where}: {error.where}"
        raise


def _tell_if_dropped(results: list[RunResult]) -> None:
    dropped = [result for result in results if not result.keep.data and result.keep.policy is Policy.AUTO]
    if dropped and dropped[0].log_digest is not None:
        click.echo(f"note: no data kept of {len(dropped)} of {len(results)} runs: {dropped[0].keep.why}", err=True)


def _print(results: list[RunResult], as_json: bool, shapes: bool) -> None:
    if as_json:
        _tell_if_dropped(results)
        emit_json(results if shapes else results[0])
        return
    if shapes:
        from kb_cli.report.shapes_tables import shapes_tables

        emit_tables(*shapes_tables(results))
    else:
        from kb_cli.report.run_tables import run_tables

        emit_tables(*run_tables(results[0]))
