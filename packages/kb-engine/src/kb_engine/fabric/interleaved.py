"""Transfers of interleaved bytes: one request for each slice that has some of them, all at once.

The requests of one transfer share the links on which they meet, like requests of several blocks. The transfer is done
when its last request is done. A transfer of bytes in one slice is a single request.

Design: docs/design/memories.md
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final

from kb_engine.block.state_visitor import (
    CALL,
    MOMENT_OR_NONE,
    OP,
    SAME,
    TOKEN,
    State,
    Stateful,
    StateKind,
    StateVisitor,
    moment_or_none,
)
from kb_engine.fabric.link import LinkState
from kb_engine.fabric.paths import Hop, MemoryPath
from kb_messages import OFFSET_MASK, CountedPieces, Interleaving, Rectangle
from kb_topology import InterleavedRegion


class InterleavedPath:
    """The ways from node `src` to the slices of `region`, and back. `slices` has one for each slice, in order.

    `own_links` are, of reads and of writes, the narrowest link at `src` that all of them share, if there is one.
    """

    __slots__ = ("own_links", "region", "slices", "src")

    def __init__(self, src: str, region: InterleavedRegion, slices: Sequence[MemoryPath]) -> None:
        self.src = src
        self.region = region
        self.slices = slices
        self.own_links = (
            _own_link([path.back.hops[::-1] for path in slices if path.back.hops]),
            _own_link([path.away.hops for path in slices if path.away.hops]),
        )

    def parts(self, memory: Rectangle) -> list[tuple[MemoryPath, Rectangle]]:
        """The way to each slice that has bytes of *memory*, with the rectangle that they are there.

        Of pieces, each run is counted in the slices that it lies in.
        """
        if isinstance(memory, CountedPieces):
            return self._parts_of_pieces(memory)
        region = self.region
        return [
            (self.slices[number], Rectangle(region.slices[number] + offset, rows, row_nbytes, stride))
            for number, offset, rows, row_nbytes, stride in region.interleaving.parts(
                memory.base & OFFSET_MASK, memory.rows, memory.row_nbytes, memory.stride
            )
        ]

    def _parts_of_pieces(self, memory: CountedPieces) -> list[tuple[MemoryPath, Rectangle]]:
        """The parts of pieces by slice. Pieces at the same place in their round of granules are counted once."""
        region, burst_nbytes, pieces = self.region, self.burst_nbytes, memory.pieces
        interleaving, lowest = region.interleaving, min([each.base for each in pieces])
        is_alike = interleaving.granule_nbytes % burst_nbytes == 0  # a round is whole bursts of each slice
        rounds = (lowest & OFFSET_MASK) // interleaving.round_nbytes if is_alike else 0
        origin = lowest - (lowest & OFFSET_MASK) + rounds * interleaving.round_nbytes
        there = tuple([Rectangle(each.base - origin, each.rows, each.row_nbytes, each.stride) for each in pieces])
        by = rounds * interleaving.granule_nbytes
        return [
            (self.slices[number], part.moved(by))
            for number, part in _counted_parts(interleaving, region.slices, burst_nbytes, there)
        ]

    @property
    def burst_nbytes(self) -> int:
        """Bytes of a burst of a slice, equal for all slices."""
        return self.slices[0].memory.burst_nbytes

    def own_link_ps(self, memory: Rectangle, parts: Sequence[tuple[MemoryPath, Rectangle]], write: bool) -> int:
        """Picoseconds of *memory*, of which *parts* are the requests, on the narrowest link at `src` that all of them
        share: that of the node, or its port. 0 if they leave by several links.
        """
        link, leg, nbytes = self.own_links[write], self.slices[0].away, memory.nbytes
        if link is None:
            return 0
        if leg.has_headers:
            nbytes += sum([leg.on_links(part.nbytes) - part.nbytes for _, part in parts])
        return link.rate.ps(nbytes)

    def alone_ps(self, memory: Rectangle, write: bool) -> tuple[int, int]:
        """The times of `MemoryPath.alone_ps` of the slowest slice: the requests go at once."""
        parts = self.parts(memory)
        own_link_ps = self.own_link_ps(memory, parts, write)
        found = [way.alone_ps(part, write, own_link_ps) for way, part in parts]
        return max(whole_ps for whole_ps, _ in found), max(bytes_ps for _, bytes_ps in found)

    @property
    def form_of_idle(self) -> Hashable:
        """What `alone_ps` follows from, besides the rectangle and its place in the memory."""
        own_links = tuple([None if link is None else link.rate.ps_each for link in self.own_links])
        return self.region.interleaving, own_links, tuple([path.form_of_idle for path in self.slices])


@lru_cache(maxsize=512)
def _counted_parts(
    interleaving: Interleaving, starts: tuple[int, ...], burst_nbytes: int, pieces: tuple[Rectangle, ...]
) -> list[tuple[int, CountedPieces]]:
    """Returns (number of the slice, its part) for each slice that has bytes of *pieces*. The slices begin at
    *starts*."""
    found = dict[int, list[Rectangle]]()
    for piece in pieces:
        are_whole_rounds_apart = piece.stride % interleaving.round_nbytes == 0 and piece.row_nbytes < piece.stride
        together = piece.rows == 1 or are_whole_rounds_apart
        for row in (0,) if together else range(piece.rows):
            rows = piece.rows if together else 1
            parts = interleaving.parts(piece.base + row * piece.stride, rows, piece.row_nbytes, piece.stride)
            for number, offset, *sides in parts:
                found.setdefault(number, []).append(Rectangle(starts[number] + offset, *sides))
    return [(number, CountedPieces.of(tuple(parts), burst_nbytes)) for number, parts in sorted(found.items())]


def _own_link(legs: Sequence[Sequence[Hop]]) -> LinkState | None:
    """The narrowest link that all *legs*, from their source on, have: the link of the source, or the port before it."""
    near = [[hop.state for hop in leg[: 2 if leg[0].state.link.is_port else 1]] for leg in legs]
    shared = [state for state in near[0] if all(state in each for each in near)] if near else []
    return min(shared, key=lambda state: state.link.bw_gbs, default=None)


_MOMENTS: Final = range(2, 7)
_BEHIND: Final = 9
"""Columns of a row of `transfers`."""


def visit_row(over: StateVisitor, row: tuple[int, ...]) -> tuple[int, ...]:
    """Hands *row* of the table `transfers` to *over*, and returns the new row.

    *row* is empty where no request has ended yet.
    """
    over.same(len(row))
    if not row:
        return row
    op_id, number = row[:2]
    over.same(number, *row[_MOMENTS.stop : _BEHIND])
    moments = [moment_or_none(over, row[column]) for column in _MOMENTS]
    return over.op(op_id), number, *moments, *row[_MOMENTS.stop : _BEHIND], over.op(row[_BEHIND])


class Gathering(Stateful):
    """The requests of one transfer. *finish* is called with the gathering when the last one is done.

    `argument` is that of the transfer. With an op log, `op_id` is the op of the transfer, -1 for none, and `row` its
    row of `transfers`: that of the request that ends last, of several the first one. `own_link_ps` is the time of all
    bytes on the link that the requests share.
    """

    __slots__ = ("_end_ps", "_finish", "_left", "argument", "op_id", "own_link_ps", "row", "then")
    state: ClassVar[State] = {
        "argument": TOKEN,
        "then": CALL,
        "_left": SAME,
        "own_link_ps": SAME,
        "_end_ps": MOMENT_OR_NONE,
        "op_id": OP,
        "row": StateKind("TRANSFER_ROW", visit_row),
    }

    def __init__(
        self,
        left: int,
        finish: Callable[[Gathering], None],
        then: tuple[Callable[[Any], None], Any],
        own_link_ps: int,
        op_id: int,
    ) -> None:
        self._left = left
        self._finish = finish
        self.own_link_ps = own_link_ps
        self._end_ps = -1
        self.then, self.argument = then
        self.op_id = op_id
        self.row: tuple[int, ...] = ()

    def offer(self, row: tuple[int, ...], end_ps: int) -> None:
        """*row* is that of a request that ends at *end_ps*."""
        if end_ps > self._end_ps:
            self._end_ps, self.row = end_ps, row

    def end(self, _: object) -> None:
        """One request is done now."""
        self._left -= 1
        if not self._left:
            self._finish(self)
