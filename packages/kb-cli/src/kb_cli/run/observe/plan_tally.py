"""Adds up the bytes and the work of all plans that kernels issue, and notes the tiles that the chip chose."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from kb_cli.run.base.result import ChosenTile
from kb_cli.run.observe.block_work import BlockWork
from kb_engine.block import CommandInFlight
from kb_engine.observe import Chip, Observer
from kb_messages import GemmCommand, PipelinePlan, Role, StageType, TileShape, depth_axis
from kb_plans import count

_MOST_COUNTED: Final = 4096


class _Counted:
    """A plan, its counts, and the number of its commands whose work is not added up yet."""

    __slots__ = ("counts", "n", "plan")

    def __init__(self, plan: PipelinePlan) -> None:
        self.plan, self.counts, self.n = plan, count(plan), 0

    def add(self, n: int) -> None:
        """Counts *n* more commands."""
        self.n += n

    def take(self) -> int:
        """Returns the number of commands, which is 0 from then on."""
        n, self.n = self.n, 0
        return n


class PlanTally(Observer):
    """Adds up plans: bytes by stage type, bytes that DMAs stream to registers, multiply-accumulates, the number of tile
    stages, and the least times of blocks.

    Commands that share a plan move equally many bytes, so the plan is counted once.
    """

    def __init__(self) -> None:
        self.nbytes = dict.fromkeys(StageType, 0)
        self.streamed_nbytes = 0
        self.macs = 0
        self.n_stages = 0
        self._counts: dict[int, _Counted] = {}
        self._work: BlockWork | None = None
        self._chosen: dict[tuple[str, TileShape], int] = {}

    def on_built(self, chip: Chip) -> None:
        """Keeps the blocks, which know their full rates."""
        self._work = BlockWork(chip)

    def on_issue(self, command: CommandInFlight) -> None:
        """Adds the plan of *command*."""
        self.on_issue_again(command, 1)

    def on_issue_again(self, command: CommandInFlight, n: int) -> None:
        """Adds the plans of *n* commands like *command*."""
        plan = command.shared_plan
        known = self._counts.get(id(plan))
        if known is None:
            if len(self._counts) >= _MOST_COUNTED:
                self._add_up()
                self._counts.clear()
            known = self._counts[id(plan)] = _Counted(plan)
        known.add(n)
        counts = known.counts
        self.macs += n * counts.macs
        self.n_stages += n * plan.n_stages
        self.streamed_nbytes += n * counts.streamed_nbytes
        for stage_type, nbytes in counts.nbytes.items():
            self.nbytes[stage_type] += n * nbytes
        submitted = command.submitted
        if isinstance(submitted.command, GemmCommand) and submitted.command.tile is None:
            key = submitted.line, _tile_of(plan)
            self._chosen[key] = self._chosen.get(key, 0) + n

    @property
    def least_ps(self) -> Mapping[tuple[str, StageType], Fraction | None]:
        """The least picoseconds of the work of each block by node and stage type, None for a block that knows none."""
        self._add_up()
        return {} if self._work is None else self._work.least_ps

    def _add_up(self) -> None:
        """Adds the work of all commands that are only counted."""
        for each in self._counts.values() if self._work is not None else ():
            n = each.take()
            if n and self._work is not None:
                self._work.add(each.plan, n)

    @property
    def chosen_tiles(self) -> list[ChosenTile]:
        """The tiles of GEMMs that leave their tile open, the tile with the most commands first."""
        found = [ChosenTile(line=line, tile=str(tile), commands=n) for (line, tile), n in self._chosen.items()]
        return sorted(found, key=lambda each: (-each.commands, each.line, each.tile))


def _tile_of(plan: PipelinePlan) -> TileShape:
    """Returns the tile into which *plan*, of a GEMM, cuts the product. Tiles at its edges may be smaller."""
    stage = next(each for each in plan.stages if each.stage_type is StageType.GEMM)
    sides = {each.role: each for each in stage.operands}
    out = sides[Role.OUT]
    return TileShape(out.rows.tile, out.cols.tile, depth_axis(stage.gemm, sides[Role.A]).tile)
