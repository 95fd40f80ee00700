"""Refuses a run whose op log would not fit the memory of this machine, as soon as its commands prove it."""

from __future__ import annotations

from typing import Final

from kb_cli.benchmark.setup import Setup
from kb_dataexec.files import available_nbytes
from kb_engine.block import CommandInFlight
from kb_engine.observe import Observer
from kb_messages import BenchmarkError

WITHOUT_LOG: Final = "run with --no-log for the time alone, or choose smaller sizes"
"""Advice for a run whose log is too large."""

READ_IN_PARTS: Final = (
    "run with --no-verify, or with --verify sample where the benchmark states products(), which read the log in parts, "
    "or with --no-log, or choose smaller sizes"
)
"""Advice for a run whose log is too large to be read as a whole, which the verification needs."""

RECORD_NBYTES: Final = 600
"""Bytes of memory for a record when the whole log is read and followed. Source: measured on products of one million
records on one PE and on eight; their check takes more."""
COMMAND_NBYTES: Final = 2048
"""Bytes of memory for a command when the log is read in parts. Source: assumed; a command of a softmax takes 1.4 kB
until its rows are made."""


class LogRoom(Observer):
    """Counts the stages of all commands, each of which becomes a record of the op log of *setup*.

    Without this check, a run of very many records would be simulated and written to disk, and nobody could read its
    log. A log that is *on_disk* and not *is_whole* is read in parts, so only its commands need memory.
    """

    def __init__(self, setup: Setup, on_disk: bool, is_whole: bool) -> None:
        self._where = setup.where
        self._nbytes = available_nbytes()
        self._in_parts = on_disk and not is_whole
        needs_rows_for_more = setup.compute or setup.sanitize
        self._fix = READ_IN_PARTS if on_disk and setup.checks and not needs_rows_for_more else WITHOUT_LOG
        self._n = 0

    def on_issue(self, command: CommandInFlight) -> None:
        """Counts *command*. Raises BenchmarkError when the log takes more memory than this machine has left.

        There is no limit on a system that does not publish its free memory.
        """
        self.on_issue_again(command, 1)

    def on_issue_again(self, command: CommandInFlight, n: int) -> None:
        """Counts *n* commands like *command*. Raises BenchmarkError when the log takes too much memory."""
        self._n += n if self._in_parts else n * command.shared_plan.n_stages
        each_nbytes = COMMAND_NBYTES if self._in_parts else RECORD_NBYTES
        if self._nbytes is not None and self._n * each_nbytes > self._nbytes:
            what = "commands" if self._in_parts else "records"
            left = f"{self._nbytes / 2**30:.1f} GiB of memory that this machine has left"
            got = f"{self._n:,} {what} of the op log or more"
            needs = f"at most the {self._nbytes // each_nbytes:,} that fit the {left}"
            raise BenchmarkError(self._where, got, needs, self._fix)
