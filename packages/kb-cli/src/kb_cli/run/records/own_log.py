"""Reads the op log of a run folder, and proves that it is the log of that run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from kb_cli.run.base.files import LOG, RunFolderError
from kb_cli.run.records.run_json import RunJson
from kb_dataexec import OpLog
from kb_dataexec.log import LogFolder

MOST_WHOLE: Final = 1 << 20
"""The largest number of records that is read together although nothing needs that. Source: assumed; 600 MB."""


def own_log(
    folder: Path,
    run: RunJson,
    prefix: bool = False,
    lazy_operands: bool = False,
    look: Callable[[OpLog], object] | None = None,
) -> OpLog:
    """Returns the op log of *run* in *folder*. With *prefix*, a log that was cut off is read as far as it goes.

    *lazy_operands* and *look* are passed to `LogFolder.whole`. Raises RunFolderError for a log with the digest of
    another run, and LogError for a damaged one. A log that was cut off has no digest.
    """
    source = LogFolder(folder / LOG, prefix)
    log = source.whole(lazy_operands, look)
    if source.digest not in (None, run.log_digest):
        got = f"the log of another run, of digest {source.digest}"
        raise RunFolderError(str(folder / LOG), got, f"the run's own, of digest {run.log_digest}", "run it again")
    return log
