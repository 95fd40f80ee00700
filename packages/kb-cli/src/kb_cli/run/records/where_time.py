"""`where.json` of a run folder: where the time of the run went. It is written whatever `--keep` says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from kb_cli.run.base.files import WHERE, RunFolderError
from kb_cli.run.records.manifest_check import check_written
from kb_cli.run.records.own_log import own_log
from kb_cli.run.records.run_json import RunJson
from kb_dataexec.analysis import Where, WhereRow, where
from kb_dataexec.files import file_in, read_json, writing

OUTSIDE: Final = ("launch", "answer")
"""The `via` of the rows before the first kernel's start and behind the last one's end."""


def kernel_rows(where: Where) -> Iterator[WhereRow]:
    """Returns the rows of all launch views between the first kernel's start and the last one's end."""
    return (row for launch in where.launches for row in launch.rows if row.via not in OUTSIDE)


def launches_of(where: Where, first: int, end: int) -> Where:
    """Returns the part of *where* that has the launches from number *first* on, without number *end*."""
    return Where(launches=where.launches[first:end], missing=where.missing)


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
    return where(own_log(folder, run)) if run.flags.log and run.keep.has_log else None
