"""The list of the run folders below a folder, and the deletion of old ones."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from kb_cli.run.base.fidelity_band import Fidelity
from kb_cli.run.base.files import RUN, RunFolderError
from kb_cli.run.base.progress import PROGRESS
from kb_cli.run.base.result import was_sampled
from kb_cli.run.folders.run_folder import INTERRUPTED, left_by_killed, take_away_stale
from kb_cli.run.records.manifest_check import extra_files, files_of
from kb_cli.run.records.run_json import RunJson, read_run
from kb_cli.terminal.units import value_text
from kb_dataexec.files import file_in, read_json, writing

_SECONDS_A_DAY = 86_400


class ListedRun(Struct, frozen=True, kw_only=True):
    """One run folder. `when` is the time at which its run.json was written, in UTC and ISO 8601.

    `runs` counts the rows of a shapes file, and is 1 for other runs. `latency_ps` adds up over them. `verified` is None
    where nothing was verified. `by_sample` says that an output was checked by sample. `fidelity` is the fidelity of a
    single run, and None for a run of an older version. `params` are the parameters of a single complete run, and empty
    for others. An interrupted or stuck run has neither latency nor verdict.
    """

    folder: str
    state: Literal["complete", "interrupted", "stuck"] = "complete"
    benchmark: str
    topology: str
    runs: int = 1
    latency_ps: int | None = None
    fidelity: Fidelity | None = None
    verified: bool | None = None
    by_sample: bool = False
    nbytes: int
    when: str
    params: dict[str, Any] = {}


class Pruned(Struct, frozen=True, kw_only=True):
    """The run folders that pruning deleted, or would delete with `dry_run`, and their size in bytes.

    `skipped` says why old folders stay. `killed` lists the hidden folders of killed runs.
    """

    dry_run: bool
    removed: list[ListedRun]
    nbytes: int
    skipped: list[str]
    killed: list[str] = []


def list_runs(out: Path) -> list[ListedRun]:
    """Returns the run folders directly below *out*, the newest first. Anything else there is passed over.

    Raises RunFolderError when *out* is no folder.
    """
    if not out.is_dir():
        got = "a file" if out.exists() else "no such folder"
        raise RunFolderError(str(out), got, "a folder of run folders", "kb run makes kb-runs")
    folders = [each for each in out.iterdir() if each.is_dir() and not each.is_symlink() and each.name[0] != "."]
    found = [run for folder in folders if (run := listed_run(folder)) is not None]
    return sorted(found, key=lambda run: (run.when, run.folder), reverse=True)


def prune_runs(out: Path, keep: int | None, older_days: float | None, dry_run: bool) -> Pruned:
    """Deletes the run folders of *out* that are neither among the *keep* newest nor younger than *older_days* days.

    A condition that is None spares nothing. A folder that holds a file which no run wrote stays. Hidden folders of
    killed runs are always deleted, as the next run would delete them. Raises RunFolderError when *out* is no folder.
    """
    killed = left_by_killed(out)
    killed_nbytes = sum(_nbytes_if_plain(path) for path in killed)
    if not dry_run:
        take_away_stale(out)
    runs = list_runs(out)
    old = runs[keep or 0 :]
    if older_days is not None:
        now_s = datetime.now(UTC).timestamp()
        old = [run for run in old if now_s - _seconds(run.when) > older_days * _SECONDS_A_DAY]
    removed, skipped = [], []
    for run in old:
        if strange := _strange_file(Path(run.folder)):
            skipped.append(f"{run.folder}: got {strange}, which no run wrote; it stays")
            continue
        if not dry_run:
            with writing(Path(run.folder)):
                shutil.rmtree(run.folder)
        removed.append(run)
    nbytes = sum(run.nbytes for run in removed) + killed_nbytes
    return Pruned(dry_run=dry_run, removed=removed, nbytes=nbytes, skipped=skipped, killed=list(map(str, killed)))


def listed_run(folder: Path) -> ListedRun | None:
    """Returns the run in *folder*, None for a folder that is no run folder."""
    try:
        nbytes = _nbytes(folder)
        if folder.name.endswith(INTERRUPTED):
            return _interrupted(folder, nbytes)
        run = read_run(folder)
    except (RunFolderError, OSError):
        return None
    of_rows = [] if isinstance(run, RunJson) else run.rows
    verdicts = [run.results.verified] if isinstance(run, RunJson) else [row.verified for row in of_rows]
    samples = [was_sampled(run.results.outputs)] if isinstance(run, RunJson) else [row.by_sample for row in of_rows]
    return ListedRun(
        folder=str(folder),
        benchmark=run.benchmark.name,
        topology=run.topology.name,
        runs=len(verdicts),
        latency_ps=run.results.latency_ps if isinstance(run, RunJson) else sum(row.latency_ps for row in of_rows),
        fidelity=(run.results.fidelity or None) if isinstance(run, RunJson) else None,
        verified=None if None in verdicts or not verdicts else all(verdicts),
        by_sample=any(samples),
        nbytes=nbytes,
        when=_when(folder / RUN),
        params=run.params if isinstance(run, RunJson) else {},
    )


def telling_params(runs: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Returns for each of *runs*, a benchmark and its parameters, the parameters that differ: `M=64 tile=8x8x8`.

    Parameters that have one value in all runs of a benchmark are left out. A run that lacks a parameter of another one
    differs from it. Where none differ, as in the only run of a benchmark, all that have a value are returned. Runs
    without any parameter, such as interrupted ones, are not compared.
    """
    every = list(runs)
    alike: dict[str, dict[str, str]] = {}
    for benchmark, params in every:
        if params:
            said = {name: value_text(value) for name, value in params.items()}
            known = alike.setdefault(benchmark, said)
            alike[benchmark] = {name: text for name, text in known.items() if said.get(name) == text}
    found = [
        {name: value for name, value in params.items() if name not in alike[benchmark]} for benchmark, params in every
    ]
    telling = {benchmark for (benchmark, _), each in zip(every, found, strict=True) if each}
    for at, (benchmark, params) in enumerate(every):
        if benchmark not in telling:
            found[at] = {name: value for name, value in params.items() if value is not None}
    return [" ".join(f"{name}={value_text(value)}" for name, value in each.items()) for each in found]


