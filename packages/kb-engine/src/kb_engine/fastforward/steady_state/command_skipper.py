"""CommandSkipper: folds the commands of a chip whose tiles come in periods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from kb_engine.block.component import ComponentBase
from kb_engine.block.in_flight import CommandInFlight
from kb_engine.block.pe_roles import Feeding
from kb_engine.fastforward.steady_state.tile_path import tile_path_of
from kb_engine.fastforward.steady_state.tile_skipper import LEAST_TILES, TileSkipper
from kb_engine.observe.chip import Chip
from kb_engine.observe.recorder import Recorder
from kb_engine.observe.slow_path import SkipRefusal, SlowPathCount, SlowPathReasons

_TILES: Final = "tiles of a command"


class CommandSkipper:
    """Begins a TileSkipper for each command of *chip* that has many tiles and meets only blocks that can be folded.

    `skipped` counts the tiles that were not simulated so far, and `slow_path` says why others were. *reasons* takes
    what is known beforehand.
    """

    def __init__(self, chip: Chip, recorder: Recorder | None, reasons: SlowPathReasons) -> None:
        self._chip = chip
        self._recorder = recorder
        self._foldings: list[TileSkipper] = []
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
    def slow_path(self) -> list[SlowPathCount]:
        """The commands of which no tile was skipped, although all that they meet can be folded."""
        found = SlowPathReasons()
        for each in self._foldings:
            if not each.skipped:
                found.note(_TILES, "", each.why_not, 1)
        return found.found

    def watch(self, blocks: Sequence[ComponentBase[Any]], command: CommandInFlight, feeding: Feeding) -> None:
        """The tiles of *command* will be fed by *feeding*, on the PE of *blocks*."""
        if self._rests or command.shared_plan.n_tiles < LEAST_TILES:
            return
        chip = self._chip
        site = tile_path_of(command, chip.components, blocks, chip.fabric)
        if isinstance(site, SkipRefusal):
            submitted = command.submitted
            self._reasons.note(_TILES, "", site._replace(line=submitted.line), 1)
            return
        folding = TileSkipper(chip.clock, site, feeding, self._recorder)
        self._foldings.append(folding)
        folding.begin()
