"""Where the time of a finished run went, from its folder, if the folder says so."""

from __future__ import annotations

from pathlib import Path

from kb_cli.run.claims import check_written
from kb_cli.run.files import WHERE
from kb_cli.run.own_log import own_log
from kb_cli.run.run_json import RunJson
from kb_cli.run.where_file import read_where
from kb_dataexec.analysis import Where, where


def where_of(folder: Path, run: RunJson) -> Where | None:
    """Where the time of *run* in *folder* went: from where.json, or from the op log of an older folder.

    None for a run with neither. Raises RunFolderError for a where.json or a log that is not as the run wrote it.
    """
    if WHERE in run.files:
        check_written(folder, run, (WHERE,))
        return read_where(folder)
    return where(own_log(folder, run)) if run.flags.log and run.keep.data else None
