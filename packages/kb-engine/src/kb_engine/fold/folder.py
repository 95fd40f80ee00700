"""Folder: folds the commands of a chip whose tiles come in periods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kb_engine.block.component import ComponentBase
from kb_engine.block.in_flight import CommandInFlight
from kb_engine.block.pe_roles import Feeding
from kb_engine.fold.folding import LEAST_TILES, Folding
from kb_engine.fold.site import site_of
from kb_engine.observe.chip import Chip
from kb_engine.observe.recorder import Recorder


class Folder:
    """Begins a Folding for each command of *chip* that has many tiles and meets only blocks that can be folded.

    `skipped` counts the tiles that were not simulated so far.
    """

    def __init__(self, chip: Chip, recorder: Recorder | None) -> None:
        self._chip = chip
        self._recorder = recorder
        self._foldings: list[Folding] = []
        self._rests = False

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

    def watch(self, blocks: Sequence[ComponentBase[Any]], command: CommandInFlight, feeding: Feeding) -> None:
        """The tiles of *command* will be fed by *feeding*, on the PE of *blocks*."""
        if self._rests or command.shared_plan.n_tiles < LEAST_TILES:
            return
        chip = self._chip
        site = site_of(command, chip.components, blocks, chip.fabric)
        if site is None:
            return
        folding = Folding(chip.clock, site, feeding, self._recorder)
        self._foldings.append(folding)
        folding.begin()
