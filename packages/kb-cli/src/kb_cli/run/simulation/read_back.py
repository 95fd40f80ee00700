"""Reads the log of a run back: all rows where something needs them together, otherwise only its digest and sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import click

from kb_cli.benchmark.setup import Setup
from kb_cli.run.base.progress import PASS_2, RunProgress
from kb_cli.run.observe.log_room import WITHOUT_LOG
from kb_cli.run.observe.stage_tally import StageTally
from kb_cli.run.records.own_log import MOST_WHOLE
from kb_dataexec import LargeLogError, LogWriter, OpLog
from kb_dataexec.analysis import NoWindowsError, Where, where, where_in_windows
from kb_dataexec.log import LogFolder, LogParts, LogSummary
from kb_messages import BenchmarkError

Looks: TypeAlias = Sequence[Callable[[OpLog], object]]
"""Functions that are called with each chunk of a log."""

_ALL_ROWS: Final = "All {n_records:,} records of the log are read into memory together to {what}, because {reason}."
_READING, _FOLLOWING = "reading the log", "following the critical path"


class ReadBack(NamedTuple):
    """The log of a run as pass 2 takes it, all of its rows, its digest and counts, the sums of its stages, and its time
    by cause.

    `rows` is None where the log was read in parts. `log` is also None where nothing executes such a log. All are None
    for a run without a log.
    """

    log: LogParts | None = None
    rows: OpLog | None = None
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
    is_whole: bool,
    looks: Looks = (),
) -> ReadBack:
    """Reads the log that a run of *setup* wrote by *writer*: about *n_records* records, in *folder* if it went to one.

    With *is_whole*, something needs all rows together. Each of *looks* is called with each chunk.
    Raises BenchmarkError for rows that take too much memory.
    """
    progress.begin(PASS_2, _READING)
    stages = StageTally()
    if isinstance(closed, LogSummary):
        assert folder is not None, "a summary says that the log went to a folder"
        try:
            if is_whole or n_records <= MOST_WHOLE:
                return _whole(LogFolder(folder), stages, looks, progress)
            return _in_parts(LogFolder(folder), stages, looks, progress, n_records, setup.checks)
        except LargeLogError as error:  # names a folder that is taken away
            raise BenchmarkError(setup.where, f"an op log of {error.got}", error.needs, WITHOUT_LOG) from None
    if closed is None or writer is None:
        return ReadBack()
    for look in (stages.look, *looks):
        look(closed)
    progress.begin(PASS_2, _FOLLOWING)
    return ReadBack(closed, closed, writer.summary, stages.stage_times, where(closed))


def _whole(source: LogFolder, stages: StageTally, looks: Looks, progress: RunProgress) -> ReadBack:
    def look(chunk: OpLog) -> None:
        for each in (stages.look, *looks):
            each(chunk)

    log = source.whole(look=look)
    progress.begin(PASS_2, _FOLLOWING)
    return ReadBack(log, log, source.summary, stages.stage_times, where(log))


def _in_parts(
    source: LogFolder, stages: StageTally, looks: Looks, progress: RunProgress, n_records: int, is_executed: bool
) -> ReadBack:
    counted = _Counted((stages.look, *looks), progress, n_records)
    try:
        found = where_in_windows(source, counted.look, counted.followed)
    except NoWindowsError as error:
        _tell_all_rows(source, "follow the critical path", f"a part of the log has {error}")
        progress.begin(PASS_2, _FOLLOWING)
        found = where(source.whole())
    log: LogParts | None = source.by_command() if is_executed else None
    if is_executed and log is None:
        _tell_all_rows(source, "compute the data", "the log has records that do not follow from whole commands")
        log = source.whole()
    return ReadBack(log, None, source.summary, stages.stage_times, found)


def _tell_all_rows(source: LogFolder, what: str, reason: str) -> None:
    click.echo(_ALL_ROWS.format(n_records=source.summary.n_ops, what=what, reason=reason), err=True)


class _Counted:
    """Passes the chunks of a log of about *n_records* records to *looks*, and reports to *progress*."""

    def __init__(self, looks: Looks, progress: RunProgress, n_records: int) -> None:
        self._looks, self._progress, self._n_records = looks, progress, n_records
        self._n_read = 0

    def look(self, chunk: OpLog) -> None:
        """Takes *chunk*, the next one of the log."""
        for look in self._looks:
            look(chunk)
        self._n_read += chunk.n_ops
        self._progress.count(self._n_read, max(self._n_read, self._n_records))

    def followed(self, n_records: int) -> None:
        """Notes that paths are followed through *n_records* records."""
        if not n_records:
            self._progress.begin(PASS_2, _FOLLOWING)
        self._progress.count(n_records, self._n_read)
