"""Lifetimes: from which stage to which a tile holds its input buffer, output buffer, registers and accumulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from kb_messages.stages import Place, StageTemplate, StageType

Indices = tuple[int, int, int, int]

_COMPUTES: Final = frozenset((StageType.GEMM, StageType.MATH))


class Lifetime(Struct, frozen=True, kw_only=True):
    """How long a tile holds a place: it claims the place before one stage and frees the place after another.

    `claimed` and `freed` are the types of these stages. `first` and `last` have their indices among the stages of a
    tile, by `tile_kind`, and -1 for tiles without such a stage; they are None where every stage of those types is one.
    """

    claimed: StageType
    freed: tuple[StageType, ...]
    first: Indices | None
    last: Indices | None


def tile_kind(k: int, k_grid: int) -> int:
    """The position of tile *k* of *k_grid* along K: first (0), between (1), alone (2) or last (3).

    Tiles of one kind have the same stages.
    """
    return (k > 0) + 2 * (k == k_grid - 1)


def lifetimes_of(stages: Sequence[StageTemplate], k_grid: int) -> dict[Place, Lifetime]:
    """The lifetime of every place in the PE that operands of *stages* name.

    A place is claimed before the first stage that writes it. A buffer or an accumulator is free after the last stage
    that names it. The registers of a tile are one piece, free after the tile's last GEMM or MATH, although an op on the
    accumulator alone reads none of them.
    """
    found = {}
    for place in (Place.INPUT_BUFFER, Place.OUTPUT_BUFFER, Place.REGISTERS, Place.ACCUMULATOR):
        users = [stage for stage in stages if any(operand.place is place for operand in stage.operands)]
        if users:
            begin = next(stage for stage in users if _writes(stage, place))
            ends = [each for each in stages if each.stage_type in _COMPUTES] if place is Place.REGISTERS else users[-1:]
            found[place] = Lifetime(
                claimed=begin.stage_type,
                freed=tuple(dict.fromkeys(stage.stage_type for stage in ends)),
                first=_indices(stages, [begin], k_grid),
                last=_indices(stages, ends, k_grid),
            )
    return found


def _writes(stage: StageTemplate, place: Place) -> bool:
    return any(operand.place is place and operand.role.is_write for operand in stage.operands)


def _indices(stages: Sequence[StageTemplate], which: Sequence[StageTemplate], k_grid: int) -> Indices | None:
    """By kind of tile, the index of the last of *which*; None where these are all stages of their types, one a tile."""
    types, ids = {stage.stage_type for stage in which}, {id(stage) for stage in which}
    if sum(stage.stage_type in types for stage in stages) == 1:
        return None
    indices = [-1, -1, -1, -1]
    for k in {0, 1, k_grid - 1} & set(range(k_grid)):
        mine = [stage for stage in stages if stage.when.holds(k, k_grid)]
        indices[tile_kind(k, k_grid)] = max((i for i, stage in enumerate(mine) if id(stage) in ids), default=-1)
    return indices[0], indices[1], indices[2], indices[3]
