"""A run in its folder: simulate, then write what a repetition needs and what it must give."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kb_cli.benchmark.setup import Setup
from kb_cli.run.data import LOG, SHAPES_LIMIT, Policy, checksums, keep
from kb_cli.run.folder import BENCH, FORMAT, FORMAT_VERSION, RUN, TOPOLOGY, WALL, environment, versions, write_json
from kb_cli.run.result import RunResult, make_result
from kb_cli.run.simulate import simulate
from kb_cli.run.trace_file import Trace
from kb_cli.run.verdict import Progress


def record_run(
    folder: tuple[Path, Path],
    setup: Setup,
    policy: Policy,
    left_nbytes: int = SHAPES_LIMIT,
    shape: dict[str, object] | None = None,
    progress: Progress | None = None,
    trace: Trace | None = None,
) -> RunResult:
    """One run, written to the first path of *folder*, which will be called by the second.

    The log streams to the folder, and a killed run leaves it there to be read; a log nobody keeps stays in memory,
    which is cheaper.
    """
    path, final = folder
    path.mkdir(exist_ok=True)
    outcome = simulate(setup, None if policy is Policy.NONE else path / LOG, progress, trace)
    kept = keep(path, outcome, policy, left_nbytes)
    result = make_result(setup, outcome, kept, str(final), shape)
    (path / TOPOLOGY).write_text(setup.topology.source.text, encoding="utf-8")
    (path / BENCH).write_bytes(setup.loaded.source)
    write_json(path / RUN, _run_json(setup, result, outcome.inputs_sha256, checksums(path)))
    write_json(path / WALL, outcome.wall._asdict())
    return result


def identity(setup: Setup) -> dict[str, Any]:
    """What a run is a run of, its parameters apart."""
    return {
        "benchmark": {"name": setup.loaded.name, "file": setup.loaded.label, "sha256": setup.loaded.sha256},
        "topology": {"name": setup.topology.name, "digest": setup.topology.digest},
        "seed": setup.seed,
        "flags": {"verify": setup.verify, "log": setup.log},
        "versions": versions(),
    }


def rows_json(setup: Setup, results: Sequence[RunResult]) -> dict[str, Any]:
    """The run.json above the folders of a shapes run."""
    rows = [
        {"folder": f"{number:04d}", "shape": result.shape, "latency_ps": result.latency_ps, "verified": result.verified}
        for number, result in enumerate(results)
    ]
    return {"format": FORMAT, "version": FORMAT_VERSION, **identity(setup), "environment": environment(), "rows": rows}


def _run_json(setup: Setup, result: RunResult, inputs: dict[str, str], files: dict[str, str]) -> dict[str, Any]:
    """Nothing in it differs from run to run: wall times have a file of their own."""
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
