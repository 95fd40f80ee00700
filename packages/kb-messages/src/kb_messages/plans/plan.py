"""Pipeline plans: the work of one command, tile by tile and stage by stage.

A `PipelinePlan` is a grid of tiles and one `StageTemplate` for each stage that a tile may have. The operands of a
template describe how their rectangle depends on the place of the tile in the grid. Tiles are computed on demand, so a
plan of a million tiles costs nothing until a caller iterates it.
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
"""Source: the length of the longest sequence for which Python's `len` works."""


class BufferNeeds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bytes that one tile occupies: input and output buffer in TCM, operands and accumulator in registers.

    `panel_nbytes` are the bytes of the panel that tiles share, also in the input buffers: a piece for each tile along
    K.
    """

    input_nbytes: int = 0
    output_nbytes: int = 0
    register_nbytes: int = 0
    accumulator_nbytes: int = 0
    panel_nbytes: int = 0

    @property
    def least_input_nbytes(self) -> int:
        """The least bytes of input buffers that a plan needs: one tile's buffer, or a panel and two tiles' buffers.

        With a panel, the other operands of a tile have to arrive while the PE uses the operands of the tile before. A
        PE that reads and computes in turn loses more than the panel saves.
        """
        return self.panel_nbytes + (2 if self.panel_nbytes else 1) * self.input_nbytes


class HeldSum(NamedTuple):
    """A sum that lies in registers between commands: `nbytes` from `offset` of the register file on.

    The plan with `begins` writes the sum first, and the plan with `ends` releases it.
    """

    offset: int
    nbytes: int
    begins: bool
    ends: bool


class PipelinePlan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """All work of a command: `grid` is (tiles along M, along N, along K). Tiles are in the order of `loop_order`.

    A tile passes through the `stages` in their order, and skips each stage whose `when` does not hold for its place. At
    least one stage belongs to every tile. Construction raises PlanError without such a stage, and for a grid that has
    no tiles or too many.
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
        raise PlanError(
            f"{self.kind} plan", "no stage that every tile has", "one such stage, so that every tile does work"
        )

    def _check_grid(self) -> None:
        grid: object = self.grid
        if not (type(grid) is tuple and len(grid) == 3 and type(grid[0]) is type(grid[1]) is type(grid[2]) is int):
            raise PlanError("plan grid", f"a {type(grid).__name__}", "a tuple of three ints")
        m, n, k = grid
        if m < 1 or n < 1 or k < 1:
            raise PlanError("plan grid", f"{m} x {n} x {k} tiles", "at least one along each side")
        if m * n * k > _MOST_TILES:
            raise PlanError("plan grid", f"{m} x {n} x {k} tiles", f"at most {_MOST_TILES} tiles", "use a larger tile")

    @cached_property
    def tiles(self) -> TileSequence:
        """The tiles, computed on demand. `len` and indexing take the same time for a grid of any size."""
        return TileSequence(self.grid, self.stages, self.loop_order)

    @cached_property
    def addresses(self) -> tuple[int, ...]:
        """The address of each operand in memory, in the order of stages and of their operands."""
        return tuple(each.base for stage in self.stages for each in stage.operands if each.place is Place.MEMORY)

    @cached_property
    def address_numbers(self) -> Mapping[tuple[int, int], int]:
        """The index in `addresses` of each operand in memory, by the numbers of its stage and of the operand."""
        places = [
            (number, at)
            for number, stage in enumerate(self.stages)
            for at, each in enumerate(stage.operands)
            if each.place is Place.MEMORY
        ]
        return {place: at for at, place in enumerate(places)}

    @cached_property
    def transfers(self) -> tuple[tuple[int, int], ...]:
        """Returns (number of the stage, index in `addresses` of the bytes that it reads or writes) of each DMA stage.

        A stage that reads constants is left out. A stage in pieces has the index of its first piece.
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
        """The tiles in a form that can be moved to other addresses. None for many tiles, and for a stage in pieces.

        A stage in pieces has operands of its own for each piece, so its tiles belong to its plan alone.
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
        """The same plan with operands in memory at *addresses*, in the order of the property `addresses`."""
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
        """The plan from which `on` made this plan; by default this plan.

        The two differ only in blocks and addresses.
        """
        return self

    def on(self, pe: str, addresses: Sequence[int]) -> PipelinePlan:
        """The same plan on the blocks of *pe* and at *addresses*. The blocks have the same names in both PEs.

        Properties that depend on neither blocks nor addresses are copied from this plan.
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
        """Each stage, the name of its block in a PE after a point, and its operands in memory.

        An operand is a pair: the number of the operand, and the index of its address in `addresses`.
        """
        in_memory: list[list[tuple[int, int]]] = [[] for _ in self.stages]
        for (number, at), address in self.address_numbers.items():
            in_memory[number].append((at, address))
        blocks = [f".{stage.component.rpartition('.')[2]}" for stage in self.stages]
        return list(zip(self.stages, blocks, in_memory, strict=True))

    @cached_property
    def _everywhere(self) -> Mapping[str, Any]:
        """The properties of this plan that hold on any PE and at any addresses, by name."""
        return {name: getattr(self, name) for name in _EVERYWHERE}

    def tiles_at(self, addresses: Sequence[int] | None) -> Sequence[TilePlan]:
        """The tiles with operands in memory at *addresses*, in the order of `addresses`.

        None stands for this plan's addresses.
        """
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
        """All tiles of a plan with few tiles and no DMA, which are the same at all addresses; None for other plans."""
        if self.has_transfers or self.movable_tiles is None:
            return None
        return self.movable_tiles.at(self.addresses)

    @cached_property
    def starts_differ(self) -> bool:
        """Whether some tile does not have the first of the `stages`."""
        first = self.stages[0]
        return first.when is not When.EVERY_TILE or first.fills_panel

    @cached_property
    def reads_to_registers(self) -> bool:
        """Whether a DMA_READ writes registers instead of TCM."""
        return any(stage.to_registers for stage in self.stages)

    @cached_property
    def has_fetches(self) -> bool:
        """Whether a tile has a FETCH."""
        return any(stage.stage_type is StageType.FETCH for stage in self.stages)

    @cached_property
    def has_transfers(self) -> bool:
        """Whether a stage moves bytes by DMA. A plan without DMA has the same tiles at all addresses."""
        return any(stage.stage_type in (StageType.DMA_READ, StageType.DMA_WRITE) for stage in self.stages)

    @cached_property
    def n_tiles(self) -> int:
        """The number of tiles of the grid."""
        m, n, k = self.grid
        return m * n * k

    @cached_property
    def lifetimes(self) -> Mapping[Place, Lifetime]:
        """The lifetime of each place in the PE: the stages from which and to which a tile holds the place."""
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
        """The number of stage services of all tiles together."""
        return sum(map(self.services_of, self.stages))

    @cached_property
    def served(self) -> tuple[int, ...]:
        """The numbers of the `stages` that at least one tile has."""
        return tuple([number for number, stage in enumerate(self.stages) if self.services_of(stage)])

    def services_of(self, stage: StageTemplate) -> int:
        """The number of services of *stage*, of all tiles together."""
        k = self.grid[2]
        tiles = {When.EVERY_TILE: k, When.FIRST_K: 1, When.LAST_K: 1, When.LATER_K: k - 1}
        return tiles[stage.when] * prod(self.sums_with(stage))

    @cached_property
    def has_panels(self) -> bool:
        """Whether tiles share panels. Then tiles behind the first one along the inner loop have fewer stages."""
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
        """The numbers of the `stages` that a tile at *k* along K has.

        With *is_later* the tile is behind the first one along the inner loop, and so does not fill a panel.
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
