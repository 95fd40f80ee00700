"""TileSkipper: watches one command whose tiles are fed, and skips the periods that repeat a simulated one.

Design: docs/design/steady-state.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeAlias

from kb_dataexec.log.compressed import LogMark
from kb_engine.block.component import ComponentBase
from kb_engine.block.in_flight import CommandInFlight
from kb_engine.block.pe_roles import Feeding
from kb_engine.fastforward.refusals import OTHERS_UNDER_WAY
from kb_engine.fastforward.steady_state.cycle_search import SparseCycleSearch
from kb_engine.fastforward.steady_state.period_skipper import PeriodSkipper
from kb_engine.fastforward.steady_state.tile_kinds import TileKinds
from kb_engine.fastforward.steady_state.tile_path import TilePath, tile_path_of
from kb_engine.fastforward.steady_state.tile_snapshot import TileShift, TileSnapshot
from kb_engine.observe.chip import Chip
from kb_engine.observe.recorder import Recorder
from kb_engine.observe.slow_path import NO_REMEDY, SkipRefusal, SlowPathCount, SlowPathReasons
from kb_engine.program.session import UnderWay
from kb_engine.timing.clock import Clock

LEAST_TILES: Final = 800
"""With fewer tiles a search may cost more than it saves. Source: measured by benchmarks/speed/folding.py."""
_FIRST_SNAPSHOT: Final = 8
_ALONG_K: Final = 12
"""The tile along K from which on snapshots are compared within one output tile. Source: assumed; a pipeline fills."""
_LEAST_SHIFT: Final = 12
_COST_BEGIN, _COST_SNAPSHOT, _COST_SIGNATURE = 60, 45, 4
"""The costs of preparing a search, of a snapshot and of a signature, in simulated stages."""
_SHARE: Final = 20
"""The share of the command's stages that a search may cost, as a divisor."""
_SHARE_OF_GAIN: Final = 4
"""The share of the skipped stages that it may cost in addition, as a divisor."""
_FUTILE: Final = 3
"""The output tiles without a period along K before the search along K ends."""


_Search: TypeAlias = SparseCycleSearch[TileSnapshot]


