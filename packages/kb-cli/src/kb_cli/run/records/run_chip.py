"""The chip of a finished run, read from its folder."""

from __future__ import annotations

from pathlib import Path

from kb_cli.run.base.files import RUN, TOPOLOGY, RunFolderError
from kb_cli.run.records.manifest_check import check_written
from kb_cli.run.records.run_json import RunJson
from kb_dataexec.files import file_in
from kb_topology import Topology, load_topology


def chip_of(folder: Path, run: RunJson) -> Topology:
    """Returns the chip of *run*, the run in *folder*. Raises RunFolderError for another chip than the run's."""
    check_written(folder, run, (TOPOLOGY,))
    topology = load_topology(file_in(folder, TOPOLOGY, RunFolderError))
    if topology.digest != run.topology.digest:
        got = f"a chip with digest {topology.digest[:12]}"
        raise RunFolderError(str(folder / TOPOLOGY), got, f"{run.topology.digest[:12]}, as {RUN} says")
    return topology
