"""Which bytes a compute op has yet to produce: they exist in time, but their values only after pass 2."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Generic, TypeVar

from msgspec import Struct

from kb_messages import OFFSET_BITS, OFFSET_MASK, KernelError, Matrix

PayloadT = TypeVar("PayloadT")


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
            "results of compute ops are known only after the run, or where the kernel asks for them: tl.materialize(x)",
        )


class PendingBytes:
    """Rectangles whose producer's data is not there yet. The last issue wins."""

    def __init__(self) -> None:
        self._by_owner: dict[int, Rectangles[Producer]] = {}
        self._issues = 0

    def mark(self, matrix: Matrix, producer: Producer) -> None:
        """From now on the bytes of *matrix* are pending."""
        self.clear(matrix)
        self._issues += 1
        self._by_owner.setdefault(matrix.address >> OFFSET_BITS, Rectangles[Producer]()).add(
            matrix, self._issues, producer
        )

    def clear(self, matrix: Matrix) -> None:
        """The bytes of *matrix* hold concrete data again.

        Where its rows do not line up with a pending rectangle's, that one stays pending as a whole.
        """
        pending = self._by_owner.get(matrix.address >> OFFSET_BITS)
        for at in reversed(pending.near(matrix) if pending else []):
            assert pending is not None
            other, issue, producer = pending.entries[at]
            rest = without(other, matrix)
            if rest != [other]:
                pending.remove(at)
                for part in rest:
                    pending.add(part, issue, producer)

    def producer(self, matrix: Matrix) -> Producer | None:
        """The latest op that any byte of *matrix* waits for."""
        pending = self._by_owner.get(matrix.address >> OFFSET_BITS)
        if pending is None:
            return None
        found = [pending.entries[at] for at in pending.near(matrix)]
        return max(((i, p) for other, i, p in found if overlaps(matrix, other)), default=(0, None), key=_issue)[1]


class Rectangles(Generic[PayloadT]):
    """Rectangles of one memory by where they begin, each with the number of its issue and what is known of it."""

    __slots__ = ("_longest", "_starts", "entries")

    def __init__(self) -> None:
        self.entries: list[tuple[Matrix, int, PayloadT]] = []
        self._starts: list[int] = []
        self._longest = 0

    def near(self, matrix: Matrix) -> list[int]:
        """Which entries may share bytes with *matrix*."""
        start, end = _span(matrix)
        first = bisect_right(self._starts, start - self._longest)
        return [at for at in range(first, bisect_left(self._starts, end)) if _span(self.entries[at][0])[1] > start]

    def add(self, matrix: Matrix, issue: int, payload: PayloadT) -> None:
        """Take *matrix* in."""
        start, end = _span(matrix)
        at = bisect_right(self._starts, start)
        self._starts.insert(at, start)
        self.entries.insert(at, (matrix, issue, payload))
        self._longest = max(self._longest, end - start)

    def remove(self, at: int) -> None:
        """Forget number *at* of `entries`."""
        del self._starts[at], self.entries[at]


def _issue(found: tuple[int, Producer | None]) -> int:
    return found[0]


def _span(matrix: Matrix) -> tuple[int, int]:
    start = matrix.address & OFFSET_MASK
    return start, start + (matrix.rows - 1) * matrix.stride + matrix.row_nbytes


def overlaps(first: Matrix, second: Matrix) -> bool:
    """Whether two rectangles of one memory share a byte."""
    if first.address >> OFFSET_BITS != second.address >> OFFSET_BITS:
        return False
    a_start, a_end = _span(first)
    b_start, b_end = _span(second)
    if a_start >= b_end or b_start >= a_end:
        return False
    if first.stride == second.stride and first.rows > 1 and second.rows > 1:
        return _same_stride_overlap(b_start - a_start, first, second)
    return _rows_overlap(first, second)


def _same_stride_overlap(distance: int, first: Matrix, second: Matrix) -> bool:
    stride = first.stride
    row, col = divmod(distance, stride)
    straight = col < first.row_nbytes and -second.rows < row < first.rows
    wrapped = col + second.row_nbytes > stride and -second.rows < row + 1 < first.rows
    return straight or wrapped


def _rows_overlap(first: Matrix, second: Matrix) -> bool:
    few, many = (first, second) if first.rows <= second.rows else (second, first)
    base = many.address
    for row in range(few.rows):
        start = few.address + row * few.stride - base
        end = start + few.row_nbytes
        if many.rows == 1:
            if start < many.row_nbytes and end > 0:
                return True
            continue
        nearest = max(0, min((end - 1) // many.stride, many.rows - 1))
        if nearest * many.stride < end and start < nearest * many.stride + many.row_nbytes:
            return True
    return False


def without(matrix: Matrix, hole: Matrix) -> list[Matrix]:
    """What is left of *matrix* when the bytes of *hole* are taken out, as rectangles; all of it if not aligned."""
    if not overlaps(matrix, hole):
        return [matrix]
    if covers_span(hole, matrix):
        return []
    stride, size = _common_stride(matrix, hole), matrix.dtype.nbytes
    row, left = divmod(hole.address - matrix.address, stride)
    if left >= matrix.row_nbytes:
        row, left = row + 1, left - stride
    right = left + hole.row_nbytes
    if right > stride or matrix.row_nbytes > stride or (hole.rows > 1 and hole.stride != stride):
        return [matrix]
    top, bottom = max(row, 0), min(row + hole.rows, matrix.rows)
    left, right = max(left, 0), min(right, matrix.row_nbytes)
    if left % size or right % size:
        return [matrix]
    parts = (
        (0, top, 0, matrix.row_nbytes),
        (top, bottom, 0, left),
        (top, bottom, right, matrix.row_nbytes),
        (bottom, matrix.rows, 0, matrix.row_nbytes),
    )
    return [
        Matrix(
            address=matrix.address + first * stride + start,
            rows=last - first,
            cols=(end - start) // size,
            stride=stride,
            dtype=matrix.dtype,
        )
        for first, last, start, end in parts
        if last > first and end > start
    ]


def _common_stride(matrix: Matrix, hole: Matrix) -> int:
    """The distance of rows in which both are rectangles, if there is one: a single row has any."""
    if matrix.rows > 1:
        return matrix.stride
    return hole.stride if hole.rows > 1 else 2 * (matrix.row_nbytes + hole.row_nbytes)


def covers_span(outer: Matrix, inner: Matrix) -> bool:
    """Whether *outer* has no gaps and holds every byte from the first to the last of *inner*."""
    gapless = outer.rows == 1 or outer.stride == outer.row_nbytes
    start, end = _span(outer)
    first, last = _span(inner)
    return gapless and start <= first and last <= end
