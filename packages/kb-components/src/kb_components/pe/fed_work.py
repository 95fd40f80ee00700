"""FedWork: a command that PE_SCHEDULER has decoded and would begin to feed now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kb_components.pe.submission_queue import SubmissionQueue
from kb_components.pe.tile_feeder import TileFeeder
from kb_engine.block import CommandInFlight, IsolableWork


class FedWork(IsolableWork):
    """The only command of a PE, which waits in *queue* for *feeder*. *complete* is called when the command is done."""

    __slots__ = ("_complete", "_feeder", "_queue", "command")

    def __init__(
        self,
        command: CommandInFlight,
        queue: SubmissionQueue,
        feeder: TileFeeder,
        complete: Callable[[CommandInFlight], None],
    ) -> None:
        self.command = command
        self._queue = queue
        self._feeder = feeder
        self._complete = complete

    def begin(self) -> None:
        """Feeds the command now."""
        self._feeder.wake()

    def place(self) -> None:
        """Takes the command from the queue, and cuts buffers and registers for its tiles.

        The feeder does the same before the first tile. The tiles themselves claim and free nothing.
        """
        command = self._queue.next_decoded()
        assert command is self.command
        self._feeder.place_known(command)

    def cuts(self) -> Any:
        """The present cuts of buffers and registers, and the order of fetches."""
        return self._feeder.cuts()

    def put_back(self, cuts: Any) -> None:
        """Restores *cuts*. The command is decoded again, and has yet to be fed."""
        self._feeder.put_back(cuts)
        self.command.begin_anew()
        self._queue.put_back(self.command)

    def end(self) -> None:
        """Completes the command."""
        self.command.end_isolated()
        self._complete(self.command)
