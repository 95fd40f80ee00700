"""The tiles of a plan, computed on demand.

A plan may have millions of tiles, and each tile has a `Stage` for each of its stages. Equal stages are made once. A
stage that is no DMA depends only on whether its tile lies at an edge of the grid. A DMA stage comes again in later rows
or columns of the grid where its rectangle does not depend on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise, repeat
from typing import NamedTuple, overload

from kb_messages.plans.loop_order import LoopOrder
from kb_messages.plans.stages import (
    DmaParams,
    OperandTemplate,
    Stage,
    StageTemplate,
    StageType,
    TilePlan,
    When,
    memory_side,
    pieces_params,
    rectangle,
    rectangles_along_k,
    stage_params,
    stages_at,
)

_MAX_KNOWN_STAGES = 1 << 16

_Place = tuple[int, int, int]


class _Moving(NamedTuple):
    """A DMA stage, whose rectangle in memory moves with the tile.

    `again` means that the rectangle comes to the same places again. A rectangle that follows only the outermost loop, M
    or N, is at the same places in each turn of the loop within. A rectangle that follows only the loop within is at the
    same places in each turn of the outermost loop. A rectangle that follows both is nowhere twice.
    """

    number: int
    stage_type: StageType
    component: str
    memory: OperandTemplate
    to_registers: bool
    follows_outer: bool
    follows_inner: bool
    again: bool
    end: int
    """The place along K after the last tile that has the stage."""

    def stages(self, first: _Place, end: int) -> Iterator[Stage]:
        """The stages of the tiles from *first* up to, and without, k = *end*."""
        params = map(DmaParams, rectangles_along_k(self.memory, first, end), repeat(self.to_registers))
        return map(Stage, repeat(self.stage_type), repeat(self.component), params)


class TileSequence(Sequence[TilePlan]):
    """The tiles of a plan. Tiles share equal stages, except DMA stages whose rectangle does not come again.

    *grid*, *stages* and *loop_order* are the fields of a PipelinePlan.
    """

    def __init__(
        self, grid: tuple[int, int, int], stages: tuple[StageTemplate, ...], loop_order: LoopOrder = LoopOrder.MNK
    ) -> None:
        self._grid, self._templates, self._order = grid, stages, loop_order
        self._kinds: dict[tuple[bool, bool, bool, bool, bool], tuple[Stage | _Moving, ...]] = {}
        self._known: dict[tuple[int, int], tuple[int, list[Stage]]] = {}
        self._stages: dict[Stage, Stage] = {}
        self._ragged = self._is_ragged(0), self._is_ragged(1)
        self._has_panels = any(stage.fills_panel for stage in stages)

    def __len__(self) -> int:
        m, n, k = self._grid
        return m * n * k

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
        m_grid, n_grid, k_grid = self._grid
        mn, k = divmod(position, k_grid)
        m, n = self._order.outer_first(*divmod(mn, self._order.outer_first(m_grid, n_grid)[1]))
        place = m, n, k
        slots = self._slots(place)
        stages = (slot if isinstance(slot, Stage) else next(slot.stages(place, k + 1)) for slot in slots)
        return TilePlan(position, m, n, k, tuple(stages))

    def __iter__(self) -> Iterator[TilePlan]:
        """The tiles in order."""
        return self._from_output(0)

    def starting_at(self, first: int) -> Iterator[TilePlan]:
        """The tiles from number *first* on, in order."""
        output, k = divmod(first, self._grid[2])
        tiles = self._from_output(output)
        return islice(tiles, k, None) if k else tiles

    def _from_output(self, first: int) -> Iterator[TilePlan]:
        """The tiles from the first one of output tile *first* on.

        A lane continues from one span of K to the next, so each of its stages is used.
        """
        m_grid, n_grid, k_grid = self._grid
        # Only the first and the last tile along K can have other stages than their neighbours.
        cuts = sorted({0, 1, k_grid - 1, k_grid})
        spans = list(pairwise(cuts))  # of k, where all tiles have the same stages
        inner_grid = self._order.outer_first(m_grid, n_grid)[1]
        for output in range(first, m_grid * n_grid):
            m, n = self._order.outer_first(*divmod(output, inner_grid))
            tile_id = output * k_grid
            lanes: dict[int, Iterator[Stage]] = {}
            for start, end in spans:
                # Lanes of equal stages never end, so the range of k ends each span.
                tiles = zip(*self._lanes(lanes, (m, n, start)), strict=False)
                for k, stages in zip(range(start, end), tiles, strict=False):
                    yield TilePlan(tile_id, m, n, k, stages)
                    tile_id += 1

    def _is_ragged(self, dimension: int) -> bool:
        """Whether the last tile along a dimension of the grid is smaller than the others."""
        cuts = self._grid[dimension]
        sides = (
            side for stage in self._templates for operand in stage.operands for side in (operand.rows, operand.cols)
        )
        return any(side.dimension == dimension and side.total != cuts * side.tile for side in sides)

    def _lanes(self, lanes: dict[int, Iterator[Stage]], first: _Place) -> Iterator[Iterator[Stage]]:
        """The lane of each stage of the tile at *first*.

        A lane yields the stage of that tile and of the next tiles along K.

        *lanes* keeps the lanes of DMA stages by the number of the stage, and a lane that is there continues.
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
        """The stages of *slot* from *first* on along K. Stages that come again are kept."""
        k_grid = self._grid[2]
        if not slot.again or k_grid > _MAX_KNOWN_STAGES:
            return slot.stages(first, slot.end)
        outer, inner = self._order.outer_first(*first[:2])
        at, key = outer if slot.follows_outer else -1, (slot.number, inner if slot.follows_inner else -1)
        # -2 is no place, and -1 stands for "any place of the outer loop".
        known_at, known = self._known.get(key, (-2, []))
        if known_at != at:
            if len(self._known) * k_grid >= _MAX_KNOWN_STAGES:
                self._known.clear()
            known = list(slot.stages(first, slot.end))
            self._known[key] = at, known
        return iter(known)

    def _slots(self, place: _Place) -> tuple[Stage | _Moving, ...]:
        """The stages of the tile at *place*. Tiles at the same ragged edges of the grid have the same stages.

        Where tiles share panels, the first tiles along the inner loop have more stages.
        """
        m_grid, n_grid, k_grid = self._grid
        m, n, k = place
        ragged_m, ragged_n = self._ragged
        is_later = self._has_panels and self._order.outer_first(m, n)[1] > 0
        kind = (ragged_m and m == m_grid - 1, ragged_n and n == n_grid - 1, k == 0, k == k_grid - 1, is_later)
        slots = self._kinds.get(kind)
        if slots is None:
            slots = self._kinds[kind] = tuple(
                self._slot(number, place) for number in stages_at(self._templates, k, k_grid, is_later)
            )
        return slots

    def _slot(self, number: int, place: _Place) -> Stage | _Moving:
        template = self._templates[number]
        stage_type, component = template.stage_type, template.component
        if stage_type not in (StageType.DMA_READ, StageType.DMA_WRITE):
            stage = Stage(stage_type, component, stage_params(template, place, self._grid[2]))
            return self._stages.setdefault(stage, stage)
        if template.math is not None:
            params = DmaParams(rectangle(memory_side(template), place), atomic=True)
            return Stage(stage_type, component, params)
        if template.in_pieces:
            return Stage(stage_type, component, pieces_params(template))
        m_grid, n_grid, k_grid = self._grid
        memory = memory_side(template)
        follows_m, follows_n = (memory.follows(dimension) for dimension in (0, 1))
        again = (not follows_n and n_grid > 1) or (not follows_m and m_grid > 1)
        again = again and not template.fills_panel
        end = 1 if template.when is When.FIRST_K else k_grid
        follows = self._order.outer_first(follows_m, follows_n)
        return _Moving(number, stage_type, component, memory, template.to_registers, *follows, again, end)


def tiles_from(tiles: Sequence[TilePlan], first: int) -> Iterator[TilePlan]:
    """The *tiles* of a plan from number *first* on, in order."""
    return tiles.starting_at(first) if isinstance(tiles, TileSequence) else islice(tiles, first, None)
