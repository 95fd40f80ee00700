"""Pipeline plans: what the blocks of a PE do for one command, tile by tile and stage by stage.

A `PipelinePlan` is parametric: a grid of tiles, and one `StageTemplate` for each stage a tile may have, whose operands
say how their rectangle follows the tile's place in the grid. Tiles are computed when asked for, so that a plan of a
million tiles costs nothing until it is iterated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise, repeat
from typing import NamedTuple, overload

from msgspec import Struct

from kb_messages.errors import PlanError
from kb_messages.lifetimes import Lifetime, lifetimes_of
from kb_messages.stages import (
    DmaParams,
    OperandTemplate,
    Place,
    Stage,
    StageTemplate,
    StageType,
    TilePlan,
    When,
    memory_side,
    rectangles_along_k,
    stage_params,
)


class BufferNeeds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bytes one tile occupies: TCM input and output buffer, register operands, register accumulator."""

    input_nbytes: int = 0
    output_nbytes: int = 0
    register_nbytes: int = 0
    accumulator_nbytes: int = 0


class PipelinePlan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """A command's whole work: `grid` tiles in M, N, K order (K innermost), each with the `stages` its place asks for.

    A tile passes through its stages in their order here. One of them at least is every tile's; construction raises
    PlanError otherwise.
    """

    kind: str
    grid: tuple[int, int, int]
    stages: tuple[StageTemplate, ...]
    buffers: BufferNeeds

    def __post_init__(self) -> None:
        if not self.n_every:
            raise PlanError(f"{self.kind} plan", "no stage that every tile has", "one, so that every tile does work")

    @cached_property
    def tiles(self) -> TileSequence:
        """The tiles, computed on demand; `len` and indexing cost the same for any size."""
        return TileSequence(self)

    @property
    def n_tiles(self) -> int:
        """Tiles of the grid."""
        m, n, k = self.grid
        return m * n * k

    @property
    def n_every(self) -> int:
        """Stages that every tile has."""
        return sum(stage.when is When.EVERY_TILE for stage in self.stages)

    @cached_property
    def lifetimes(self) -> dict[Place, Lifetime]:
        """From which stage to which a tile holds each place in the PE."""
        return lifetimes_of(self.stages, self.grid[2])

    @cached_property
    def n_stages(self) -> int:
        """Stage services of the whole plan."""
        m, n, k = self.grid
        tiles = {When.EVERY_TILE: k, When.FIRST_K: 1, When.LAST_K: 1, When.LATER_K: k - 1}
        return m * n * sum(tiles[stage.when] for stage in self.stages)

    def is_ragged(self, dimension: int) -> bool:
        """Whether the last tile along a dimension of the grid is smaller than the others."""
        cuts = self.grid[dimension]
        sides = (side for stage in self.stages for operand in stage.operands for side in (operand.rows, operand.cols))
        return any(side.dimension == dimension and side.total != cuts * side.tile for side in sides)

    def tiles_with(self, *whens: When) -> int:
        """How many of the tiles along K all of *whens* hold for."""
        k_grid = self.grid[2]
        times = {0: 1, k_grid - 1: 1}
        if k_grid > 2:
            times[1] = k_grid - 2  # those between the first and the last are alike
        return sum(count for k, count in times.items() if all(when.holds(k, k_grid) for when in whens))

    def stages_at(self, k: int) -> list[int]:
        """Which of `stages` a tile at *k* along K has."""
        k_grid = self.grid[2]
        return [number for number, stage in enumerate(self.stages) if stage.when.holds(k, k_grid)]


_MAX_KNOWN_STAGES = 1 << 16

_Place = tuple[int, int, int]


class _Moving(NamedTuple):
    """A DMA stage, whose rectangle in memory moves with the tile; `again` says that it comes to the same places again.

    Tiles come in M, N order: what follows M alone does so in the next columns of its row of the grid, what follows N
    alone in the next rows, and what follows both never does.
    """

    number: int
    stage_type: StageType
    component: str
    memory: OperandTemplate
    to_registers: bool
    follows_m: bool
    follows_n: bool
    again: bool
    end: int
    """Behind the last tile along K that has it."""

    def stages(self, first: _Place, end: int) -> Iterator[Stage]:
        """Those of the tiles from *first* to k = *end*."""
        params = map(DmaParams, rectangles_along_k(self.memory, first, end), repeat(self.to_registers))
        return map(Stage, repeat(self.stage_type), repeat(self.component), params)


