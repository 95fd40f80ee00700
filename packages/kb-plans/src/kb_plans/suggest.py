"""Choosing a tile when the kernel leaves it open."""

from __future__ import annotations

from msgspec import Struct

from kb_messages.commands import EpilogueOp, Matrix
from kb_messages.errors import PlanError
from kb_messages.plan import TileShape
from kb_plans.gemm import generate_gemm_plan

LARGEST_SIDE = 256
"""No side of a suggested tile is longer, so that a problem makes several tiles that overlap. Source: assumed."""


class TileRoom(Struct, frozen=True, kw_only=True):
    """Bytes there are for tiles: TCM input and output buffers, registers."""

    input_nbytes: int
    output_nbytes: int
    register_nbytes: int


def suggest_tile(
    a: Matrix,
    b: Matrix,
    out: Matrix,
    room: TileRoom,
    *,
    a_pinned: bool = False,
    b_pinned: bool = False,
    out_pinned: bool = False,
    epilogue: tuple[EpilogueOp, ...] = (),
) -> TileShape:
    """The tile for `out = a @ b` and *epilogue* that two of fit *room* at once; a pinned operand takes no buffer.

    Grown from 1 x 1 x 1 by doubling the shortest side that can still grow (ties: k, n, m), so that it is as near a
    cube as the problem allows. Where no two tiles fit, one must. Raises PlanError when not even 1 x 1 x 1 does.
    """
    problem = TileShape(a.rows, b.cols, a.cols)

    def fits(tile: TileShape, copies: int) -> bool:
        plan = generate_gemm_plan(
            a, b, out, tile, "", a_pinned=a_pinned, b_pinned=b_pinned, out_pinned=out_pinned, epilogue=epilogue
        )
        needs = plan.buffers
        return (
            copies * needs.input_nbytes <= room.input_nbytes
            and copies * needs.output_nbytes <= room.output_nbytes
            and copies * (needs.register_nbytes + needs.accumulator_nbytes) <= room.register_nbytes
        )

    for copies in (2, 1):
        tile = TileShape(1, 1, 1)
        if not fits(tile, copies):
            continue
        while True:
            grown = [candidate for candidate in _doubled(tile, problem) if fits(candidate, copies)]
            if not grown:
                return tile
            tile = grown[0]
    raise PlanError(
        "gemm",
        f"{room.input_nbytes} bytes of input buffer, {room.output_nbytes} of output buffer, "
        f"{room.register_nbytes} of registers",
        "room for one tile of 1x1x1",
        "make the buffers larger",
    )


def _doubled(tile: TileShape, problem: TileShape) -> list[TileShape]:
    sides = sorted((("k", tile.k, problem.k), ("n", tile.n, problem.n), ("m", tile.m, problem.m)), key=lambda s: s[1])
    grown = []
    for name, side, limit in sides:
        if side < min(limit, LARGEST_SIDE):
            sizes = {"m": tile.m, "n": tile.n, "k": tile.k, name: min(2 * side, limit)}
            grown.append(TileShape(sizes["m"], sizes["n"], sizes["k"]))
    return grown
