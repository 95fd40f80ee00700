"""TileSkipper: watches one command whose tiles are fed, and jumps over the periods that repeat one that was
simulated."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kb_engine.block.pe_roles import Feeding
from kb_engine.block.state_visitor import NotPeriodic
from kb_engine.fastforward.steady_state.cycle_search import Signature, TileCycleSearch
from kb_engine.fastforward.steady_state.tile_kinds import TileKinds
from kb_engine.fastforward.steady_state.tile_path import TilePath
from kb_engine.fastforward.steady_state.tile_shift import TileShift
from kb_engine.fastforward.steady_state.tile_snapshot import TileSnapshot
from kb_engine.observe.recorder import Recorder
from kb_engine.observe.slow_path import NO_REMEDY, SkipRefusal
from kb_engine.timing.clock import Clock

LEAST_TILES: Final = 800
"""Tiles below which a search may cost more than it saves. Source: measured by benchmarks/speed/folding.py."""
_FIRST_LOOK: Final = 8
_ALONG_K: Final = 12
"""The tile along K from which on looks compare tiles of one output tile. Source: assumed; a pipeline fills before."""
_LEAST_JUMP: Final = 12
_COST_BEGIN, _COST_LOOK, _COST_GLANCE = 60, 45, 4
"""Stages that take as long as preparing, as a look at a whole state, and as one at the times of events."""
_SHARE: Final = 20
"""The search may cost one part in so many of the stages of the command, and no more if it finds nothing."""
_SHARE_OF_GAIN: Final = 4
"""And one part in so many of the stages that were skipped."""
_FUTILE: Final = 3
"""Output tiles along which nothing was found, before looks along K end."""


class TileSkipper:
    """The folding of the tiles of one command at *site*, on *clock*. Records are repeated by *recorder*, if any."""

    def __init__(self, clock: Clock, site: TilePath, feeding: Feeding, recorder: Recorder | None) -> None:
        plan = site.command.shared_plan
        self._clock = clock
        self._site = site
        self._feeding = feeding
        self._recorder = recorder
        self._kinds = TileKinds(site.command.plan, site.burst_nbytes)
        self._n_tiles = plan.n_tiles
        self._stages_a_tile = plan.n_stages / plan.n_tiles
        self._budget = plan.n_stages / _SHARE
        self._rows, self._outputs, self._depth = TileCycleSearch(), TileCycleSearch(), TileCycleSearch()
        self._k_grid = plan.grid[2]
        self._looks_along_k = self._k_grid >= 2 * _ALONG_K
        self._futile = 0
        self._output = self._asked = 0
        self._spent = _COST_BEGIN
        self._skipped = 0
        self._pause = 1
        self._holds = False

    @property
    def skipped(self) -> int:
        """Tiles that were not simulated."""
        return self._skipped

    @property
    def why_not(self) -> SkipRefusal:
        """Why no tile was skipped."""
        cause = "its tiles did not come into a state in which they were before, or others met them"
        return SkipRefusal(cause, NO_REMEDY, self._site.command.submitted.line)

    def begin(self) -> None:
        """The first tile is made next."""
        self._look_next(_FIRST_LOOK)

    def _look(self, made: int) -> None:
        """Between two events: tile number `made - 1` was made in the event before."""
        entries = self._clock.few_entries
        if entries is None:
            self._look_next(made + self._pause)
            self._pause *= 2
            return
        now = self._clock.now_ps
        signature = (*[entry[0] - now for entry in entries], self._kinds.of(made - 1))
        self._spent += _COST_GLANCE
        take = partial(self._take, made, entries)
        for search in self._searches():
            jump = self._compare(search, signature, made, entries)
            if jump is not None:
                search.restart()
                made += jump.tiles
                self._futile = 0
                break
            search.passes(signature, take)
        self._look_next(made)

    def _searches(self) -> list[TileCycleSearch]:
        """The searches that look after the tile that was asked for, the one with the longest jumps first."""
        if self._kinds.begins_row(self._asked):
            return [self._rows, self._outputs]
        return [self._outputs if self._kinds.begins_output(self._asked) else self._depth]

    def _compare(
        self, search: TileCycleSearch, signature: Signature, made: int, entries: list[Any]
    ) -> TileShift | None:
        """The jump that was made from here, if the state is that of the look that *search* keeps."""
        kept = search.earlier(signature)
        if kept is None:
            return None
        n_ops = self._feeding.next_op - kept.next_op
        if (
            self._recorder is not None
            and kept.mark is not None
            and not self._recorder.rows.can_repeat(kept.mark, n_ops)
        ):
            search.restart()
            return None
        period = made - kept.made
        n = self._kinds.alike(made, period) // period
        if n * period < _LEAST_JUMP:
            return None
        look = self._take(made, entries)
        if look is None:
            return None
        if look.parts != kept.parts:
            search.false_alarm(look)
            return None
        return self._jump(kept, look, n, entries)

    def _jump(self, before: TileSnapshot, after: TileSnapshot, n: int, entries: list[Any]) -> TileShift:
        jump = TileShift(before, after, n)
        self._site.visit(jump, entries)
        if self._recorder is not None and before.mark is not None:
            shift = after.now_ps - before.now_ps, after.next_op - before.next_op
            self._recorder.repeat(before.mark, n, *shift)
        self._clock.skip(jump.ps)
        self._skipped += jump.tiles
        return jump

    def _take(self, made: int, entries: list[Any]) -> TileSnapshot | None:
        """The whole state now. None where it would cost too much, or where something cannot be folded now."""
        if not self._can_afford(_COST_LOOK):
            return None
        self._spent += _COST_LOOK
        recorder = self._recorder
        if recorder is not None and not self._holds:
            recorder.hold()
            self._holds = True
        mark = recorder.rows.mark() if recorder is not None else None
        look = TileSnapshot(self._clock.now_ps, self._site.command, made, self._feeding.next_op, self._kinds, mark)
        try:
            self._site.visit(look, entries)
        except NotPeriodic:
            return None
        return look

    def _can_afford(self, stages: int) -> bool:
        """Whether the search may cost so many *stages* more."""
        gain = self._skipped * self._stages_a_tile
        return self._spent + stages <= self._budget + gain / _SHARE_OF_GAIN

    def _look_next(self, made: int) -> None:
        """Ask for the next look, when *made* tiles were made."""
        output, k = divmod(made, self._k_grid)
        if output != self._output and self._looks_along_k:
            self._depth.restart()
            self._futile += 1
            self._looks_along_k = self._futile <= _FUTILE
        self._output = output
        tile = made if not k else (output + 1) * self._k_grid
        if self._looks_along_k and k and k + _ALONG_K < self._k_grid:
            tile = max(made, output * self._k_grid + _ALONG_K)
        self._asked = tile
        if tile + _LEAST_JUMP < self._n_tiles and self._can_afford(_COST_GLANCE):
            self._feeding.call_after_tile(tile, self._look)
        elif self._recorder is not None and self._holds:
            self._recorder.let_go()
