"""Where the time of a finished run went, from where.json of its folder."""

from __future__ import annotations

from pathlib import Path

from kb_cli.run.claims import check_written
from kb_cli.run.files import RunFolderError
from kb_cli.run.run_json import RunJson
from kb_dataexec.analysis import Where
from kb_dataexec.files import file_in, read_json

WHERE = "where.json"


def read_where(folder: Path, run: RunJson) -> Where | None:
    """Where the time of *run* in *folder* went; None for a run without where.json, such as one without a log."""
    if WHERE not in run.files:
        return None
    check_written(folder, run, (WHERE,))
    return read_json(file_in(folder, WHERE, RunFolderError), Where, RunFolderError)
