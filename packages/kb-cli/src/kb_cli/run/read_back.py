"""What a run finds in its own log: all rows where something needs them together, else their digest and sums."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import click

from kb_cli.benchmark.setup import Setup
from kb_cli.run.log_room import WITHOUT_LOG
from kb_cli.run.progress import PASS_2, RunProgress
from kb_cli.run.stage_tally import StageTally
from kb_dataexec import LargeLogError, LogWriter, OpLog
from kb_dataexec.analysis import NoWindowsError, Where, where, where_in_windows
from kb_dataexec.log import LogFolder, LogSummary
from kb_messages import BenchmarkError

MOST_WHOLE: Final = 1 << 20
"""Records that are read together although nothing needs that. Source: assumed; 600 MB."""
_ALL_ROWS: Final = (
    "All {n_records:,} records of the log are read into memory together to follow the critical path, because a part of "
    "the log has {reason}."
)
_READING, _FOLLOWING = "reading the log", "following the critical path"


class ReadBack(NamedTuple):
    """The log of a run, if it was read whole; its digest and counts, the sums of its stages, and where its time went.

    All are None for a run without a log.
    """

    log: OpLog | None = None
    summary: LogSummary | None = None
    stage_times: dict[str, dict[str, int]] | None = None
    where: Where | None = None


def read_back(
    setup: Setup,
    writer: LogWriter | None,
    closed: OpLog | LogSummary | None,
    folder: Path | None,
    progress: RunProgress,
    n_records: int,
) -> ReadBack:
    """What a run of *setup* wrote by *writer*, about *n_records* records; where the log went to *folder*, from there.

    Raises BenchmarkError for a log whose rows are needed together and take too much memory.
    """
    progress.begin(PASS_2, _READING)
    stages = StageTally()
    if isinstance(closed, LogSummary):
        assert folder is not None, "a summary says that the log went to a folder"
        try:
            if setup.needs_rows or n_records <= MOST_WHOLE:
                return _whole(LogFolder(folder), stages, progress)
            return _in_windows(LogFolder(folder), stages, progress, n_records)
        except LargeLogError as error:  # names a folder that is taken away
            raise BenchmarkError(setup.where, f"an op log of {error.got}", error.needs, WITHOUT_LOG) from None
    if closed is None or writer is None:
        return ReadBack()
    stages.look(closed)
    progress.begin(PASS_2, _FOLLOWING)
    return ReadBack(closed, writer.summary, stages.stage_times, where(closed))


def _whole(source: LogFolder, stages: StageTally, progress: RunProgress) -> ReadBack:
    log = source.whole(look=stages.look)
    progress.begin(PASS_2, _FOLLOWING)
    return ReadBack(log, source.summary, stages.stage_times, where(log))


def _in_windows(source: LogFolder, stages: StageTally, progress: RunProgress, n_records: int) -> ReadBack:
    counted = _Counted(stages, progress, n_records)
    try:
        found = where_in_windows(source, counted.look, counted.followed)
    except NoWindowsError as error:
        click.echo(_ALL_ROWS.format(n_records=source.summary.n_ops, reason=error), err=True)
        progress.begin(PASS_2, _FOLLOWING)
        found = where(source.whole())
    return ReadBack(None, source.summary, stages.stage_times, found)


class _Counted:
    """Shows *stages* the chunks of a log of about *n_records* records, and tells *progress* how far the log is read,
    and then followed."""

    def __init__(self, stages: StageTally, progress: RunProgress, n_records: int) -> None:
        self._stages, self._progress, self._n_records = stages, progress, n_records
        self._n_read = 0

    def look(self, chunk: OpLog) -> None:
        """*chunk* is the next one of the log."""
        self._stages.look(chunk)
        self._n_read += chunk.n_ops
        self._progress.count(self._n_read, max(self._n_read, self._n_records))

    def followed(self, n_records: int) -> None:
        """Paths are followed through so many records."""
        if not n_records:
            self._progress.begin(PASS_2, _FOLLOWING)
        self._progress.count(n_records, self._n_read)
