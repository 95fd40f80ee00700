"""Which bytes a compute op has yet to produce: they exist in time, but their values only after pass 2."""

from __future__ import annotations

from msgspec import Struct

from kb_messages.address import OFFSET_BITS, OFFSET_MASK
from kb_messages.commands import Matrix
from kb_messages.errors import KernelError


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
            "results of compute ops are known only after the run; load data the kernel has to look at from memory",
        )


class PendingBytes:
    """Rectangles whose producer's data is not there yet. The last issue wins."""

    def __init__(self) -> None:
        self._by_owner: dict[int, list[tuple[Matrix, Producer | None]]] = {}

    def mark(self, matrix: Matrix, producer: Producer) -> None:
        """From now on the bytes of *matrix* are pending."""
        self._put(matrix, producer)

    def clear(self, matrix: Matrix) -> None:
        """The bytes of *matrix* hold concrete data again."""
        if self._by_owner.get(matrix.address >> OFFSET_BITS):
            self._put(matrix, None)

    def producer(self, matrix: Matrix) -> Producer | None:
        """The latest op that any byte of *matrix* waits for."""
        entries = self._by_owner.get(matrix.address >> OFFSET_BITS, [])
        for other, producer in reversed(entries):
            if not overlaps(matrix, other):
                continue
            if producer is not None:
                return producer
            if covers(other, matrix):
                return None
        return None

    def _put(self, matrix: Matrix, producer: Producer | None) -> None:
        entries = self._by_owner.setdefault(matrix.address >> OFFSET_BITS, [])
        entries[:] = [entry for entry in entries if not covers(matrix, entry[0])]
        entries.append((matrix, producer))


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


def covers(outer: Matrix, inner: Matrix) -> bool:
    """Whether *outer* surely holds every byte of *inner* (False when it would take a closer look)."""
    if outer.address >> OFFSET_BITS != inner.address >> OFFSET_BITS:
        return False
    distance = inner.address - outer.address
    if distance < 0:
        return False
    if outer.rows == 1 or outer.stride == outer.row_nbytes:
        return distance + _span(inner)[1] - _span(inner)[0] <= outer.rows * outer.row_nbytes
    row, col = divmod(distance, outer.stride)
    fits = col + inner.row_nbytes <= outer.row_nbytes and row + inner.rows <= outer.rows
    return fits and (inner.rows == 1 or inner.stride == outer.stride)
