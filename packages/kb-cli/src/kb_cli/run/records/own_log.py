"""The op log of a run folder, if it is the one that the run wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from kb_cli.run.base.files import LOG, RunFolderError
from kb_cli.run.records.run_json import RunJson
from kb_dataexec import OpLog
from kb_dataexec.log import LogFolder

MOST_WHOLE: Final = 1 << 20
"""Records of a log that are read together although nothing needs that. Source: assumed; 600 MB."""


def own_log(
    folder: Path,
    run: RunJson,
    prefix: bool = False,
    lazy_operands: bool = False,
    look: Callable[[OpLog], object] | None = None,
) -> OpLog:
    """The op log of *run* in *folder*. With *prefix*, one that was cut off is read as far as it goes.

    *lazy_operands* and *look* are those of `LogFolder.whole`. Raises RunFolderError for the log of another run, which
    the digest tells, and LogError for a damaged one. A log that was cut off has no digest.
    """
    source = LogFolder(folder / LOG, prefix)
    log = source.whole(lazy_operands, look)
    if source.digest not in (None, run.log_digest):
        got = f"the log of another run, of digest {source.digest}"
        raise RunFolderError(str(folder / LOG), got, f"the run's own, of digest {run.log_digest}", "run it again")
    return log