def _nbytes(folder: Path) -> int:
    return sum((folder / name).stat().st_size for name in files_of(folder))


def _nbytes_if_plain(folder: Path) -> int:
    """Returns the bytes of the files in *folder*; 0 where it holds anything else than files and folders."""
    try:
        return _nbytes(folder)
    except (RunFolderError, OSError):
        return 0


def _interrupted(folder: Path, nbytes: int) -> ListedRun | None:
    """Returns the interrupted or stuck run in *folder*; None when its progress.json does not say that it is one."""
    progress = read_json(file_in(folder, PROGRESS, RunFolderError), dict[str, object], RunFolderError)
    state = progress.get("state")
    if progress.get("format") != "kernbench-progress" or (state != "interrupted" and state != "stuck"):
        return None
    name = folder.name.removesuffix(INTERRUPTED).rpartition("-")[0]
    when = _when(folder / PROGRESS)
    return ListedRun(folder=str(folder), state=state, benchmark=name, topology="", nbytes=nbytes, when=when)


def _strange_file(folder: Path) -> str:
    """Returns a file of *folder* that its run did not write; "" when there is none.

    An interrupted run does not list its files, so its whole folder is taken for the run's own.
    """
    if folder.name.endswith(INTERRUPTED):
        return ""
    run = read_run(folder)
    if isinstance(run, RunJson):
        return next(iter(extra_files(folder, run.files)), "")
    rows = {row.folder for row in run.rows}
    outside = [name for name in files_of(folder) if name != RUN and name.partition("/")[0] not in rows]
    return next(iter(outside), "") or next(filter(None, (_strange_file(folder / row) for row in sorted(rows))), "")


def _when(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")


def _seconds(when: str) -> float:
    return datetime.fromisoformat(when).timestamp()
