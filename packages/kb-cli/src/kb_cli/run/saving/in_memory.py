"""A finished run in memory, as a reader of its folder would find it."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kb_cli.benchmark.setup import Setup
from kb_cli.run.records.run_json import RunJson
from kb_cli.run.saving.save import Finished, run_fields
from kb_dataexec import OpLog
from kb_dataexec.analysis import Where
from kb_topology import Topology


class RunInMemory(NamedTuple):
    """What a folder has of a run. `source` is the text of the benchmark, and `beside` has those of files beside it.

    `log` is None for a run without results.
    """

    run: RunJson
    where: Where
    source: str
    beside: dict[str, str]
    topology: Topology
    log: OpLog | None


def run_in_memory(setup: Setup, finished: Finished) -> RunInMemory:
    """Returns the run *finished* of *setup*, which had a log. Its run.json lists no files, and has no hash."""
    result, outcome = finished
    fields = {**run_fields(setup, result, outcome.inputs_sha256, {}), "sha256": ""}
    run = msgspec.json.decode(msgspec.json.encode(fields), type=RunJson)
    assert outcome.where is not None, "the run had a log"
    log = None if outcome.computed is None else outcome.computed.log
    source, beside = _text(setup.loaded.source), {name: _text(each) for name, each in setup.loaded.beside.items()}
    return RunInMemory(run, outcome.where, source, beside, setup.topology, log)


def _text(source: bytes) -> str:
    return source.decode("utf-8", "backslashreplace")
