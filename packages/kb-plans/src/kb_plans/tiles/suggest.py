"""The choice of a tile for a command whose kernel leaves the tile open."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from kb_messages import BufferNeeds, GemmCommand, MathCommand, PipelinePlan, PlanError, TileShape
from kb_plans.checks import check
from kb_plans.gemm import generate_gemm_plan
from kb_plans.math import generate_math_plan
from kb_plans.templates import SLOT_ALIGNMENT
from kb_plans.tiles.estimate import estimate
from kb_plans.tiles.room import TileRoom
from kb_plans.tiles.search import Search, sides_of
from kb_plans.tiles.tile_times import TileCosts

LARGEST_SIDE = 256
"""The longest side of a suggested tile. A large problem then has several tiles, which overlap. Source: assumed."""


def suggest_tile(command: GemmCommand, room: TileRoom, costs: TileCosts | None = None) -> TileShape:
    """The tile for a GEMM. `command.tile` is ignored.

    With *costs*, it is the tile with the shortest `estimate` of all tiles that a search visits, and of equal tiles the
    one with the fewest tiles in its plan. The search tries sides that are powers of two, three times such powers, the
    whole problem, and equal parts of it. The tile that would be chosen without *costs* is taken instead if its estimate
    is shorter still.

    Without *costs*, bytes alone decide: two tiles fit *room* at once, and the tile grows from 1 x 1 x 1 by doubling the
    shortest side that can still grow (of equal sides k, then n, then m), so the tile is as near a cube as the problem
    allows. Where no two tiles fit, one has to fit.

    Where the epilogue has groups along K, the tile is as deep as a group. With a stationary loop order, a panel and two
    tiles beside it fit, and the smallest tile is 64 deep: shallower tiles take as many bytes, and more of them make the
    panel larger. Raises PlanError when not even the smallest tile fits.
    """

    def plan(tile: TileShape) -> PipelinePlan:
        return generate_gemm_plan(replace(command, tile=tile), "")

    check(command, GemmCommand, "")
    k = command.a.rows if command.transpose_a else command.a.cols
    groups = [op.group for op in command.epilogue if op.group is not None]
    smallest, k = (min(groups[0], k), min(groups[0], k)) if groups else (1, k)
    problem = TileShape(command.out.rows, command.out.cols, k)
    if costs is not None:
        sides = sides_of(problem.m), sides_of(problem.n), [k] if groups else sides_of(k)
        found = Search(plan, room, costs, sides).best()
        if found is not None:
            tiles = [found] if command.loop_order.is_stationary else [found, suggest_tile(command, room)]
            return min(tiles, key=lambda tile: estimate(plan(tile), room, costs).latency_ps)
    if command.loop_order.is_stationary and not groups:
        smallest = min(k, SLOT_ALIGNMENT)
    return _grow("gemm", lambda tile: plan(tile).buffers, TileShape(1, 1, smallest), problem, room)


def suggest_math_tile(command: MathCommand, room: TileRoom) -> TileShape:
    """The tile for a math function, by the rules of `suggest_tile` without costs.

    A reduction has the whole of its axis.
    """
    check(command, MathCommand, "")
    if not command.inputs:
        raise PlanError(f"math {command.math.op}", "no inputs", "at least one")
    m, n = (
        max(sizes) for sizes in zip(*((each.matrix.rows, each.matrix.cols) for each in command.inputs), strict=True)
    )
    axis = command.math.axis
    smallest = TileShape(m if axis == 0 else 1, n if axis == 1 else 1, 1)

    def needs(tile: TileShape) -> BufferNeeds:
        return generate_math_plan(replace(command, tile=tile), "").buffers

    return _grow(f"math {command.math.op}", needs, smallest, TileShape(m, n, 1), room)


def _grow(
    where: str, needs: Callable[[TileShape], BufferNeeds], smallest: TileShape, problem: TileShape, room: TileRoom
) -> TileShape:
    _check_room(room)
    for copies in (2, 1):
        tile = smallest
        if not room.holds(needs(tile), copies):
            continue
        while True:
            grown = [candidate for candidate in _doubled(tile, problem) if room.holds(needs(candidate), copies)]
            if not grown:
                return tile
            tile = grown[0]
    panel_nbytes = needs(smallest).panel_nbytes
    raise PlanError(
        where,
        f"{room.input_nbytes} bytes of input buffer, {room.output_nbytes} of output buffer, "
        f"{room.register_nbytes} of registers",
        f"room for a panel of {panel_nbytes} bytes and two tiles of {smallest}"
        if panel_nbytes
        else f"room for one tile of {smallest}",
        "make the buffers larger" + (", or use mnk or nmk" if panel_nbytes else ""),
    )


def _check_room(room: object) -> None:
    if not isinstance(room, TileRoom):
        raise PlanError("room for tiles", f"a value of type {type(room).__name__}", "a TileRoom")
    kinds = {type(size) for size in (room.input_nbytes, room.output_nbytes, room.register_nbytes)}
    if kinds != {int}:
        raise PlanError("room for tiles", f"bytes as {', '.join(sorted(kind.__name__ for kind in kinds))}", "ints")


def _doubled(tile: TileShape, problem: TileShape) -> list[TileShape]:
    sides = sorted((("k", tile.k, problem.k), ("n", tile.n, problem.n), ("m", tile.m, problem.m)), key=lambda s: s[1])
    grown = []
    for name, side, limit in sides:
        if side < min(limit, LARGEST_SIDE):
            sizes = {"m": tile.m, "n": tile.n, "k": tile.k, name: min(2 * side, limit)}
            grown.append(TileShape(sizes["m"], sizes["n"], sizes["k"]))
    return grown
