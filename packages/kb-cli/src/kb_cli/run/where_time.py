"""Where the time of a finished run went, from where.json of its folder or else from its op log."""

from __future__ import annotations

from pathlib import Path

from kb_cli.run.claims import check_written
from kb_cli.run.data import LOG
from kb_cli.run.files import RunFolderError
from kb_cli.run.run_json import RunJson
from kb_dataexec import read_log
from kb_dataexec.analysis import Where, where
from kb_dataexec.files import file_in, read_json

WHERE = "where.json"


def read_where(folder: Path, run: RunJson) -> Where | None:
    """Where the time of *run* in *folder* went; None for a run without where.json whose log was not kept either."""
    if WHERE in run.files:
        check_written(folder, run, (WHERE,))
        return read_json(file_in(folder, WHERE, RunFolderError), Where, RunFolderError)
    return where(read_log(folder / LOG)) if run.flags.log and run.keep.data else None
