"""One of two runs that are compared, read from its folder. No code of the folder is run."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kb_cli.run.base.files import BENCH, TOPOLOGY, RunFolderError
from kb_cli.run.records.manifest_check import check_written
from kb_cli.run.records.run_json import RunJson, read_one_run
from kb_cli.run.records.where_time import where_of
from kb_dataexec.analysis import Where
from kb_dataexec.files import file_in, read_bytes
from kb_topology import Topology, load_topology


class Side(NamedTuple):
    """A run: its folder, run.json, chip, benchmark source, and its time by cause, if its folder has it."""

    folder: Path
    run: RunJson
    topology: Topology
    source: list[str]
    where: Where | None


def read_side(folder: Path) -> Side:
    """Returns the run in *folder*.

    Raises RunFolderError when it is the folder of no run or of several, or has other bytes than the run wrote.
    """
    run = read_one_run(folder)
    check_written(folder, run, (BENCH, TOPOLOGY))
    source = read_bytes(file_in(folder, BENCH, RunFolderError), RunFolderError).decode("utf-8", "replace")
    topology = load_topology(file_in(folder, TOPOLOGY, RunFolderError))
    return Side(folder, run, topology, source.splitlines(), where_of(folder, run))
