"""`where.json` of a run folder: where the time of the run went. It is written whatever `--keep` says."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kb_cli.run.base.files import WHERE, RunFolderError
from kb_cli.run.records.manifest_check import check_written
from kb_cli.run.records.own_log import own_log
from kb_cli.run.records.run_json import RunJson
from kb_dataexec.analysis import Where, where
from kb_dataexec.files import file_in, read_json, writing


def write_where(folder: Path, found: Where) -> None:
    """Writes *found* to where.json of *folder*, in one line."""
    with writing(folder / WHERE):
        (folder / WHERE).write_bytes(msgspec.json.encode(found) + b"\n")


def read_where(folder: Path) -> Where:
    """Returns the content of where.json of *folder*. Raises RunFolderError when the file is missing or damaged."""
    if not (folder / WHERE).exists():
        got = f"a run without {WHERE}"
        fix = "run the benchmark again, without --no-log"
        raise RunFolderError(str(folder), got, "where its time went", fix)
    return read_json(file_in(folder, WHERE, RunFolderError), Where, RunFolderError)


def where_of(folder: Path, run: RunJson) -> Where | None:
    """Returns where the time of *run* in *folder* went: from where.json, or from the op log of an older folder.

    Returns None for a run with neither. Raises RunFolderError for a where.json or a log that is not as the run wrote
    it.
    """
    if WHERE in run.files:
        check_written(folder, run, (WHERE,))
        return read_where(folder)
    return where(own_log(folder, run)) if run.flags.log and run.keep.data else None
