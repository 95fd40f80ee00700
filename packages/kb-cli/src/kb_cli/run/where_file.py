"""`where.json` of a run folder: where the time of the run went. It is written whatever `--keep` says."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kb_cli.run.files import WHERE, RunFolderError
from kb_dataexec.analysis import Where
from kb_dataexec.files import file_in, read_json, writing


def write_where(folder: Path, found: Where) -> None:
    """Write *found* to the file of *folder*, in one line."""
    with writing(folder / WHERE):
        (folder / WHERE).write_bytes(msgspec.json.encode(found) + b"\n")


def read_where(folder: Path) -> Where:
    """What `write_where` wrote to *folder*. Raises RunFolderError when the file is not there, or is damaged."""
    if not (folder / WHERE).exists():
        got = f"a run without {WHERE}"
        fix = "run the benchmark again, without --no-log"
        raise RunFolderError(str(folder), got, "where its time went", fix)
    return read_json(file_in(folder, WHERE, RunFolderError), Where, RunFolderError)
