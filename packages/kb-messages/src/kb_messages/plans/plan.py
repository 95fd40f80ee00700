"""Pipeline plans: the work of one command, tile by tile and stage by stage.

A `PipelinePlan` is a grid of tiles and one `StageTemplate` for each stage that a tile may have. The operands of a
template say how their rectangle depends on the place of the tile in the grid. Tiles are computed on demand, so a plan
of a million tiles costs nothing until somebody iterates it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from kb_messages.errors import PlanError
from kb_messages.plans.lifetimes import Lifetime, lifetimes_of
from kb_messages.plans.loop_order import LoopOrder
from kb_messages.plans.movable_tiles import MovableTiles, movable_tiles
from kb_messages.plans.stages import Place, StageTemplate, StageType, TilePlan, When, memory_side, stages_at
from kb_messages.plans.tiles import TileSequence

_MEMORY: Final = Place.MEMORY  # Python 3.11 looks a member of an enumeration up by a call
_FEW_TILES: Final = 64
_MOST_TILES: Final = sys.maxsize
"""Source: the longest sequence that Python can ask for its length."""


class BufferNeeds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bytes that one tile occupies: input and output buffer in TCM, operands and accumulator in registers.

    `panel_nbytes` are those of the panel that tiles share, in the input buffers too: a piece for each tile along K.
    """

    input_nbytes: int = 0
    output_nbytes: int = 0
    register_nbytes: int = 0
    accumulator_nbytes: int = 0
    panel_nbytes: int = 0

    @property
    def least_input_nbytes(self) -> int:
        """The input buffers without which a plan is refused: a tile's, or a panel and those of two tiles beside it.

        With a panel, the other operands of a tile have to arrive while those of the tile before are used: a PE that
        reads and computes in turn loses more than the panel saves.
        """
        return self.panel_nbytes + (2 if self.panel_nbytes else 1) * self.input_nbytes


class HeldSum(NamedTuple):
    """A sum that lies in registers between commands: `nbytes` from `offset` of the register file on.

    It `begins` with a plan that writes the sum first, and `ends` with a plan that releases it.
    """

    offset: int
    nbytes: int
    begins: bool
    ends: bool


