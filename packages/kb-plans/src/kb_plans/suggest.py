"""Choosing a tile when the kernel leaves it open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Unpack

from msgspec import Struct

from kb_messages import BufferNeeds, MathAttributes, MathInput, Matrix, PlanError, TileShape
from kb_plans.gemm import generate_gemm_plan
from kb_plans.math import generate_math_plan
from kb_plans.options import GemmOptions

LARGEST_SIDE = 256
"""No side of a suggested tile is longer, so that a problem makes several tiles that overlap. Source: assumed."""


class TileRoom(Struct, frozen=True, kw_only=True):
    """Bytes there are for tiles: TCM input and output buffers, registers."""

    input_nbytes: int
    output_nbytes: int
    register_nbytes: int

    def holds(self, needs: BufferNeeds, copies: int) -> bool:
        """Whether *copies* tiles fit at once."""
        return (
            copies * needs.input_nbytes <= self.input_nbytes
            and copies * needs.output_nbytes <= self.output_nbytes
            and copies * (needs.register_nbytes + needs.accumulator_nbytes) <= self.register_nbytes
        )


def suggest_tile(
    a: Matrix,
    b: Matrix,
    out: Matrix,
    room: TileRoom,
    **options: Unpack[GemmOptions],
) -> TileShape:
    """The tile for `out = a @ b` that two of fit *room* at once; *options* are those of `generate_gemm_plan`.

    Grown from 1 x 1 x 1 by doubling the shortest side that can still grow (ties: k, n, m), so that it is as near a
    cube as the problem allows; where the epilogue has groups along K, it is as deep as one. Where no two tiles fit, one
    must. Raises PlanError when not even the smallest does.
    """

    def needs(tile: TileShape) -> BufferNeeds:
        return generate_gemm_plan(a, b, out, tile, "", **options).buffers

    k = a.rows if options.get("transpose_a") else a.cols
    groups = [op.group for op in options.get("epilogue", ()) if op.group is not None]
    smallest, k = (min(groups[0], k), min(groups[0], k)) if groups else (1, k)
    return _grow("gemm", needs, TileShape(1, 1, smallest), TileShape(out.rows, out.cols, k), room)


def suggest_math_tile(
    math: MathAttributes, inputs: Sequence[MathInput], out: Matrix, room: TileRoom, *, out_pinned: bool = False
) -> TileShape:
    """The tile for a math function, as `suggest_tile`: the side that a reduction goes over is whole."""
    m, n = (max(sizes) for sizes in zip(*((each.matrix.rows, each.matrix.cols) for each in inputs), strict=True))
    smallest = TileShape(m if math.axis == 0 else 1, n if math.axis == 1 else 1, 1)

    def needs(tile: TileShape) -> BufferNeeds:
        return generate_math_plan(math, inputs, out, tile, "", out_pinned=out_pinned).buffers

    return _grow(f"math {math.op}", needs, smallest, TileShape(m, n, 1), room)


def _grow(
    where: str, needs: Callable[[TileShape], BufferNeeds], smallest: TileShape, problem: TileShape, room: TileRoom
) -> TileShape:
    for copies in (2, 1):
        tile = smallest
        if not room.holds(needs(tile), copies):
            continue
        while True:
            grown = [candidate for candidate in _doubled(tile, problem) if room.holds(needs(candidate), copies)]
            if not grown:
                return tile
            tile = grown[0]
    raise PlanError(
        where,
        f"{room.input_nbytes} bytes of input buffer, {room.output_nbytes} of output buffer, "
        f"{room.register_nbytes} of registers",
        f"room for one tile of {smallest}",
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
