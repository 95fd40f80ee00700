"""Folder: folds the commands of a chip whose tiles come in periods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from kb_engine.block.component import ComponentBase
from kb_engine.block.in_flight import CommandInFlight
from kb_engine.block.pe_roles import Feeding
from kb_engine.fold.folding import LEAST_TILES, Folding
from kb_engine.fold.site import site_of
from kb_engine.observe.by_event import ByEvent, Reasons, WhyNot
from kb_engine.observe.chip import Chip
from kb_engine.observe.recorder import Recorder

_TILES: Final = "tiles of a command"


class Folder:
    """Begins a Folding for each command of *chip* that has many tiles and meets only blocks that can be folded.

    `skipped` counts the tiles that were not simulated so far, and `by_event` says why others were. *reasons* takes what
    is known beforehand.
    """

    def __init__(self, chip: Chip, recorder: Recorder | None, reasons: Reasons) -> None:
        self._chip = chip
        self._recorder = recorder
        self._foldings: list[Folding] = []
        self._rests = False
        self._reasons = reasons

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Within the block, no command begins to be folded."""
        before, self._rests = self._rests, True
        try:
            yield
        finally:
            self._rests = before

    @property
    def skipped(self) -> int:
        """Tiles that were not simulated so far."""
        return sum(each.skipped for each in self._foldings)

    @property
    def by_event(self) -> list[ByEvent]:
        """The commands of which no tile was skipped, although all that they meet can be folded."""
        found = Reasons()
        for each in self._foldings:
            if not each.skipped:
                found.note(_TILES, "", each.why_not, 1)
        return found.found

    def watch(self, blocks: Sequence[ComponentBase[Any]], command: CommandInFlight, feeding: Feeding) -> None:
        """The tiles of *command* will be fed by *feeding*, on the PE of *blocks*."""
        if self._rests or command.shared_plan.n_tiles < LEAST_TILES:
            return
        chip = self._chip
        site = site_of(command, chip.components, blocks, chip.fabric)
        if isinstance(site, WhyNot):
            submitted = command.submitted
            self._reasons.note(_TILES, "", site._replace(line=submitted.line), 1)
            return
        folding = Folding(chip.clock, site, feeding, self._recorder)
        self._foldings.append(folding)
        folding.begin()
