"""Pipeline plans: what the blocks of a PE do for one command, tile by tile and stage by stage.

A `PipelinePlan` is parametric: a grid of tiles, and one `StageTemplate` for each stage a tile may have, whose operands
say how their rectangle follows the tile's place in the grid. Tiles are computed when asked for, so that a plan of a
million tiles costs nothing until it is iterated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import overload

from msgspec import Struct

from kb_messages.errors import PlanError
from kb_messages.stages import (
    DmaParams,
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
    def streams(self) -> bool:
        """Whether an operand comes to registers past TCM."""
        return any(stage.to_registers for stage in self.stages)

    @cached_property
    def n_stages(self) -> int:
        """Stage services of the whole plan."""
        m, n, _ = self.grid
        return m * n * sum(self.tiles_with(stage.when) for stage in self.stages)

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
_LANE = 1 << 10
"""Tiles along K whose stages are made at a time."""

_Place = tuple[int, int, int]
_Addressed = tuple[int, int, int]
"""A stage whose rectangle moves with the tile: template number, row dimension, column dimension."""


class TileSequence(Sequence[TilePlan]):
    """The tiles of a plan as a sequence. Stages are shared between the tiles that agree on them."""

    def __init__(self, plan: PipelinePlan) -> None:
        self._plan = plan
        self._kinds: dict[tuple[bool, bool, bool, bool], tuple[Stage | _Addressed, ...]] = {}
        self._known: dict[tuple[int, int, int, int], tuple[int, list[Stage]]] = {}

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
        stages = [lane[0] for lane in self._lanes((m, n, k), k + 1)]
        return TilePlan(position, m, n, k, tuple(stages))

    def __iter__(self) -> Iterator[TilePlan]:
        m_grid, n_grid, k_grid = self._plan.grid
        ends = sorted({1, *range(_LANE, k_grid - 1, _LANE), k_grid - 1, k_grid} - {0})
        tile_id = 0
        for m in range(m_grid):
            for n in range(n_grid):
                k = 0
                for end in ends:
                    for stages in zip(*self._lanes((m, n, k), end), strict=True):
                        yield TilePlan(tile_id, m, n, k, stages)
                        tile_id += 1
                        k += 1

    def _lanes(self, first: _Place, end: int) -> list[list[Stage]]:
        """For each stage of the tiles from *first* to k = *end* (all of one kind): that stage of every tile."""
        lanes = []
        for slot in self._slots(first):
            if isinstance(slot, Stage):
                lanes.append([slot] * (end - first[2]))
            else:
                lanes.append(self._addressed_lane(slot, first, end))
        return lanes

    def _addressed_lane(self, slot: _Addressed, first: _Place, end: int) -> list[Stage]:
        """The lane of *slot*, made anew unless it is known.

        Tiles come in M, N order: a lane that follows M alone serves one row of the grid, one that follows N alone comes
        again in the next row, and one that follows both never comes again.
        """
        number, row, col = slot
        m, n, k = first
        follows_m, follows_n = 0 in (row, col), 1 in (row, col)
        m = m if follows_m else -1
        key = (number, n if follows_n else -1, k, end)
        known_m, lane = self._known.get(key, (-2, []))
        if known_m == m:
            return lane
        template = self._plan.stages[number]
        stage_type, component, to_registers = template.stage_type, template.component, template.to_registers
        lane = [
            Stage(stage_type, component, DmaParams(memory=memory, to_registers=to_registers))
            for memory in rectangles_along_k(memory_side(template), first, end)
        ]
        if not follows_n or (not follows_m and self._plan.grid[0] > 1):
            if len(self._known) * len(lane) >= _MAX_KNOWN_STAGES:
                self._known.clear()
            self._known[key] = m, lane
        return lane

    def _slots(self, place: _Place) -> tuple[Stage | _Addressed, ...]:
        """The stages of a tile at *place*; tiles at the same edges of the grid have the same."""
        m_grid, n_grid, k_grid = self._plan.grid
        m, n, k = place
        kind = (m == m_grid - 1, n == n_grid - 1, k == 0, k == k_grid - 1)
        slots = self._kinds.get(kind)
        if slots is None:
            slots = self._kinds[kind] = tuple(self._slot(number, place) for number in self._plan.stages_at(k))
        return slots

    def _slot(self, number: int, place: _Place) -> Stage | _Addressed:
        template = self._plan.stages[number]
        if template.stage_type in (StageType.DMA_READ, StageType.DMA_WRITE):
            memory = memory_side(template)
            # A side that follows no dimension may as well follow K, by which lanes are told apart in any case.
            row, col = (2 if axis.dimension is None else axis.dimension for axis in (memory.rows, memory.cols))
            return number, row, col
        return Stage(template.stage_type, template.component, stage_params(template, place, self._plan.grid[2]))
