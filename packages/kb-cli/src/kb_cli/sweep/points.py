"""The points of a sweep: every combination that meets its conditions, or some of them drawn at random."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence

from kb_cli.sweep.axis import AxisGroup
from kb_cli.sweep.definition import Definition
from kb_cli.sweep.expression import Expression
from kb_messages import BenchmarkError

MOST_POINTS = 1_000_000
"""The most points of a sweep, and combinations for which its conditions are evaluated. Source: assumed."""
Point = dict[str, str]
"""The value of each axis, as text."""


def points_of(definition: Definition) -> list[Point]:
    """Returns the points of *definition*, in the order of its groups: the last group changes fastest.

    Raises BenchmarkError when there are none or too many, and for a condition that has no truth value.
    """
    total = math.prod(len(group.rows) for group in definition.groups)
    names = definition.axes
    conditions = [Expression(text, names, f"--where {text!r}", definition.fixed) for text in definition.where]
    if definition.most is None:
        if total > MOST_POINTS:
            raise BenchmarkError("sweep", f"{total:,} combinations", f"at most {MOST_POINTS:,}", "add --random POINTS")
        found = [point for point in map(_point_at(definition.groups), range(total)) if _meets(point, conditions)]
    else:
        found = _drawn(definition, total, conditions)
    if not found:
        raise BenchmarkError("sweep", f"no point among {total:,} that meets its conditions", "at least one")
    return found


def _drawn(definition: Definition, total: int, conditions: Sequence[Expression]) -> list[Point]:
    """Returns `most` points of *total*, drawn without replacement, in the order of the grid."""
    assert definition.most is not None, "the caller has looked"
    if definition.most > MOST_POINTS:
        raise BenchmarkError("--random", f"{definition.most:,} points", f"at most {MOST_POINTS:,}")
    numbers: list[int] = []
    at = _point_at(definition.groups)
    for number in _shuffled(total, random.Random(definition.random_seed)):
        if len(numbers) == definition.most:
            break
        if _meets(at(number), conditions):
            numbers.append(number)
    return [at(number) for number in sorted(numbers)]


def _shuffled(total: int, source: random.Random) -> Iterator[int]:
    """Yields the numbers below *total* in a random order; at most `MOST_POINTS` of them."""
    if total <= MOST_POINTS:
        yield from source.sample(range(total), total)
        return
    seen: set[int] = set()
    while len(seen) < MOST_POINTS:
        number = source.randrange(total)
        if number not in seen:
            seen.add(number)
            yield number


def _point_at(groups: Sequence[AxisGroup]) -> Callable[[int], Point]:
    """Returns a function from a combination's number to the point."""

    def point(number: int) -> Point:
        cells: list[tuple[str, ...]] = []
        for group in reversed(groups):
            number, row = divmod(number, len(group.rows))
            cells.insert(0, group.rows[row])
        return {
            axis.name: text
            for group, row_texts in zip(groups, cells, strict=True)
            for axis, text in zip(group.axes, row_texts, strict=True)
        }

    return point


def _meets(point: Point, conditions: Sequence[Expression]) -> bool:
    return all(condition.holds(point) for condition in conditions)