class PipelinePlan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """All work of a command: `grid` is (tiles along M, along N, along K). Tiles are in the order of `loop_order`.

    Each tile passes, in this order, through those of the `stages` whose `when` holds for its place. At least one stage
    belongs to every tile; construction raises PlanError otherwise, and for a grid without tiles or with too many.
    """

    kind: str
    grid: tuple[int, int, int]
    stages: tuple[StageTemplate, ...]
    buffers: BufferNeeds
    loop_order: LoopOrder = LoopOrder.MNK

    def __post_init__(self) -> None:
        self._check_grid()
        for stage in self.stages:
            if stage.when is When.EVERY_TILE and not stage.fills_panel:
                return
        raise PlanError(f"{self.kind} plan", "no stage that every tile has", "one, so that every tile does work")

    def _check_grid(self) -> None:
        grid: object = self.grid
        if not (type(grid) is tuple and len(grid) == 3 and type(grid[0]) is type(grid[1]) is type(grid[2]) is int):
            raise PlanError("plan grid", f"a {type(grid).__name__}", "a tuple of three ints")
        m, n, k = grid
        if m < 1 or n < 1 or k < 1:
            raise PlanError("plan grid", "no tile along a side", "at least one along each")
        if m * n * k > _MOST_TILES:
            raise PlanError("plan grid", "more tiles", f"at most {_MOST_TILES}", "use a larger tile")

    @cached_property
    def tiles(self) -> TileSequence:
        """The tiles, computed on demand. The time of `len` and of indexing does not depend on the size."""
        return TileSequence(self.grid, self.stages, self.loop_order)

    @cached_property
    def addresses(self) -> tuple[int, ...]:
        """The address of each operand in memory, in the order of stages and of their operands."""
        return tuple(each.base for stage in self.stages for each in stage.operands if each.place is Place.MEMORY)

    @cached_property
    def address_numbers(self) -> Mapping[tuple[int, int], int]:
        """For each operand in memory, by the numbers of its stage and of the operand, its place in `addresses`."""
        places = [
            (number, at)
            for number, stage in enumerate(self.stages)
            for at, each in enumerate(stage.operands)
            if each.place is Place.MEMORY
        ]
        return {place: at for at, place in enumerate(places)}

    @cached_property
    def transfers(self) -> tuple[tuple[int, int], ...]:
        """The number of each DMA stage, and the place among `addresses` of what it reads or writes.

        A stage that reads constants is not among them. One in pieces has the place of its first piece.
        """
        found = []
        for number, stage in enumerate(self.stages):
            if stage.stage_type in (StageType.DMA_READ, StageType.DMA_WRITE):
                side = memory_side(stage)
                if side.place is _MEMORY:
                    operand = next(n for n, each in enumerate(stage.operands) if each is side)
                    found.append((number, self.address_numbers[number, operand]))
        return tuple(found)

    @cached_property
    def movable_tiles(self) -> MovableTiles | None:
        """The tiles of a plan that has few, which can be had at other addresses; None for many tiles.

        A stage in pieces has operands of its own for each piece, and is at home in its plan alone.
        """
        if self.n_tiles > _FEW_TILES or any(stage.in_pieces for stage in self.stages):
            return None
        if self.origin is not self:
            first = self.origin.movable_tiles
            return None if first is None else first.on(tuple([stage.component for stage in self.stages]))
        return movable_tiles(
            list(self.tiles),
            self.stages,
            lambda tile: self.stages_at(tile.k, self.is_later(tile)),
            {number: (at, self.addresses[at]) for number, at in self.transfers},
        )

    def at(self, addresses: Sequence[int]) -> PipelinePlan:
        """The same plan with operands in memory at *addresses*, in the order of `addresses`."""
        left = iter(addresses)
        stages = tuple(
            replace(
                stage,
                operands=tuple(
                    replace(each, base=next(left)) if each.place is Place.MEMORY else each for each in stage.operands
                ),
            )
            for stage in self.stages
        )
        return replace(self, stages=stages)

    @cached_property
    def origin(self) -> PipelinePlan:
        """The plan that `on` made this one of; by default this plan. The two differ in blocks and addresses alone."""
        return self

    def on(self, pe: str, addresses: Sequence[int]) -> PipelinePlan:
        """The same plan as `at`, on the blocks of *pe*, which have the names of this plan's.

        What follows from neither is known from this plan.
        """
        stages = []
        for stage, block, in_memory in self._movable_stages:
            if in_memory:
                operands = [*stage.operands]
                for at, address in in_memory:
                    operands[at] = replace(operands[at], base=addresses[address])
                stages.append(replace(stage, component=pe + block, operands=tuple(operands)))
            else:
                stages.append(replace(stage, component=pe + block))
        moved = PipelinePlan(
            kind=self.kind, grid=self.grid, stages=tuple(stages), buffers=self.buffers, loop_order=self.loop_order
        )
        vars(moved).update(self._everywhere, addresses=tuple(addresses))
        return moved

    @cached_property
    def _movable_stages(self) -> list[tuple[StageTemplate, str, list[tuple[int, int]]]]:
        """Each stage, the name of its block in a PE after a point, and the numbers of its operands in memory, each
        with the place of its address among `addresses`."""
        in_memory: list[list[tuple[int, int]]] = [[] for _ in self.stages]
        for (number, at), address in self.address_numbers.items():
            in_memory[number].append((at, address))
        blocks = [f".{stage.component.rpartition('.')[2]}" for stage in self.stages]
        return list(zip(self.stages, blocks, in_memory, strict=True))

    @cached_property
    def _everywhere(self) -> Mapping[str, Any]:
        """What is known of this plan on whichever PE, at whichever addresses, by the name of its property."""
        return {name: getattr(self, name) for name in _EVERYWHERE}

    def tiles_at(self, addresses: Sequence[int] | None) -> Sequence[TilePlan]:
        """The tiles with operands in memory at *addresses*, as in `at`. None stands for those of this plan."""
        if self.tiles_anywhere is not None:
            return self.tiles_anywhere
        if addresses is None:
            if self.origin is self or self.movable_tiles is None:
                return self.tiles
            addresses = self.addresses
        if self.movable_tiles is not None:
            return self.movable_tiles.at(addresses)
        return self.at(addresses).tiles if self.has_transfers else self.tiles

    @cached_property
    def tiles_anywhere(self) -> tuple[TilePlan, ...] | None:
        """All tiles, of a plan that has few and no DMA, so that they are the same at all addresses; else None."""
        if self.has_transfers or self.movable_tiles is None:
            return None
        return self.movable_tiles.at(self.addresses)

    @cached_property
    def starts_differ(self) -> bool:
        """Whether not all tiles have the first of the `stages`."""
        first = self.stages[0]
        return first.when is not When.EVERY_TILE or first.fills_panel

    @cached_property
    def reads_to_registers(self) -> bool:
        """Whether a DMA_READ writes registers instead of TCM."""
        return any(stage.to_registers for stage in self.stages)

    @cached_property
    def has_fetches(self) -> bool:
        """Whether tiles are fetched."""
        return any(stage.stage_type is StageType.FETCH for stage in self.stages)

    @cached_property
    def has_transfers(self) -> bool:
        """Whether a stage moves bytes by DMA. Tiles of other plans are alike at all addresses."""
        return any(stage.stage_type in (StageType.DMA_READ, StageType.DMA_WRITE) for stage in self.stages)

    @cached_property
    def n_tiles(self) -> int:
        """Tiles of the grid."""
        m, n, k = self.grid
        return m * n * k

    @property
    def n_every(self) -> int:
        """Stages that every tile has."""
        return sum(stage.when is When.EVERY_TILE and not stage.fills_panel for stage in self.stages)

    @cached_property
    def lifetimes(self) -> Mapping[Place, Lifetime]:
        """From which stage to which a tile holds each place in the PE."""
        return lifetimes_of(self.stages, self.grid[2])

    @cached_property
    def held(self) -> HeldSum | None:
        """The sum in registers that the plan takes over from an earlier command, or leaves for a later one."""
        uses = [each for stage in self.stages for each in stage.operands if each.place is Place.HELD]
        if not uses:
            return None
        first = uses[0]
        nbytes = first.rows.total * first.cols.total * first.dtype.nbytes
        begins = first.role.is_write or first.when is When.LATER_K
        return HeldSum(first.base, nbytes, begins, any(each.release for each in uses))

    @cached_property
    def n_stages(self) -> int:
        """Stage services of all tiles together."""
        return sum(map(self.services_of, self.stages))

    @cached_property
    def served(self) -> tuple[int, ...]:
        """The numbers of the `stages` that tiles have."""
        return tuple([number for number, stage in enumerate(self.stages) if self.services_of(stage)])

    def services_of(self, stage: StageTemplate) -> int:
        """Services of *stage*, of all tiles together."""
        k = self.grid[2]
        tiles = {When.EVERY_TILE: k, When.FIRST_K: 1, When.LAST_K: 1, When.LATER_K: k - 1}
        return tiles[stage.when] * prod(self.sums_with(stage))

    @cached_property
    def has_panels(self) -> bool:
        """Whether tiles share panels, so that tiles behind the first one along the inner loop have fewer stages."""
        return any(stage.fills_panel for stage in self.stages)

    def sums_with(self, stage: StageTemplate) -> tuple[int, int]:
        """The number of places along M and along N whose output tiles have *stage*."""
        m, n, _ = self.grid
        if not stage.fills_panel:
            return m, n
        return self.loop_order.outer_first(self.loop_order.outer_first(m, n)[0], 1)

    def tiles_with(self, *whens: When) -> int:
        """The number of tiles along K for which all of *whens* hold."""
        k_grid = self.grid[2]
        times = {0: 1, k_grid - 1: 1}
        if k_grid > 2:
            times[1] = k_grid - 2  # the tiles between the first and the last have the same stages
        return sum(count for k, count in times.items() if all(when.holds(k, k_grid) for when in whens))

    def stages_at(self, k: int, is_later: bool = False) -> list[int]:
        """The numbers of those `stages` that a tile at *k* along K has.

        *is_later* says that the tile is behind the first one along the inner loop, and so does not fill a panel.
        """
        return stages_at(self.stages, k, self.grid[2], is_later)

    def is_later(self, tile: TilePlan) -> bool:
        """Whether *tile* is behind the first one along the inner loop."""
        return self.loop_order.outer_first(tile.m, tile.n)[1] > 0

    def is_last(self, tile: TilePlan) -> bool:
        """Whether *tile* is the last one along the inner loop, so that it releases its piece of a panel."""
        m, n, _ = self.grid
        return self.loop_order.outer_first(tile.m, tile.n)[1] == self.loop_order.outer_first(m, n)[1] - 1

    def panel_piece(self, tile: TilePlan) -> int:
        """The number of the piece of a panel that *tile* reads, counted over all panels."""
        return self.loop_order.outer_first(tile.m, tile.n)[0] * self.grid[2] + tile.k


_EVERYWHERE: Final = (
    "address_numbers", "has_fetches", "has_panels", "has_transfers", "held", "lifetimes", "n_stages", "n_tiles",
    "origin", "reads_to_registers", "served", "starts_differ", "transfers",
)  # fmt: skip
