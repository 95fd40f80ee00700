"""How long a plan takes on a PE, in closed form: what each resource has to do, and how the rest overlaps it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from kb_messages import OFFSET_BITS, PipelinePlan, PlanError, Role, StageType
from kb_plans.room import TileRoom
from kb_plans.tile_times import SumKind, TileCosts, TileKind, TileTimes


class Estimate(Struct, frozen=True, kw_only=True):
    """`latency_ps` from the first stage to the last, and the resource that it is `bound_by`.

    `busy_ps` says, by resource, for how long tiles hold it; where several tiles hold a resource at a time (buffers,
    registers), the time is divided by their number.
    """

    latency_ps: int
    bound_by: str
    busy_ps: dict[str, int]


class _Use(NamedTuple):
    """How long a resource is held in all, what comes before the first holder, and what behind the last one."""

    held_ps: int
    before_ps: int
    after_ps: int

    @property
    def latency_ps(self) -> int:
        return self.before_ps + self.held_ps + self.after_ps


def estimate(plan: PipelinePlan, room: TileRoom, costs: TileCosts) -> Estimate:
    """The time of *plan* on a PE with *room* for tiles and with *costs*. Its own time does not depend on the tiles.

    A resource is held for the sum of what its tiles take, behind those stages of the first tile that come before, and
    before those of the last tile that come after. The resource with the longest sum bounds the plan, and all others
    overlap it. Resources are channels and ports, and the places that a limited number of tiles hold at a time: input
    buffers from the first stage to FETCH, output buffers to the end, operand registers from their first stage to the
    last GEMM or MATH, accumulators from the first FETCH of a sum to its STORE.

    Tiles at ragged edges may be bound by another resource than the rest. Where more of them follow each other than
    buffers hold, each part takes the time of its own bound.

    Raises PlanError for a plan of which not even one tile fits, and for anything but a plan, room and costs.
    """
    for value, kind in ((plan, PipelinePlan), (room, TileRoom), (costs, TileCosts)):
        if not isinstance(value, kind):
            raise PlanError("estimate", f"a value of type {type(value).__name__}", f"a {kind.__name__}")
    if not room.holds(plan.buffers, 1):
        raise PlanError("estimate", "a plan of which no tile fits the room", "a smaller tile", "see TileRoom.holds")
    return Estimator(TileTimes(plan, costs), room).estimate()


class Estimator:
    """Adds up what the tiles of one plan hold. *times* are those of the plan, on a PE with *room* for tiles."""

    def __init__(self, times: TileTimes, room: TileRoom) -> None:
        self._plan = plan = times.plan
        self._sums = times.sums
        self._names = _names(plan, times.costs)
        fit = room.at_once(plan.buffers)
        self._n_inputs, self._n_outputs = fit.input or 0, fit.output or 0
        self._n_registers, self._n_sums = fit.registers or 0, fit.accumulators or 0
        self._one_memory = _share_memory(plan)
        self._wait_ps = self._write_wait_ps = 0  # of a read for all writes, and for one

    def estimate(self) -> Estimate:
        """As the function of this name says."""
        parts = [self._uses(part) for part in self._parts()]
        names = list(parts[0])
        whole = {
            name: _Use(sum(part[name].held_ps for part in parts), parts[0][name].before_ps, parts[-1][name].after_ps)
            for name in names
        }
        bound_by = max(names, key=lambda name: whole[name].latency_ps)
        bounds = [max(part.values(), key=lambda use: use.held_ps) for part in parts]
        in_turn = bounds[0].before_ps + sum(bound.held_ps for bound in bounds) + bounds[-1].after_ps
        return Estimate(
            latency_ps=max(whole[bound_by].latency_ps, in_turn),
            bound_by=bound_by,
            busy_ps={name: use.held_ps for name, use in whole.items()},
        )

    def _parts(self) -> list[list[SumKind]]:
        """The kinds of output tiles, together where the buffers hold more tiles than there are of a kind in a row."""
        m_grid, n_grid, k_grid = self._plan.grid
        inner_grid = self._plan.loop_order.outer_first(m_grid, n_grid)[1]
        parts: dict[tuple[int, int], list[SumKind]] = {}
        for each in self._sums:
            key = (
                each.outer if inner_grid * k_grid > self._n_inputs else 0,
                each.inner if k_grid > self._n_inputs else 0,
            )
            parts.setdefault(key, []).append(each)
        return list(parts.values())

    def _uses(self, sums: list[SumKind]) -> dict[str, _Use]:
        first, last = sums[0].tiles[0], sums[-1].tiles[-1]
        uses = {}
        before_ps = self._before_write_ps() if sums[0] is self._sums[0] else 0
        for name, held_ps in self._stages((kind for each in sums for kind in each.tiles), before_ps).items():
            uses[name] = _Use(held_ps, self._before_ps(name, sums[0]), self._after_ps(name, last))
        return uses | self._places(sums, first, last)

    def _stages(self, kinds: Iterable[TileKind], before_ps: int) -> dict[str, int]:
        """What stages hold. A write to the memory that is read keeps the next read waiting, but for its latency.

        The reads in the *before_ps* before the first write wait for none, and no read comes behind the last write. The
        last write comes behind all reads.
        """
        held = dict.fromkeys(self._names.values(), 0)
        memory_ps = waited_ps = n_writes = n_reads = gaps_ps = 0
        for kind in kinds:
            for stage_type, time in zip(kind.layout.types, kind.times, strict=True):
                held[self._names[stage_type]] += kind.n_tiles * time.holds_ps
                memory_ps += kind.n_tiles * time.memory_ps
                if stage_type is StageType.DMA_WRITE:
                    waited_ps += kind.n_tiles * time.memory_ps
                    n_writes += kind.n_tiles
                elif stage_type is StageType.DMA_READ:
                    gaps_ps += kind.n_tiles * (time.holds_ps - time.memory_ps)
                    n_reads += kind.n_tiles
        if self._one_memory and n_reads:
            reads_ps = max(1, held[self._names[StageType.DMA_READ]])
            meeting_ps = max(0, reads_ps - before_ps)
            self._write_wait_ps = max(0, waited_ps // max(1, n_writes) - gaps_ps // n_reads)
            waits_ps = max(0, waited_ps - n_writes * gaps_ps // n_reads) * max(0, n_writes - 1) // max(1, n_writes)
            waits_ps = waits_ps * meeting_ps // reads_ps
            held[self._names[StageType.DMA_READ]] += waits_ps
            held[self._names[StageType.DMA_WRITE]] += (memory_ps - waited_ps) * meeting_ps // reads_ps
            held["memory"] = memory_ps
            self._wait_ps = waits_ps // n_reads
        return held

    def _before_write_ps(self) -> int:
        """When the first write begins: behind the reads of its sum, and the other stages of its tile."""
        tile = self._sums[0].tiles[-1]
        return _reads_ps(self._sums[0]) + tile.ends[tile.layout.stored]

    def _waits_ps(self, kind: TileKind) -> int:
        """What the reads of a tile wait for writes."""
        return self._wait_ps * kind.layout.types.count(StageType.DMA_READ)

    def _before_ps(self, name: str, each: SumKind) -> int:
        """From the begin of the first output tile, *each*, to the first stage that holds the resource *name*."""
        for tile in (each.tiles[0], each.tiles[-1]):
            for at, stage_type in enumerate(tile.layout.types):
                if self._names[stage_type] == name:
                    return tile.ends[at] + (0 if tile is each.tiles[0] else _reads_ps(each))
        return 0

    def _after_ps(self, name: str, last: TileKind) -> int:
        """What comes behind the last stage of *last* that holds the resource *name*."""
        held = [at + 1 for at, each in enumerate(last.layout.types) if self._names[each] == name]
        return last.total_ps - last.ends[max(held)] if held else 0

    def _places(self, sums: list[SumKind], first: TileKind, last: TileKind) -> dict[str, _Use]:
        """The places that tiles hold, of those that the plan's tiles need at all."""
        uses = {}
        tiles = [kind for each in sums for kind in each.tiles]
        n_tiles, n_sums = sum(kind.n_tiles for kind in tiles), sum(each.n_sums for each in sums)
        if self._n_inputs:
            held = sum(kind.n_tiles * (kind.ends[kind.layout.fetched] + self._waits_ps(kind)) for kind in tiles)
            after_ps = last.total_ps - last.ends[last.layout.fetched]
            uses["input buffers"] = _Use(_shared(held, n_tiles, self._n_inputs), 0, after_ps)
        if self._n_outputs:
            held = sum(each.n_sums * each.tiles[-1].total_ps for each in sums)
            if self._n_outputs > 1:  # the write of the sum before keeps the reads of a last tile waiting
                held += (n_sums - 1) * self._write_wait_ps
            uses["output buffers"] = _Use(_shared(held, n_sums, self._n_outputs), _reads_ps(sums[0]), 0)
        if self._n_registers and self._n_sums:
            held = sum(kind.n_tiles * kind.span_ps(kind.layout.claims, kind.layout.computed) for kind in tiles)
            before_ps, after_ps = first.ends[first.layout.claims], last.total_ps - last.ends[last.layout.computed]
            uses["registers"] = _Use(_shared(held, n_tiles, self._n_registers), before_ps, after_ps)
            held = sum(each.n_sums * _sum_ps(each) for each in sums)
            after_ps = last.total_ps - last.ends[last.layout.stored]
            uses["accumulators"] = _Use(_shared(held, n_sums, self._n_sums), before_ps, after_ps)
        return uses