class TileSkipper(PeriodSkipper[TileSnapshot, TileShift]):
    """Skips tiles of the command of *path*, on *clock*, until something else gets under way beside its launch.

    *recorder* repeats the records, if there is a log.
    """

    def __init__(
        self, clock: Clock, path: TilePath, feeding: Feeding, recorder: Recorder | None, under_way: UnderWay
    ) -> None:
        super().__init__(clock, recorder)
        self._under_way, self._n_begun = under_way, under_way.n_begun
        plan = path.command.shared_plan
        self._path = path
        self._feeding = feeding
        self._kinds = TileKinds(path.command.plan, path.burst_nbytes)
        self._n_tiles = plan.n_tiles
        self._stages_a_tile = plan.n_stages / plan.n_tiles
        self._budget = plan.n_stages / _SHARE
        self._rows, self._outputs, self._depth = _Search(), _Search(), _Search()
        self._k_grid = plan.grid[2]
        self._searches_along_k = self._k_grid >= 2 * _ALONG_K
        self._futile = 0
        self._made = self._output = self._asked = 0
        self._spent = _COST_BEGIN
        self._pause = 1

    @property
    def why_not(self) -> SkipRefusal:
        """The reason why no tile was skipped."""
        cause = "its tiles did not return to an earlier state, or met other transfers"
        return SkipRefusal(cause, NO_REMEDY, self._path.command.submitted.line)

    def begin(self) -> None:
        """Begins the search, before the first tile is made."""
        self._plan_search(_FIRST_SNAPSHOT)

    def _search_period(self, made: int) -> None:
        """Searches a period, between two events, after tile number `made - 1` was made."""
        if self._under_way.n_begun != self._n_begun:
            self._release_records()
            return
        entries = self._clock.few_entries
        if entries is None:
            self._plan_search(made + self._pause)
            self._pause *= 2
            return
        self._made, now = made, self._clock.now_ps
        signature = (*[entry[0] - now for entry in entries], self._kinds.of(made - 1))
        self._spent += _COST_SIGNATURE
        take = partial(self._affordable_snapshot, entries)
        for search in self._searches():
            found = search.find(signature, take, partial(self._may_repeat, search))
            if found is not None:
                made += self._shift(*found, entries)
                search.restart()
                self._futile = 0
                break
        self._plan_search(made)

    def _searches(self) -> list[_Search]:
        """Returns the searches at the planned tile, the one with the longest periods first."""
        if self._kinds.begins_row(self._asked):
            return [self._rows, self._outputs]
        return [self._outputs if self._kinds.begins_output(self._asked) else self._depth]

    def _may_repeat(self, search: _Search, earlier: TileSnapshot) -> bool:
        """Whether the tiles since the *earlier* snapshot of *search* can be repeated, and by enough tiles that come."""
        if self._has_records_since(earlier):
            return self._n_periods(earlier) * (self._made - earlier.made) >= _LEAST_SHIFT
        search.restart()
        return False

    def _n_periods(self, earlier: TileSnapshot) -> int:
        """Returns how many periods follow whose tiles have the kinds of the tiles since the *earlier* snapshot."""
        period = self._made - earlier.made
        return self._kinds.n_periodic(self._made, period) // period

    def _shift(self, before: TileSnapshot, after: TileSnapshot, entries: Sequence[Any]) -> int:
        """Skips the periods that repeat the one from *before* to *after*. Returns the number of their tiles."""
        shift = TileShift(before, after, self._n_periods(before))
        self._move_on(shift, entries)
        self._clock.skip(shift.ps)
        self.skipped += shift.tiles
        return shift.tiles

    def _affordable_snapshot(self, entries: Sequence[Any]) -> TileSnapshot | None:
        """Returns a snapshot, or None where it would cost too much or a part has no snapshot now."""
        if not self._can_afford(_COST_SNAPSHOT):
            return None
        self._spent += _COST_SNAPSHOT
        return self._take_snapshot(entries)

    def _begin_snapshot(self, mark: LogMark | None) -> TileSnapshot:
        return TileSnapshot(self._clock.now_ps, mark, self._next_op, self._path.command, self._made, self._kinds)

    def _visit(self, over: TileSnapshot | TileShift, entries: Sequence[Any]) -> None:
        self._path.visit(over, entries)

    @property
    def _next_op(self) -> int:
        return self._feeding.next_op

    def _can_afford(self, stages: int) -> bool:
        """Whether the search may cost *stages* more."""
        gain = self.skipped * self._stages_a_tile
        return self._spent + stages <= self._budget + gain / _SHARE_OF_GAIN

    def _plan_search(self, made: int) -> None:
        """Plans the next snapshot, when *made* tiles were made."""
        output, k = divmod(made, self._k_grid)
        if output != self._output and self._searches_along_k:
            self._depth.restart()
            self._futile += 1
            self._searches_along_k = self._futile <= _FUTILE
        self._output = output
        tile = made if not k else (output + 1) * self._k_grid
        if self._searches_along_k and k and k + _ALONG_K < self._k_grid:
            tile = max(made, output * self._k_grid + _ALONG_K)
        self._asked = tile
        if tile + _LEAST_SHIFT < self._n_tiles and self._can_afford(_COST_SIGNATURE):
            self._feeding.call_after_tile(tile, self._search_period)
        else:
            self._release_records()


_TILES: Final = "tiles of a command"


class CommandSkipper:
    """Begins a TileSkipper for each command of *chip* with many tiles on blocks that describe their state.

    *reasons* collects the refusals that are known before the first tile. No TileSkipper begins while *under_way* has
    more than one launch.
    """

    def __init__(self, chip: Chip, recorder: Recorder | None, reasons: SlowPathReasons, under_way: UnderWay) -> None:
        self._under_way = under_way
        self._chip = chip
        self._recorder = recorder
        self._skippers: list[TileSkipper] = []
        self._is_paused = False
        self._reasons = reasons

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within the block, no TileSkipper begins."""
        before, self._is_paused = self._is_paused, True
        try:
            yield
        finally:
            self._is_paused = before

    @property
    def skipped(self) -> int:
        """The number of tiles that were not simulated so far."""
        return sum(each.skipped for each in self._skippers)

    @property
    def slow_path(self) -> list[SlowPathCount]:
        """The commands on blocks that describe their state of which no tile was skipped."""
        found = SlowPathReasons()
        for each in self._skippers:
            if not each.skipped:
                found.note(_TILES, "", each.why_not, 1)
        return found.found

    def watch(self, blocks: Sequence[ComponentBase[Any]], command: CommandInFlight, feeding: Feeding) -> None:
        """Begins a search over the tiles of *command*, which *feeding* feeds on the PE of *blocks*."""
        if self._is_paused or command.shared_plan.n_tiles < LEAST_TILES:
            return
        if not self._under_way.is_one:
            self._reasons.note(_TILES, "", OTHERS_UNDER_WAY._replace(line=command.submitted.line), 1)
            return
        chip = self._chip
        path = tile_path_of(command, chip.components, blocks, chip.fabric)
        if isinstance(path, SkipRefusal):
            submitted = command.submitted
            self._reasons.note(_TILES, "", path._replace(line=submitted.line), 1)
            return
        skipper = TileSkipper(chip.clock, path, feeding, self._recorder, self._under_way)
        self._skippers.append(skipper)
        skipper.begin()
