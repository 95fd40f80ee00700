"""Lifetimes: the stages from which and to which a tile holds its buffers, its registers and its accumulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from kb_messages.errors import PlanError
from kb_messages.log.oplog import Role
from kb_messages.plans.stages import Place, StageTemplate, StageType, When

Indices = tuple[int, ...]
"""One index for each kind of tile: four numbers, or eight where tiles share panels."""

_Uses = tuple[StageType, When, tuple[tuple[Place, Role], ...]]
"""The facts that decide lifetimes: a stage's type, the tiles that have it, and place and role of its operands."""

_K_TILES_OF_EVERY_KIND: Final = 3
"""Three tiles along K are a first one, one between and a last one. A fourth tile adds no kind."""

_COMPUTES: Final = frozenset((StageType.GEMM, StageType.MATH))


class Lifetime(Struct, frozen=True, kw_only=True):
    """The lifetime of a place: a tile claims the place before one stage and frees the place after another.

    `claimed` and `freed` are the types of these two stages. `first` and `last` have the indices of the two among the
    stages of a tile, by `tile_kind`, and -1 for tiles without such a stage. They are None where every stage of the type
    is such a stage. The first of the tiles that share a panel claims the panel's buffer, and the last one frees it.
    """

    claimed: StageType
    freed: tuple[StageType, ...]
    first: Indices | None
    last: Indices | None


def tile_kind(k: int, k_grid: int, is_later: bool = False) -> int:
    """The position of tile *k* of *k_grid* along K: first (0), between (1), alone (2) or last (3).

    In a plan whose tiles share panels, the tiles that fill no panel (*is_later*) are kinds 4 to 7. Tiles of one kind
    have the same stages.
    """
    return (k > 0) + 2 * (k == k_grid - 1) + 4 * is_later


def lifetimes_of(stages: Sequence[StageTemplate], k_grid: int) -> Mapping[Place, Lifetime]:
    """The lifetime of every place in the PE that operands of *stages* name.

    A place is claimed before the first stage that writes it. A buffer is free after the last stage that names it. An
    accumulator is free after that stage of the last tile along K. The registers of a tile are one piece, and free after
    the tile's last GEMM or MATH, although an op on the accumulator alone reads none of them. Where a STORE reads
    registers, they are free after the STORE. Raises PlanError when no stage writes a place that a stage reads.

    Plans for many PEs differ only in addresses, so the lifetimes are computed once for stages that use the same places.
    """
    uses = tuple(
        (stage.stage_type, stage.when, tuple((operand.place, operand.role) for operand in stage.operands))
        for stage in stages
    )
    return _lifetimes(uses, min(k_grid, _K_TILES_OF_EVERY_KIND))


@lru_cache(maxsize=256)
def _lifetimes(stages: tuple[_Uses, ...], k_grid: int) -> Mapping[Place, Lifetime]:
    found = {}
    for place in (Place.INPUT_BUFFER, Place.PANEL, Place.OUTPUT_BUFFER, Place.REGISTERS, Place.ACCUMULATOR):
        users = [at for at, (_, _, operands) in enumerate(stages) if any(used is place for used, _ in operands)]
        if users:
            begin = _first_writer(stages, place)
            ends = users[-1:]
            if place is Place.REGISTERS and stages[users[-1]][0] is not StageType.STORE:
                ends = [at for at, (stage_type, _, _) in enumerate(stages) if stage_type in _COMPUTES]
            found[place] = Lifetime(
                claimed=stages[begin][0],
                freed=tuple(dict.fromkeys(stages[at][0] for at in ends)),
                first=_indices(stages, [begin], k_grid),
                last=_in_last_tile(stages, ends[-1], k_grid)
                if place is Place.ACCUMULATOR and k_grid > 1
                else _indices(stages, ends, k_grid),
            )
    return MappingProxyType(found)


def _in_last_tile(stages: tuple[_Uses, ...], end: int, k_grid: int) -> Indices | None:
    """The index of stage *end* in the last tile along K, which frees the accumulator, and -1 in other tiles."""
    if stages[end][1] is When.LAST_K:
        return _indices(stages, [end], k_grid)
    mine = [at for at, (_, when, _) in enumerate(stages) if when.holds(k_grid - 1, k_grid)]
    last = tile_kind(k_grid - 1, k_grid)
    return tuple(mine.index(end) if kind == last else -1 for kind in range(4))


def _first_writer(stages: tuple[_Uses, ...], place: Place) -> int:
    for at, (_, _, operands) in enumerate(stages):
        if any(used is place and role.is_write for used, role in operands):
            return at
    raise PlanError(
        "plan",
        f"stages that read {place.name.lower()}, and no stage that writes it",
        "a stage that writes it before the first read",
    )


def _indices(stages: tuple[_Uses, ...], which: Sequence[int], k_grid: int) -> Indices | None:
    """By kind of tile, the index of the last stage of *which*.

    None where *which* are all stages of their types, one a tile.
    """
    types = {stages[at][0] for at in which}
    if sum(stage_type in types for stage_type, _, _ in stages) == 1:
        return None
    fills = [any(place is Place.PANEL and role.is_write for place, role in operands) for _, _, operands in stages]
    indices = [-1] * (8 if any(fills) else 4)
    for k, is_later in product(range(k_grid), (False, True) if any(fills) else (False,)):
        mine = [at for at, (_, when, _) in enumerate(stages) if when.holds(k, k_grid) and not (is_later and fills[at])]
        indices[tile_kind(k, k_grid, is_later)] = max((i for i, at in enumerate(mine) if at in which), default=-1)
    return tuple(indices)
