"""Refuses a run whose op log would not fit the memory of this machine, as soon as its commands say so."""

from __future__ import annotations

from typing import Final

from kb_cli.benchmark.machine_memory import available_nbytes
from kb_cli.benchmark.setup import Setup
from kb_engine.block import CommandInFlight
from kb_engine.observe import Observer
from kb_messages import BenchmarkError

WITHOUT_LOG: Final = "run with --no-log for the time alone, or choose smaller sizes"
"""What works where a log is too large."""

RECORD_NBYTES: Final = 600
"""Memory that a record takes when the log is read and followed for where the time went. Source: measured on products of
one million records on one PE and on eight; their check takes more."""


class LogRoom(Observer):
    """Counts the stages of issued commands of *setup*, each of which is a record of the log.

    A run of very many records would be simulated and written to disk, and would find at its end that nobody can read
    its log.
    """

    def __init__(self, setup: Setup) -> None:
        self._where = setup.where
        self._nbytes = available_nbytes()
        self._n_records = 0

    def on_issue(self, command: CommandInFlight) -> None:
        """As `Observer.on_issue`. Raises BenchmarkError when the records take more memory than this machine has left.

        A system that does not tell how much memory is left has no limit.
        """
        self._n_records += command.shared_plan.n_stages
        if self._nbytes is not None and self._n_records * RECORD_NBYTES > self._nbytes:
            left = f"{self._nbytes / 2**30:.1f} GiB of memory that this machine has left"
            got = f"{self._n_records:,} records of the op log or more"
            needs = f"at most the {self._nbytes // RECORD_NBYTES:,} that fit the {left}"
            raise BenchmarkError(self._where, got, needs, WITHOUT_LOG)