def _reads_ps(each: SumKind) -> int:
    """The reads of an output tile before its last tile over K, which claims the output buffer."""
    return sum(
        (kind.n_tiles // each.n_sums) * time.holds_ps
        for kind in each.tiles[:-1]
        for stage_type, time in zip(kind.layout.types, kind.times, strict=True)
        if stage_type is StageType.DMA_READ
    )


def _names(plan: PipelinePlan, costs: TileCosts) -> dict[StageType, str]:
    """The resource that stages of each type in *plan* hold, named after the types."""
    types = dict.fromkeys(stage.stage_type for stage in plan.stages)
    names = {}
    for each in types:
        turn = next((turn for turn in costs.turns if each in turn), (each,))
        names[each] = "+".join(other.name for other in turn if other in types)
    return names


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


def _sum_ps(each: SumKind) -> int:
    """How long an output tile holds its accumulator: its first FETCH, all its products one by one, and its STORE.

    Where fetches take longer than products, all its fetches.
    """
    first, last = each.tiles[0], each.tiles[-1]
    by_stage = []
    for index in ("claims", "multiplies"):
        all_ps = before_ps = after_ps = 0
        for kind in each.tiles:
            at = getattr(kind.layout, index)
            all_ps += kind.n_tiles // each.n_sums * kind.span_ps(at, at + 1)
        at = getattr(first.layout, index)
        before_ps = first.span_ps(first.layout.claims, at)
        after_ps = last.span_ps(getattr(last.layout, index) + 1, last.layout.stored)
        by_stage.append(before_ps + all_ps + after_ps)
    return max(by_stage)


def _shared(held_ps: int, holders: int, fit: int) -> int:
    """The part of *held_ps*, the time of all *holders*, that one of *fit* places takes."""
    return -(-holders // fit) * held_ps // holders