class TileSequence(Sequence[TilePlan]):
    """The tiles of a plan as a sequence. Stages are shared between tiles that agree on them, but for DMA stages whose
    rectangle does not come again.
    """

    def __init__(self, plan: PipelinePlan) -> None:
        self._plan = plan
        self._kinds: dict[tuple[bool, bool, bool, bool], tuple[Stage | _Moving, ...]] = {}
        self._known: dict[tuple[int, int], tuple[int, list[Stage]]] = {}
        self._stages: dict[Stage, Stage] = {}
        self._ragged = plan.is_ragged(0), plan.is_ragged(1)

    def __len__(self) -> int:
        return self._plan.n_tiles

    @overload
    def __getitem__(self, index: int) -> TilePlan: ...
    @overload
    def __getitem__(self, index: slice) -> list[TilePlan]: ...
    def __getitem__(self, index: int | slice) -> TilePlan | list[TilePlan]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"tile {index} of a plan of {len(self)}")
        _, n_grid, k_grid = self._plan.grid
        mn, k = divmod(position, k_grid)
        m, n = divmod(mn, n_grid)
        place = m, n, k
        slots = self._slots(place)
        stages = (slot if isinstance(slot, Stage) else next(slot.stages(place, k + 1)) for slot in slots)
        return TilePlan(position, m, n, k, tuple(stages))

    def __iter__(self) -> Iterator[TilePlan]:
        """The tiles in order. A lane goes on from one span of K to the next, so nothing is taken from it in vain."""
        m_grid, n_grid, k_grid = self._plan.grid
        cuts = sorted({0, 1, k_grid - 1, k_grid})
        spans = list(pairwise(cuts))  # of k, where all tiles have the same stages
        tile_id = 0
        for m in range(m_grid):
            for n in range(n_grid):
                lanes: dict[int, Iterator[Stage]] = {}
                for first, end in spans:
                    tiles = zip(*self._lanes(lanes, (m, n, first)), strict=False)
                    for k, stages in zip(range(first, end), tiles, strict=False):
                        yield TilePlan(tile_id, m, n, k, stages)
                        tile_id += 1

    def _lanes(self, lanes: dict[int, Iterator[Stage]], first: _Place) -> Iterator[Iterator[Stage]]:
        """For each stage of the tile at *first*: that stage of it and of the tiles after it along K.

        Those of a stage that moves go on where they were left; *lanes* has them by the stage's number.
        """
        for slot in self._slots(first):
            if isinstance(slot, Stage):
                yield repeat(slot)
                continue
            lane = lanes.get(slot.number)
            if lane is None:
                lane = lanes[slot.number] = self._lane(slot, first)
            yield lane

    def _lane(self, slot: _Moving, first: _Place) -> Iterator[Stage]:
        """The stages of *slot* from *first* on along K; kept where they come again, made one by one elsewhere."""
        k_grid = self._plan.grid[2]
        if not slot.again or k_grid > _MAX_KNOWN_STAGES:
            return slot.stages(first, slot.end)
        m, key = first[0] if slot.follows_m else -1, (slot.number, first[1] if slot.follows_n else -1)
        known_m, known = self._known.get(key, (-2, []))
        if known_m != m:
            if len(self._known) * k_grid >= _MAX_KNOWN_STAGES:
                self._known.clear()
            known = list(slot.stages(first, slot.end))
            self._known[key] = m, known
        return iter(known)

    def _slots(self, place: _Place) -> tuple[Stage | _Moving, ...]:
        """The stages of a tile at *place*; tiles at the same ragged edges of the grid have the same."""
        m_grid, n_grid, k_grid = self._plan.grid
        m, n, k = place
        ragged_m, ragged_n = self._ragged
        kind = (ragged_m and m == m_grid - 1, ragged_n and n == n_grid - 1, k == 0, k == k_grid - 1)
        slots = self._kinds.get(kind)
        if slots is None:
            slots = self._kinds[kind] = tuple(self._slot(number, place) for number in self._plan.stages_at(k))
        return slots

    def _slot(self, number: int, place: _Place) -> Stage | _Moving:
        template = self._plan.stages[number]
        stage_type, component = template.stage_type, template.component
        if stage_type not in (StageType.DMA_READ, StageType.DMA_WRITE):
            stage = Stage(stage_type, component, stage_params(template, place, self._plan.grid[2]))
            return self._stages.setdefault(stage, stage)
        m_grid, n_grid, k_grid = self._plan.grid
        memory = memory_side(template)
        follows_m, follows_n = (memory.follows(dimension) for dimension in (0, 1))
        again = (not follows_n and n_grid > 1) or (not follows_m and m_grid > 1)
        end = 1 if template.when is When.FIRST_K else k_grid
        return _Moving(number, stage_type, component, memory, template.to_registers, follows_m, follows_n, again, end)
