"""Acts: the steps of one rank of a collective. Kernels play acts, and estimates count their time."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple


class ActKind(Enum):
    """The kinds of acts. An act is about elements `start` to `stop` of the result of the whole group.

    LOAD: begins to load the rank's own elements. SEND: sends the elements to rank `peer`. REDUCE: receives elements of
    rank `peer` and combines them with the own ones. TAKE: receives elements of rank `peer` in place of the own ones.
    KEEP: copies elements out of the slot in which they came. JOIN: puts the parts of the elements side by side in one
    value. DONE: the elements are a part of the rank's result.
    """

    LOAD = "load"
    SEND = "send"
    REDUCE = "reduce"
    TAKE = "take"
    KEEP = "keep"
    JOIN = "join"
    DONE = "done"


class Act(NamedTuple):
    """One act, of `kind`, about elements `start` to `stop`.

    `is_wide` says that the message has sums that are not rounded yet. `is_last` says of a REDUCE that its result is
    rounded, and of a SEND that the rank needs the elements no more.
    """

    kind: ActKind
    start: int
    stop: int
    peer: int = -1
    is_wide: bool = False
    is_last: bool = False

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.stop - self.start


class Limits(NamedTuple):
    """The limits of messages: `most` elements in one, and `depth` slots of a channel at least.

    A ring sends a chunk of `halved_from` elements or more in two halves.
    """

    most: int
    depth: int
    halved_from: int


Acts = Iterator[Act]
"""The acts of one rank, in their order."""


def chunk_of(n: int, count: int, number: int) -> tuple[int, int]:
    """The first and the end element of chunk *number* of *count* of *n* elements.

    All chunks have `ceil(n / count)` elements but those at the end, which have fewer or none.
    """
    size = -(-n // count)
    return min(n, number * size), min(n, (number + 1) * size)


def parts_of(start: int, stop: int, most: int) -> list[tuple[int, int]]:
    """Elements *start* to *stop* in parts of *most* elements. No part is empty."""
    return [(first, min(stop, first + most)) for first in range(start, stop, most)]
