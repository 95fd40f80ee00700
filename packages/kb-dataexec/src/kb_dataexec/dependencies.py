"""What depends on what, by the bytes: exact overlap of rectangles, and the ops that given outputs depend on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from kb_dataexec.dtypes import Array
from kb_dataexec.oplog import OpLog
from kb_dataexec.schedule import Schedule
from kb_messages.oplog import Role


class Rectangle(NamedTuple):
    """`rows` runs of `row_nbytes` bytes, `stride` bytes apart, from `offset` of memory `owner`."""

    owner: int
    offset: int
    rows: int
    row_nbytes: int
    stride: int

    @property
    def stop(self) -> int:
        """The offset after the last byte."""
        return self.offset + (self.rows - 1) * self.stride + self.row_nbytes


def overlap(a: Rectangle, b: Rectangle) -> bool:
    """Whether two rectangles share a byte: exact, also where strides differ or rows interleave."""
    if a.owner != b.owner or a.stop <= b.offset or b.stop <= a.offset:
        return False
    if a.rows > b.rows:
        a, b = b, a
    return any(_run_meets(a.offset + row * a.stride, a.row_nbytes, b) for row in range(a.rows))


def _run_meets(start: int, nbytes: int, rectangle: Rectangle) -> bool:
    """Whether [start, start + nbytes) meets a row r: start < offset + r * stride + row_nbytes and the other way."""
    past = start - rectangle.offset - rectangle.row_nbytes
    if rectangle.rows == 1 or rectangle.stride == 0:
        return past < 0 and rectangle.offset < start + nbytes
    first = max(0, past // rectangle.stride + 1)
    last = min(rectangle.rows - 1, (start + nbytes - 1 - rectangle.offset) // rectangle.stride)
    return first <= last


def backward_slice(log: OpLog, outputs: Iterable[Rectangle | tuple[int, int, int, int, int]]) -> set[int]:
    """The ids of the ops that the bytes of *outputs* depend on, at the end of the log in command order.

    Byte-exact: an op belongs to it when a byte that it wrote is read by one that does, or is an output, and was not
    written again in between. Raises LogError as `Schedule` does.
    """
    schedule = Schedule(log)
    needed = _NeededBytes(schedule)
    for output in outputs:
        needed.add(Rectangle(*output))
    found: set[int] = set()
    fields = [schedule.operands[name].tolist() for name in Rectangle._fields]
    writes = np.isin(schedule.operands["role"], [role for role in Role if role.is_write]).tolist()
    first = schedule.first.tolist()
    for index in range(len(schedule.ops) - 1, -1, -1):
        span = range(first[index], first[index + 1])
        rectangles = [(Rectangle(*(field[at] for field in fields)), writes[at]) for at in span]
        taken = [needed.take(rectangle) for rectangle, written in rectangles if written]
        if any(taken):
            found.add(int(schedule.ops["op_id"][index]))
            for rectangle, written in rectangles:
                if not written:
                    needed.add(rectangle)
    return found


class _NeededBytes:
    """One flag a byte of each memory's used range; pages that are never set cost no memory."""

    def __init__(self, schedule: Schedule) -> None:
        rows = schedule.operands
        stops = rows["offset"] + (rows["rows"] - 1) * rows["stride"] + rows["row_nbytes"]
        self._flags: dict[int, tuple[int, Array]] = {}
        for owner in np.unique(rows["owner"]).tolist():
            mine = rows["owner"] == owner
            low, high = int(rows["offset"][mine].min()), int(stops[mine].max())
            self._flags[owner] = (low, np.zeros(high - low, np.bool_))

    def add(self, rectangle: Rectangle) -> None:
        for view in self._views(rectangle):
            view[...] = True

    def take(self, rectangle: Rectangle) -> bool:
        """Whether a byte of the rectangle was needed; none is from now on."""
        hit = False
        for view in self._views(rectangle):
            if view.any():
                hit = True
                view[...] = False
        return hit

    def _views(self, rectangle: Rectangle) -> list[Array]:
        """The flags of the rectangle, as one view, or by rows where part of it lies outside the used range."""
        if rectangle.owner not in self._flags:
            return []
        base, flags = self._flags[rectangle.owner]
        at = rectangle.offset - base
        if at >= 0 and rectangle.stop - base <= flags.size:
            shape, strides = (rectangle.rows, rectangle.row_nbytes), (rectangle.stride, 1)
            return [np.ndarray(shape, np.bool_, flags, at, strides)]
        starts = (at + row * rectangle.stride for row in range(rectangle.rows))
        return [flags[max(0, start) : max(0, start + rectangle.row_nbytes)] for start in starts]
