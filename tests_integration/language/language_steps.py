"""What the steps of a program share: how a step names elements and masks, for `tl` and for numpy alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SIDE = 24
"""Rows and columns of every matrix; of the memory, those of one program."""

ATOMICS = {"add": "add", "max": "maximum", "min": "minimum", "and": "bit_and", "or": "bit_or", "xor": "bit_xor"}
"""Atomics by the function that each one computes."""
COUNTS = ("add", "max", "or", "xor")
"""Atomics of all programs on the rows of one tensor: in any order the result is the same, and 0 changes nothing."""

Step = tuple[Any, ...]
Range = Callable[[int], Any]


class Player:
    """Plays steps on `values`. A step is a name and arguments; a value is named by its number, modulo their count."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.seen: list[Any] = []

    def play(self, step: Step) -> None:
        name, *arguments = step
        getattr(self, name)(*arguments)

    def pick(self, number: int) -> Any:
        return self.values[number % len(self.values)]

    def keep(self, value: Any) -> None:
        self.values.append(value)

    def drop(self, number: int) -> None:
        """The last reference of a name goes."""
        self.values.pop(number % len(self.values))


def mask_of(spec: tuple[Any, ...], shape: tuple[int, int], numbers: Range) -> Any:
    """The mask of *spec* over *shape*, from the rows' and the columns' *numbers*."""
    kind, first, second = spec
    rows, columns = numbers(shape[0])[:, None], numbers(shape[1])[None, :]
    if kind == "box":
        return (rows < first) & (columns < second)
    if kind == "triangle":
        return rows + first >= columns
    if kind == "rows":
        return (rows * second < first) & (columns >= 0)
    assert kind == "data"
    return ((rows + columns) & 1) == (first & 1)


def key_of(spec: tuple[Any, ...], numbers: Range, listed: Callable[[tuple[int, ...]], Any]) -> tuple[Any, ...]:
    """The index of *spec*: a rectangle, every n-th row and column, rows that are *listed*, or rows that are affine."""
    kind, row, column, (height, width), extra = spec
    across = slice(column, column + width)
    if kind == "rectangle":
        return slice(row, row + height), across
    if kind == "strided":
        down, along = extra
        return slice(row, row + down * height, down), slice(column, column + along * width, along)
    if kind == "listed":
        return listed(extra), across
    assert kind == "affine"
    return (numbers(height) * extra + row)[:, None], (numbers(width) + column)[None, :]


def axis_of(shape: tuple[int, ...], axis: int) -> int:
    """The axis of a reduction or scan."""
    return axis % len(shape)
