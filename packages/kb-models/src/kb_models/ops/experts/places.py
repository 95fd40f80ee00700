"""Where experts are: which cubes have which of them, and where a row of an expert lies in a cube."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_models.layout import Mesh, Value, cut
from kb_models.layout.value import Bounds

Range = tuple[int, int]


class ExpertPlaces(NamedTuple):
    """The part of one cube in a mixture of experts.

    The cube has `columns` of the MLPs of `experts`; cubes that have the same experts share their columns. Its group is
    the cubes that have all experts together. `sources` are the ranges of rows of the group, each with the nearest cube
    that has it. `holders` has for each expert the experts of its cubes, and these cubes. The cube adds up the results
    of the block `target`.
    """

    experts: Range
    columns: Range
    sources: tuple[tuple[Range, int], ...]
    holders: tuple[tuple[Range, tuple[int, ...]], ...]
    target: Bounds


class Slots(NamedTuple):
    """The rows of a cube's experts, packed by expert and then by row: expert i of the cube has slots `first[i]` to
    `first[i + 1] - 1`. `rows` has the number of the row of each slot, and `of_pair`, rows x choices, the slot of each
    choice of one of these experts."""

    rows: npt.NDArray[Any]
    first: list[int]
    of_pair: npt.NDArray[Any]


def expert_levels(mesh: Mesh) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The levels over which experts are split, and the other levels over which the columns of each are split."""
    experts = mesh.levels("experts")
    return experts, tuple(level for level in mesh.levels("mlp") if level not in experts)


def places_of(mesh: Mesh, x: Value, n_experts: int, mlp: int) -> list[ExpertPlaces]:
    """The part of each cube, for rows that lie as the rows of *x*."""
    levels = [each for pair in expert_levels(mesh) for each in pair]
    experts = [mesh.part("experts", n_experts, cube.number) for cube in mesh.cubes]
    found = []
    for cube in mesh.cubes:
        group = mesh.group(levels, cube.number)
        same = [each for each in group if experts[each] == experts[cube.number]]
        ranges = sorted({experts[each] for each in group})
        holders = [(span, tuple(each for each in group if experts[each] == span)[:mlp]) for span in ranges]
        place = ExpertPlaces(
            experts=experts[cube.number],
            columns=_columns(mlp, len(same), same.index(cube.number)),
            sources=tuple(_sources(mesh, x, group, cube.number)),
            holders=tuple(holder for holder in holders for _ in range(*holder[0])),
            target=_target(x, group, cube.number),
        )
        found.append(place)
    return found


def _columns(mlp: int, count: int, number: int) -> Range:
    """Part *number* of *mlp* columns over *count* cubes. Where there are more cubes, the first ones have one each."""
    return cut(mlp, count, number) if count <= mlp else (min(number, mlp), min(number + 1, mlp))


def _sources(mesh: Mesh, x: Value, group: Sequence[int], cube: int) -> list[tuple[Range, int]]:
    """The ranges of rows of *group*, each with the cube that has it: the cube itself, or one of its own SIP, or any."""
    found: dict[Range, int] = {}
    for each in sorted(group, key=lambda each: (each != cube, mesh.cubes[each].sip != mesh.cubes[cube].sip)):
        rows = x.parts[each].bounds[0]
        if rows[0] < rows[1]:
            found.setdefault(rows, each)
    return sorted(found.items())


def _target(x: Value, group: Sequence[int], cube: int) -> Bounds:
    """The block of the result that *cube* adds up: its rows, which it shares with the cubes that have copies of them,
    by rows where there are as many, and otherwise by columns. Cubes add up the same column where there are fewer."""
    (first, last), (_, width) = x.parts[cube].bounds[0], (0, x.shape[1])
    owners = [each for each in group if x.parts[each].bounds[0] == (first, last)]
    rank = owners.index(cube)
    if last - first >= len(owners):
        start, stop = cut(last - first, len(owners), rank)
        return (first + start, first + stop), (0, width)
    start = rank * width // len(owners)
    return (first, last), cut(width, len(owners), rank) if width >= len(owners) else (start, start + 1)


def slots_of(ids: npt.NDArray[Any], numbers: npt.NDArray[Any], experts: Range) -> Slots:
    """The slots of *experts*, for rows *numbers* with the chosen experts *ids*, rows x choices."""
    chosen = ids.ravel()
    pairs = np.flatnonzero((chosen >= experts[0]) & (chosen < experts[1]))
    pairs = pairs[np.argsort(chosen[pairs], kind="stable")]
    first = np.searchsorted(chosen[pairs], np.arange(experts[0], experts[1] + 1))
    of_pair = np.full(chosen.size, -1)
    of_pair[pairs] = np.arange(pairs.size)
    return Slots(numbers[pairs // ids.shape[1]], first.tolist(), of_pair.reshape(ids.shape))
