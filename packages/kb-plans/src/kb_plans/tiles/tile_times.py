"""The times of a plan's tiles. Tiles of one kind have the same stages and the same sizes, so one stands for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import accumulate, product
from typing import Final, NamedTuple

from msgspec import Struct

from kb_messages import (
    OFFSET_BITS,
    Axis,
    DmaParams,
    PipelinePlan,
    Place,
    PlanError,
    Rectangle,
    Role,
    StageParams,
    StageTemplate,
    StageType,
    When,
    memory_side,
    stage_params,
)

_DMA: Final = (StageType.DMA_READ, StageType.DMA_WRITE)
_COMPUTES: Final = (StageType.GEMM, StageType.MATH)


class StageTime(NamedTuple):
    """The time of a stage that runs alone, and the time for which it keeps the next stage of its type waiting.

    The two, `alone_ps` and `holds_ps`, differ where a block serves several tokens at a time. `memory_ps` is the time
    for which a transfer occupies the memory behind the fabric, which reads and writes share.
    """

    alone_ps: int
    holds_ps: int
    memory_ps: int = 0


class TileCosts(Struct, frozen=True, kw_only=True):
    """The costs of a PE. `stage_time` is a pure function from the type and the parameters of a stage to its time.

    The `memory` of a DMA stage lies at the beginning of the whole operand. `turns` are groups of types whose stages
    take turns at one port or slot.
    """

    stage_time: Callable[[StageType, StageParams], StageTime]
    turns: tuple[tuple[StageType, ...], ...] = (
        (StageType.FETCH, StageType.STORE),
        (StageType.GEMM, StageType.MATH),
    )

    def time(self, stage_type: StageType, params: StageParams) -> StageTime:
        """The result of `stage_time`. Raises PlanError unless it is a StageTime of integers of at least 0."""
        found = self.stage_time(stage_type, params)
        if type(found) is not StageTime or not all(type(each) is int and each >= 0 for each in found):
            needs = "a StageTime of picoseconds as int, each at least 0"
            raise PlanError(f"stage_time of {stage_type.name}", repr(found), needs)
        return found


class StageSpans(NamedTuple):
    """The spans in which a tile holds places: indices of its stages, found by the types of the stages."""

    types: tuple[StageType, ...]
    claims: int
    fetched: int
    multiplies: int
    computed: int
    stored: int

    @classmethod
    def of(cls, types: tuple[StageType, ...], claimed: StageType | None) -> StageSpans:
        """The spans of a tile with stages of *types*, in order.

        The last stage of type *claimed* claims the registers.
        """

        def behind(*which: StageType) -> int:
            return max((at + 1 for at, each in enumerate(types) if each in which), default=0)

        return cls(
            types,
            max(behind(claimed) - 1, 0) if claimed is not None else 0,
            behind(StageType.FETCH),
            max(behind(StageType.GEMM) - 1, 0),
            behind(*_COMPUTES),
            behind(StageType.STORE),
        )


class TileKind(NamedTuple):
    """`n_tiles` tiles whose stages take the same `times`. `ends[i]` is the time of the first *i* stages together."""

    n_tiles: int
    layout: StageSpans
    times: tuple[StageTime, ...]
    ends: tuple[int, ...]

    def span_ps(self, begin: int, end: int) -> int:
        """The time of the stages from *begin* up to, and without, *end*, when nothing else is under way."""
        return self.ends[end] - self.ends[begin]

    @property
    def total_ps(self) -> int:
        """The time of all stages."""
        return self.ends[-1]


class SumKind(NamedTuple):
    """`n_sums` output tiles at the same edges of the grid, and the kinds of their tiles along K, in order.

    `outer` and `inner` are the place of the first of these output tiles in the two outer loops.
    """

    outer: int
    inner: int
    n_sums: int
    tiles: list[TileKind]


class TileTimes:
    """The kinds of tiles of *plan* at *costs*. `shares_memory` is true when its reads and writes meet in a memory."""

    def __init__(self, plan: PipelinePlan, costs: TileCosts) -> None:
        self.plan = plan
        self.costs = costs
        self._known: dict[tuple[int, int, int, int], StageTime] = {}
        self._layouts: dict[tuple[int, bool], tuple[list[int], StageSpans]] = {}
        self._follows = [[_axis(stage, dimension) is not None for dimension in (0, 1)] for stage in plan.stages]
        ragged_k = self._is_ragged(2)
        self._last_differs = [ragged_k and _axis(stage, 2) is not None for stage in plan.stages]
        self.shares_memory = _share_memory(plan)
        self._all_differ = [any(each.when is not When.EVERY_TILE for each in stage.operands) for stage in plan.stages]

    @cached_property
    def sums(self) -> list[SumKind]:
        """The kinds of output tiles, in the order of their first tiles."""
        return list(self._sums())

    def least_ps(self) -> int:
        """A lower bound of the latency: the time of the busiest channel or of the memory for tiles of full size.

        It is cheap.
        """
        m_grid, n_grid = self.plan.grid[:2]
        # A side of one tile is not ragged, because no tile is longer than its side.
        full = m_grid - self._is_ragged(0), n_grid - self._is_ragged(1)
        outer, inner = self.plan.loop_order.outer_first(*full)
        first = 1 if self.plan.has_panels else inner
        places = [(outer * first, (0, 0))]
        if first < inner:
            places.append((outer * (inner - 1), self.plan.loop_order.outer_first(0, 1)))
        held = [0] * len(StageType)
        memory_ps = 0
        for n_sums, (m, n) in places:
            for k, count in self._spans_of_k().items():
                kind = self._kind(n_sums * count, (m, n, k))
                for stage_type, time in zip(kind.layout.types, kind.times, strict=True):
                    held[stage_type] += kind.n_tiles * time.holds_ps
                    memory_ps += kind.n_tiles * time.memory_ps
        return max(*held, memory_ps if self.shares_memory else 0)

    def _sums(self) -> Iterator[SumKind]:
        m_grid, n_grid = self.plan.grid[:2]
        spans = self._spans_of_k()
        order = self.plan.loop_order
        ends = order.outer_first(_ends(m_grid, self._is_ragged(0)), _ends(n_grid, self._is_ragged(1)))
        inner_ends = _first_apart(ends[1]) if self.plan.has_panels else ends[1]
        for (outer, outer_count), (inner, inner_count) in product(ends[0], inner_ends):
            count = outer_count * inner_count
            m, n = order.outer_first(outer, inner)
            tiles = [self._kind(count * k_count, (m, n, k)) for k, k_count in spans.items()]
            yield SumKind(outer, inner, count, tiles)

    def _spans_of_k(self) -> dict[int, int]:
        """The first place along K of each kind of tile, and the number of tiles of that kind: first, between, last."""
        k_grid = self.plan.grid[2]
        return {0: 1, k_grid - 1: 1} if k_grid < 3 else {0: 1, 1: k_grid - 2, k_grid - 1: 1}

    def _kind(self, count: int, place: tuple[int, int, int]) -> TileKind:
        k = place[2]
        is_later = self.plan.has_panels and self.plan.loop_order.outer_first(*place[:2])[1] > 0
        known = self._layouts.get((k, is_later))
        if known is None:
            numbers = self.plan.stages_at(k, is_later)
            registers = self.plan.lifetimes.get(Place.REGISTERS)
            types = tuple(self.plan.stages[at].stage_type for at in numbers)
            known = self._layouts[k, is_later] = (
                numbers,
                StageSpans.of(types, None if registers is None else registers.claimed),
            )
        numbers, layout = known
        times = tuple(self._time(at, place) for at in numbers)
        return TileKind(count, layout, times, tuple(accumulate((time.alone_ps for time in times), initial=0)))

    def _is_ragged(self, dimension: int) -> bool:
        side = next((side for stage in self.plan.stages if (side := _axis(stage, dimension)) is not None), None)
        return side is not None and side.total % side.tile != 0

    def _time(self, at: int, place: tuple[int, int, int]) -> StageTime:
        """The time of stage *at* for the tile at *place*. All tiles of the same sizes have the same time."""
        m, n, k = place
        follows_m, follows_n = self._follows[at]
        if not self._all_differ[at]:
            k = int(self._last_differs[at] and k == self.plan.grid[2] - 1)
        key = at, m if follows_m else 0, n if follows_n else 0, k
        time = self._known.get(key)
        if time is None:
            stage = self.plan.stages[at]
            params = _dma_params(stage, place) if stage.stage_type in _DMA else self._params(stage, place)
            time = self._known[key] = self.costs.time(stage.stage_type, params)
        return time

    def _params(self, stage: StageTemplate, place: tuple[int, int, int]) -> StageParams:
        return stage_params(stage, place, self.plan.grid[2])


def _dma_params(stage: StageTemplate, place: tuple[int, int, int]) -> DmaParams:
    side = memory_side(stage)
    rows, cols = side.rows.extent(side.rows.index(place)), side.cols.extent(side.cols.index(place))
    return DmaParams(Rectangle(side.base, rows, cols * side.dtype.nbytes, side.stride), stage.to_registers)


def _axis(stage: StageTemplate, dimension: int) -> Axis | None:
    """A side, cut along *dimension*, of an operand of *stage*."""
    for operand in stage.operands:
        if operand.rows.dimension == dimension:
            return operand.rows
        if operand.cols.dimension == dimension:
            return operand.cols
    return None


def _ends(count: int, ragged: bool) -> list[tuple[int, int]]:
    """Places along a side with other sizes than the place before, and the number of places that have these sizes."""
    return [(0, count - 1), (count - 1, 1)] if ragged and count > 1 else [(0, count)]


def _first_apart(ends: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """*ends* with the first place by itself, because its tiles fill panels."""
    (_, count), *rest = ends
    return [(0, 1), (1, count - 1), *rest] if count > 1 else ends


def _share_memory(plan: PipelinePlan) -> bool:
    """Whether a stage of *plan* reads from the memory that another stage writes to."""
    read, written = (
        {
            operand.base >> OFFSET_BITS
            for stage in plan.stages
            if stage.stage_type is stage_type
            for operand in stage.operands
            if operand.role is role
        }
        for stage_type, role in ((StageType.DMA_READ, Role.SRC), (StageType.DMA_WRITE, Role.DST))
    )
    return not read.isdisjoint(written)
