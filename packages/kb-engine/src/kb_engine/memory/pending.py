"""Pending bytes: bytes that a compute op has yet to produce.

A kernel runs while time is simulated, and the values of compute ops exist only after pass 2. Whoever asks for a pending
value gets an error that names its producer.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from msgspec import Struct

from kb_engine.memory.rectangle_index import Entry, RectangleIndex
from kb_messages import KernelError, Matrix, Rectangle, overlaps, without


class Producer(Struct, frozen=True):
    """The op that will produce pending bytes, and the kernel line that issued it."""

    op: str
    line: str

    def error(self, touched_by: str) -> KernelError:
        """The error for touching a pending value."""
        return KernelError(
            f"{self.op} of {self.line}",
            f"{touched_by} of its pending result",
            "a value that exists while the kernel runs",
            "results of compute ops are known only after the run, or where a kernel looks at them in a run with an op "
            "log",
        )


class _LastIssue:
    """The producer of a rectangle: the number of its issue among all issues, and its op."""

    __slots__ = ("number", "producer")

    def __init__(self, number: int, producer: Producer) -> None:
        self.number = number
        self.producer = producer

    def take_over(self, number: int, producer: Producer) -> None:
        """Another op produces the same rectangle."""
        self.number = number
        self.producer = producer


class PendingBytes:
    """The rectangles whose values do not exist yet, each with the op that produces them. The last issue wins."""

    def __init__(self) -> None:
        self._index = RectangleIndex[_LastIssue]()
        self._issues = 0

    def mark(self, matrix: Matrix, producer: Producer) -> None:
        """Marks the bytes of *matrix* as pending. In a loop they often are already, as one rectangle."""
        rectangle = matrix.rectangle
        self._issues += 1
        near = self._index.near(rectangle)
        if len(near) == 1 and near[0].rectangle == rectangle:
            near[0].payload.take_over(self._issues, producer)
            return
        if near:
            self._clear(rectangle, near)
        self._index.add(rectangle, _LastIssue(self._issues, producer))

    def clear(self, matrix: Matrix) -> None:
        """The bytes of *matrix* hold concrete data again.

        A pending rectangle whose rows do not line up with those of *matrix* stays pending as a whole.
        """
        concrete = matrix.rectangle
        self._clear(concrete, self._index.near(concrete))

    def places(self) -> list[tuple[Rectangle, Producer]]:
        """The rectangles that are pending, each with the op that produces it, by address."""
        found = [(entry.rectangle, entry.payload.producer) for entry in self._index.entries()]
        return sorted(found, key=lambda each: (each[0].base, each[0].rows, each[0].row_nbytes, each[0].stride))

    def producer(self, matrix: Matrix) -> Producer | None:
        """The op that was issued last of the ops that produce a byte of *matrix*; None where no byte is pending."""
        return self.producer_of(matrix.rectangle)

    def producer_of(self, asked: Rectangle) -> Producer | None:
        """The op that was issued last of the ops that produce a byte of *asked*; None where no byte is pending."""
        near = self._index.near(asked)
        if not near:
            return None
        found = [entry.payload for entry in near if overlaps(asked, entry.rectangle)]
        return max(found, key=attrgetter("number")).producer if found else None

    def _clear(self, concrete: Rectangle, near: Sequence[Entry[_LastIssue]]) -> None:
        """Clears the bytes of *concrete*. *near* are the entries that may share bytes with it."""
        for entry in near:
            rest = without(entry.rectangle, concrete)
            if rest != [entry.rectangle]:
                self._index.remove(entry)
                for part in rest:
                    self._index.add(part, _LastIssue(entry.payload.number, entry.payload.producer))
