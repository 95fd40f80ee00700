"""Refuses a run whose op log would not fit the memory of this machine, as soon as its commands say so."""

from __future__ import annotations

from typing import Final

from kb_cli.benchmark.code.machine_memory import available_nbytes
from kb_cli.benchmark.setup import Setup
from kb_engine.block import CommandInFlight
from kb_engine.observe import Observer
from kb_messages import BenchmarkError

WITHOUT_LOG: Final = "run with --no-log for the time alone, or choose smaller sizes"
"""What works where a log is too large."""

READ_IN_PARTS: Final = (
    "run with --no-verify, or with --verify sample where the benchmark states products(), which read the log in parts, "
    "or with --no-log, or choose smaller sizes"
)
"""What works where the rows of a log are needed together to verify."""

RECORD_NBYTES: Final = 600
"""Memory that a record takes when the log is read and followed for where the time went. Source: measured on products of
one million records on one PE and on eight; their check takes more."""
COMMAND_NBYTES: Final = 2048
"""Memory that a command takes when the log is read in parts. Source: assumed; a command of a softmax takes 1.4 kB until
its rows are made."""


class LogRoom(Observer):
    """Counts what the op log of *setup* has for each command that is issued: its stages, each of which is a record.

    A run of very many records would be simulated and written to disk, and would find at its end that nobody can read
    its log. Where the log is *on_disk* and not *is_whole*, because nothing needs its rows together, commands are all
    that is in memory.
    """

    def __init__(self, setup: Setup, on_disk: bool, is_whole: bool) -> None:
        self._where = setup.where
        self._nbytes = available_nbytes()
        self._in_parts = on_disk and not is_whole
        needs_rows_for_more = setup.compute or setup.sanitize
        self._fix = READ_IN_PARTS if on_disk and setup.checks and not needs_rows_for_more else WITHOUT_LOG
        self._n = 0

    def on_issue(self, command: CommandInFlight) -> None:
        """As `Observer.on_issue`. Raises BenchmarkError when the log takes more memory than this machine has left.

        A system that does not tell how much memory is left has no limit.
        """
        self.on_issue_again(command, 1)

    def on_issue_again(self, command: CommandInFlight, n: int) -> None:
        """As `Observer.on_issue_again`. Raises as `on_issue`."""
        self._n += n if self._in_parts else n * command.shared_plan.n_stages
        each_nbytes = COMMAND_NBYTES if self._in_parts else RECORD_NBYTES
        if self._nbytes is not None and self._n * each_nbytes > self._nbytes:
            what = "commands" if self._in_parts else "records"
            left = f"{self._nbytes / 2**30:.1f} GiB of memory that this machine has left"
            got = f"{self._n:,} {what} of the op log or more"
            needs = f"at most the {self._nbytes // each_nbytes:,} that fit the {left}"
            raise BenchmarkError(self._where, got, needs, self._fix)
