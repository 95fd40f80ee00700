"""The estimated time of a plan on a PE: the way of its tiles through the PE, and the work of each resource."""

from __future__ import annotations

from msgspec import Struct

from kb_messages import PipelinePlan, PlanError, StageType
from kb_plans.tiles.room import TileRoom
from kb_plans.tiles.tile_times import SumKind, TileCosts, TileTimes
from kb_plans.tiles.tile_walk import TileWalk


class Estimate(Struct, frozen=True, kw_only=True):
    """`latency_ps` from the first stage to the last, and the resource that the plan is `bound_by`: the busiest one.

    `busy_ps` is the time, by resource, for which tiles hold the resource when nothing keeps them waiting. Where several
    tiles hold a resource at a time (buffers, registers), the time is divided by their number.
    """

    latency_ps: int
    bound_by: str
    busy_ps: dict[str, int]


def estimate(plan: PipelinePlan, room: TileRoom, costs: TileCosts) -> Estimate:
    """The time of *plan* on a PE with *room* for tiles and with *costs*.

    The call takes as long for many tiles as for few.

    `TileWalk` computes the latency. Resources are channels and ports, the memory that reads and writes share, and the
    places that a limited number of tiles hold at a time: input buffers from the first stage to FETCH, output buffers to
    the end, operand registers from their first stage to the last GEMM or MATH, accumulators from the first FETCH of a
    sum to its STORE.

    Raises PlanError for a plan of which not even one tile fits, and for anything but a plan, room and costs.
    """
    for value, kind in ((plan, PipelinePlan), (room, TileRoom), (costs, TileCosts)):
        if not isinstance(value, kind):
            raise PlanError("estimate", f"a value of type {type(value).__name__}", f"a {kind.__name__}")
    if not room.holds(plan.buffers, 1):
        raise PlanError("estimate", "a plan of which no tile fits the room", "a smaller tile", "see TileRoom.holds")
    times = TileTimes(plan, costs)
    busy_ps = _channels(times) | _places(times, room)
    bound_by = max(busy_ps, key=lambda name: busy_ps[name])
    return Estimate(latency_ps=TileWalk(times, room).latency_ps(), bound_by=bound_by, busy_ps=busy_ps)


def _channels(times: TileTimes) -> dict[str, int]:
    """Picoseconds for which stages hold each channel or port, by its name, and a memory that reads and writes share."""
    names = _names(times.plan, times.costs)
    held = dict.fromkeys(names.values(), 0)
    memory_ps = 0
    for kind in (kind for each in times.sums for kind in each.tiles):
        for stage_type, time in zip(kind.layout.types, kind.times, strict=True):
            held[names[stage_type]] += kind.n_tiles * time.holds_ps
            memory_ps += kind.n_tiles * time.memory_ps
    return held | {"memory": memory_ps} if times.shares_memory else held


def _places(times: TileTimes, room: TileRoom) -> dict[str, int]:
    """Picoseconds for which tiles hold each scarce place, by its name. A place is scarce if tiles can wait for it."""
    fit = room.at_once(times.plan.buffers)
    kinds = [kind for each in times.sums for kind in each.tiles]
    n_tiles, n_sums = sum(kind.n_tiles for kind in kinds), sum(each.n_sums for each in times.sums)
    until_fetched = sum(kind.n_tiles * kind.ends[kind.layout.fetched] for kind in kinds)
    until_written = sum(each.n_sums * each.tiles[-1].total_ps for each in times.sums)
    until_computed = sum(kind.n_tiles * kind.span_ps(kind.layout.claims, kind.layout.computed) for kind in kinds)
    until_stored = sum(each.n_sums * _sum_ps(each) for each in times.sums)
    places = {
        "input buffers": (fit.input, n_tiles, until_fetched),
        "output buffers": (fit.output, n_sums, until_written),
        "registers": (fit.registers, n_tiles, until_computed),
        "accumulators": (fit.accumulators, n_sums, until_stored),
    }
    return {
        name: -(-holders // count) * held_ps // holders
        for name, (count, holders, held_ps) in places.items()
        if count and holders > count
    }


def _names(plan: PipelinePlan, costs: TileCosts) -> dict[StageType, str]:
    """The resource that stages of each type hold in *plan*, named after the types."""
    types = dict.fromkeys(stage.stage_type for stage in plan.stages)
    names = {}
    for each in types:
        turn = next((turn for turn in costs.turns if each in turn), (each,))
        names[each] = "+".join(other.name for other in turn if other in types)
    return names


def _sum_ps(each: SumKind) -> int:
    """The time for which an output tile holds its accumulator: its first FETCH, its products one by one, and its STORE.

    Where fetches take longer than products, all its fetches count instead of its products.
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
