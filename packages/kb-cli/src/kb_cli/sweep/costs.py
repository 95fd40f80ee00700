"""The costs of a point: an expression of the user's, or the values of the chip that better hardware needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kb_cli.sweep.axis import SweepAxis
from kb_cli.sweep.definition import Definition
from kb_cli.sweep.expression import Expression, number_of
from kb_cli.sweep.points import Point
from kb_cli.whatif.chip_levers import chip_levers
from kb_messages import KbError
from kb_topology import SLOW, Topology


class Cost(NamedTuple):
    """A figure of a point that is better when it is smaller, and its `name` in reports."""

    name: str
    of: Callable[[Point], float]


def costs_of(definition: Definition, points: Sequence[Point], chips: Iterable[Topology]) -> list[Cost]:
    """Returns the costs of *points*: the definition's expression, or one for each axis of *chips* that has numbers.

    More of an axis costs more, except where half the value is the faster chip: there, less costs more. Source: assumed,
    except for values that a block declares as a lever. The factor of a slow PE costs nothing: nobody chooses it. Raises
    BenchmarkError for an expression that is no number.
    """
    if definition.cost:
        expression = Expression(definition.cost, definition.axes, "--cost", definition.fixed)
        for point in points:
            expression.number({axis: text for axis, text in point.items() if axis not in definition.over})
        return [Cost(definition.cost, expression.number)]
    axes = [axis for group in definition.groups for axis in group.axes if axis.kind == "chip"]
    axes = [axis for axis in axes if axis.name not in definition.over and any(path[0] != SLOW for path in axis.paths)]
    fewer = _better_smaller(chips)
    found = []
    for axis in axes:
        texts = {point[axis.name] for point in points}
        if len(texts) > 1 and all(number_of(text) is not None for text in texts):
            sign = -1.0 if fewer.intersection(axis.paths) else 1.0
            found.append(Cost(f"{'less' if sign < 0 else 'more'} {axis.name}", _figure(axis, sign)))
    return found


def _figure(axis: SweepAxis, sign: float) -> Callable[[Point], float]:
    return lambda point: sign * (number_of(point[axis.name]) or 0.0)


def _better_smaller(chips: Iterable[Topology]) -> set[tuple[str | int, ...]]:
    """Returns the places of *chips* whose smaller values make a faster chip, as blocks and links declare."""
    found: set[tuple[str | int, ...]] = set()
    for chip in chips:
        try:
            levers = chip_levers(chip)
        except KbError:  # a block that is not installed: its points fail with a sentence of their own
            continue
        found |= {path for each in levers if each.lever.better == "half" for path in each.values}
    return found
