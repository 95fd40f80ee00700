"""One run in its folder: simulates, then writes the results and the data that repeats the run."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from kb_cli.benchmark.call_benchmark import CallBenchmark
from kb_cli.benchmark.setup import Setup
from kb_cli.benchmark.values.params import shown_params
from kb_cli.run.base.files import (
    BENCH,
    BESIDE,
    FORMAT,
    FORMAT_VERSION,
    INPUTS,
    LEVERS,
    LOG,
    TOPOLOGY,
    WALL,
    write_json,
    write_whole,
)
from kb_cli.run.base.progress import SAVE, RunProgress
from kb_cli.run.base.result import Policy, RunResult
from kb_cli.run.folders.identity import environment, folder_name, identity
from kb_cli.run.folders.run_folder import NewRunFolder, kept_on_interrupt
from kb_cli.run.records.data import save_inputs
from kb_cli.run.records.manifest_check import claims
from kb_cli.run.records.run_json import FileClaim, read_run, write_run
from kb_cli.run.records.usage_file import write_usage
from kb_cli.run.records.where_time import write_where
from kb_cli.run.saving.keep import NO_FOLDER, Room, keep, whole_room, without_own_folder
from kb_cli.run.saving.outcome_result import make_result
from kb_cli.run.simulation.simulate import RunOutcome, simulate
from kb_cli.run.simulation.trace_file import Trace, trace_to
from kb_dataexec.files import file_in, read_bytes, writing
from kb_messages import KbError


class Finished(NamedTuple):
    """A finished run: its result as JSON has it, and its whole outcome."""

    result: RunResult
    outcome: RunOutcome


def record_run(
    folder: tuple[Path, Path],
    setup: Setup,
    policy: Policy,
    progress: RunProgress,
    room: Room | None = None,
    shape: dict[str, object] | None = None,
    trace: Trace | None = None,
) -> Finished:
    """Runs *setup*, and writes its folder to the first path of *folder*. The second path is the folder's later name.

    The log streams to the folder, so the log of a killed run can be read there. With `--keep none` the log stays in
    memory, which is cheaper. Chip and benchmark are written first, so they lie beside the log of such a run.
    """
    path, final = folder
    with writing(path):
        path.mkdir(exist_ok=True)
    write_sources(path, setup)
    log = None if policy is Policy.NONE else (path / LOG).absolute()  # a kernel may change the working directory
    outcome = simulate(setup, log, progress, trace)
    progress.begin(SAVE)
    for_times = setup.workload is not None and not (setup.checks or setup.compute)
    no_data = "a workload for times alone has no values" if for_times else ""
    kept = keep(path, outcome, policy, room or whole_room(), no_data)
    if kept.data and isinstance(setup.loaded.bench, CallBenchmark):
        save_inputs(path / INPUTS, setup.loaded.bench.call.inputs)
    write_usage(path, outcome.usage)
    if outcome.where is not None:
        write_where(path, outcome.where)
    result = make_result(setup, outcome, kept, str(final), shape)
    progress.remove_file(path)
    write_results(path, setup, outcome, result)
    return Finished(result, outcome)


def write_sources(path: Path, setup: Setup) -> None:
    """Writes the chip, the benchmark, and the files that it imports from its folder, into the run folder *path*."""
    beside = {f"{BESIDE}/{name}": content for name, content in setup.loaded.beside.items()}
    sources = {TOPOLOGY: setup.topology.source.text.encode(), BENCH: setup.loaded.source, **beside}
    for file, content in sources.items():
        with writing(path / file):
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            (path / file).write_bytes(content)


def write_results(path: Path, setup: Setup, outcome: RunOutcome, result: RunResult) -> None:
    """Writes run.json, which lists all other files of the run folder *path*, and the wall times."""
    write_run(path, run_fields(setup, result, outcome.inputs_sha256, claims(path)))
    write_json(path / WALL, outcome.wall._asdict())


def run_unsaved(setup: Setup) -> Finished:
    """Runs *setup* and writes nothing. Ctrl-C leaves nothing either."""
    with RunProgress() as progress:
        outcome = simulate(setup, None, progress)
    return Finished(make_result(setup, outcome, NO_FOLDER, None, None), outcome)


def run_once(setup: Setup, out: Path, policy: Policy, trace_path: Path | None = None) -> Finished:
    """Runs *setup* in a new folder below *out*, with the trace in *trace_path*.

    A failed run leaves no folder. An interrupted or stuck run with a log leaves a folder of another name.
    """
    name = folder_name(setup.loaded.name, {**identity(setup), "params": shown_params(setup.params)})
    with NewRunFolder(out, name) as folder:
        with trace_to(trace_path) as trace, RunProgress(folder.path) as progress, kept_on_interrupt(folder):
            finished = record_run((folder.path, folder.final), setup, policy, progress, trace=trace)
        keep_levers(folder.path.with_name(name), folder.path)
        is_committed = folder.commit()
    return finished if is_committed else finished._replace(result=without_own_folder(finished.result))


def keep_levers(old: Path, new: Path) -> None:
    """Copies the levers that were measured for the run in *old* to *new*, the folder of the same run, made again."""
    with suppress(KbError):  # the old folder is gone, or somebody else's
        if read_run(old).sha256 == read_run(new).sha256 and (old / LEVERS).exists():
            write_whole(new / LEVERS, read_bytes(file_in(old, LEVERS), KbError))


def run_fields(setup: Setup, result: RunResult, inputs: dict[str, str], files: dict[str, FileClaim]) -> dict[str, Any]:
    """Returns the run.json of one run. A repeated run gives equal bytes, so wall times have a file of their own."""
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        **identity(setup),
        "environment": environment(),
        "params": result.params,
        "inputs": inputs,
        "log_digest": result.log_digest,
        "keep": result.keep,
        "files": files,
        "results": result.without_place(),
    }
