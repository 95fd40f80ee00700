"""Buffer slots: a region of TCM or of the register file, handed to tiles in turn.

A command cuts a region into slots of its tile's size, and its tiles take the slots round robin. Two commands with
different tile sizes cut the region differently. A slot is then free when none of its bytes are live under another cut.

A tile whose slot is not free takes other bytes of the region, if enough of them are free in one piece. So a tile waits
for bytes, and never for a certain place.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kb_dataexec.log.compressed import SlotRing
from kb_engine.block.state_visitor import StateVisitor
from kb_messages import HeldSum, Place

_ELSEWHERE: Final = "elsewhere"
"""The cut of all claims that lie in no slot."""


class Slots(Struct, frozen=True):
    """`count` slots of `nbytes` each, from `base` on. Piece i of a command takes slot `(first + i) % count`."""

    base: int
    nbytes: int
    count: int
    first: int = 0

    def turned(self, by: int) -> Slots:
        """The slots, turned so that piece 0 takes the slot *by* slots later."""
        return Slots(self.base, self.nbytes, self.count, (self.first + by) % self.count)

    def offset(self, number: int) -> int:
        """The offset of the slot of piece *number*."""
        return self.base + (self.first + number) % self.count * self.nbytes

    def number(self, offset: int, nbytes: int) -> int | None:
        """The lowest number of a piece whose slot is the *nbytes* at *offset*; None where they are no slot."""
        slot, rest = divmod(offset - self.base, self.nbytes)
        return None if rest or nbytes != self.nbytes or not 0 <= slot < self.count else (slot - self.first) % self.count


@lru_cache(maxsize=1 << 12)
def _slots(base: int, nbytes: int, count: int, first: int) -> Slots:
    """The one object for these slots, of all PEs."""
    return Slots(base, nbytes, count, first)


class Ring:
    """Cuts a region into slots, command after command. A cut equal to the last one goes on where that one stopped."""

    __slots__ = ("_last", "_pieces")

    def __init__(self) -> None:
        self._last: Slots | None = None
        self._pieces = 0

    def state(self) -> tuple[Slots | None, int]:
        """The present state of the ring, for `put_back`."""
        return self._last, self._pieces

    def put_back(self, state: tuple[Slots | None, int]) -> None:
        """Restores *state*, and so undoes later cuts."""
        self._last, self._pieces = state

    def visit_state(self, over: StateVisitor, pe_id: str) -> tuple[Slots, Slots] | None:
        """Hands the ring to *over*, between programs of a grid. Returns the last cut before and after the visit."""
        over.same(self._last is None)
        if self._last is None:
            return None
        before, self._last = self._last, over.ring(self._last, self._pieces, pe_id)
        return before, self._last

    def cut(self, base: int, nbytes: int, count: int, pieces: int) -> Slots:
        """The slots for a command that will take *pieces* of them in turn."""
        last, first = self._last, 0
        if last is not None and last.base == base and last.nbytes == nbytes and last.count == count:
            first = (last.first + self._pieces) % count
        if last is None or last.first != first or last.nbytes != nbytes or last.count != count or last.base != base:
            last = self._last = _slots(base, nbytes, count, first)
        self._pieces = pieces
        return last


class Region:
    """Bytes that tiles claim and free. Two live claims never overlap. `live_nbytes` counts the bytes claimed now.

    `_unlike` counts how often it mattered where slots lie: a claim met claims of another cut, or took bytes outside of
    slots while others were live.
    """

    __slots__ = ("_cut", "_live", "_others", "_unlike", "base", "live_nbytes", "nbytes")

    def __init__(self, base: int, nbytes: int) -> None:
        self.base = base
        self.nbytes = nbytes
        self._cut: Hashable = None
        self._live: dict[int, int] = {}
        self._others: dict[Hashable, dict[int, int]] = {}
        self._unlike = 0
        self.live_nbytes = 0

    def claim(self, cut: Hashable, offset: int, nbytes: int) -> bool:
        """Claims the bytes from *offset* on. Returns whether no byte of them was live.

        *cut* names the way the region is divided: two claims of one cut are equal or disjoint.
        """
        if cut is not self._cut and cut != self._cut:
            self._divide(cut)
        live = self._live
        if self._others:
            self._unlike += 1
            if _overlap(self._others.values(), offset, nbytes):
                return False
        if offset in live:
            return False
        live[offset] = nbytes
        self.live_nbytes += nbytes
        return True

    def claim_elsewhere(self, nbytes: int, base: int = 0, end: int | None = None) -> int | None:
        """Takes the first *nbytes* from *base* on and before *end* that are free in one piece, in slots or not.

        Returns their offset, or None.
        """
        self._unlike += 1
        offset = self.room_for(nbytes, base, end)
        if offset is not None:
            self._others.setdefault(_ELSEWHERE, {})[offset] = nbytes
            self.live_nbytes += nbytes
        return offset

    def claim_at(self, offset: int, nbytes: int) -> bool:
        """Claims the bytes from *offset* on, in a slot or not. Returns whether no byte of them was live."""
        if self.live_nbytes:
            self._unlike += 1
        if not self.is_free(offset, nbytes):
            return False
        self._others.setdefault(_ELSEWHERE, {})[offset] = nbytes
        self.live_nbytes += nbytes
        return True

    def room_for(self, nbytes: int, base: int = 0, end: int | None = None) -> int | None:
        """The offset from *base* on, and before *end*, at which `claim_elsewhere` would take *nbytes*, or None."""
        if self.live_nbytes + nbytes > self.nbytes:
            return None
        gaps = ((max(begin, base), stop if end is None else min(stop, end)) for begin, stop in self._gaps())
        return next((begin for begin, stop in gaps if stop - begin >= nbytes), None)

    def is_free(self, offset: int, nbytes: int) -> bool:
        """Whether no byte of the *nbytes* from *offset* on is claimed."""
        return not _overlap((self._live, *self._others.values()), offset, nbytes)

    def free(self, offset: int) -> None:
        """Gives back the claim at *offset*. Raises KeyError when there is none."""
        nbytes = self._live.pop(offset, None)
        self.live_nbytes -= self._free_other(offset) if nbytes is None else nbytes

    def visit_state(self, over: StateVisitor, rings: list[tuple[Place, SlotRing | None]]) -> None:
        """Hands the claims to *over*. Claims lie in slots of *rings*, or elsewhere."""
        over.same(self._cut, self.live_nbytes)
        self._live = over.places(self._live, rings)
        over.same(len(self._others))
        for cut, claims in self._others.items():
            over.same(cut, *claims.items())

    def visit_programs(self, over: StateVisitor, rings: Sequence[tuple[Slots, Slots] | None] = ()) -> None:
        """Hands the claims to *over*, between programs of a grid. *rings* are the last cuts before and after the visit.

        A claim in a slot of a ring moves to the slot of the same piece. All other claims stay.
        """
        found, claims = dict[int, int](), []
        for offset, nbytes in self._live.items():
            at, which, number = offset, -1, None
            for place, ring in enumerate(rings):
                number = None if ring is None else ring[0].number(offset, nbytes)
                if ring is not None and number is not None:
                    at, which = ring[1].offset(number), place
                    break
            found[at] = nbytes
            claims.append((which, at if number is None else number, nbytes))
        over.same(self._cut, self.live_nbytes, sorted(claims))
        over.same([(cut, sorted(others.items())) for cut, others in self._others.items()])
        over.unlike(self._unlike)
        self._live = found

    def _gaps(self) -> Iterator[tuple[int, int]]:
        """The begin and the end of each piece that is free."""
        begin = self.base
        for offset, nbytes in sorted(
            claim for claims in (self._live, *self._others.values()) for claim in claims.items()
        ):
            if offset > begin:
                yield begin, offset
            begin = offset + nbytes
        if begin < self.base + self.nbytes:
            yield begin, self.base + self.nbytes

    def _divide(self, cut: Hashable) -> None:
        """Makes *cut* the current one. From now on each claim is compared with the live claims of other cuts."""
        self._unlike += 1
        if self._live:
            self._others[self._cut] = self._live
        self._cut, self._live = cut, self._others.pop(cut, {})

    def _free_other(self, offset: int) -> int:
        for cut, claims in self._others.items():
            if offset in claims:
                nbytes = claims.pop(offset)
                if not claims:
                    del self._others[cut]
                return nbytes
        raise KeyError(offset)


def _overlap(cuts: Iterable[dict[int, int]], offset: int, nbytes: int) -> bool:
    end = offset + nbytes
    return any(
        offset in claims or any(offset < at + size and at < end for at, size in claims.items()) for claims in cuts
    )


class Placement(Struct, kw_only=True, gc=False):
    """The buffer slots that a command's tiles take in turn. A slot is None where the plan needs none.

    `moved` has the offsets of pieces that lie in no slot, because their slot was not free: by place, and by the number
    of the piece (the tile's id, or the number of its output for output buffers and accumulators). `operands_held` and
    `sums_held` count the operand slots and the accumulators that the command's tiles hold now.

    `input_cut` and `register_cut` name the way the input buffers and the register file are divided for the command.
    `panel` has the slots of the panels that tiles share. `held` is the sum in registers that begins with the command,
    or None, and `register_room` the bytes of registers below all sums that are held. `claimed_by` has the index of the
    stage that claims registers, by kind of tile, or None where the type of the stage says it.
    """

    input: Slots | None = None
    panel: Slots | None = None
    output: Slots | None = None
    registers: Slots | None = None
    accumulators: Slots | None = None
    input_cut: tuple[int, int, int] | None = None
    register_cut: tuple[int, int, int] | None = None
    claimed_by: tuple[int, ...] | None = None
    held: HeldSum | None = None
    register_room: int | None = None
    moved: dict[Place, dict[int, int]] = {}
    operands_held: int = 0
    sums_held: int = 0

    def turned(self, operands: int, sums: int) -> Placement:
        """The placement whose slots of operands and of sums begin so many slots later."""
        if not operands and not sums:
            return self
        registers, accumulators = self.registers, self.accumulators
        return replace(
            self,
            registers=registers and registers.turned(operands),
            accumulators=accumulators and accumulators.turned(sums),
        )

    @property
    def firsts(self) -> tuple[int, ...]:
        """The first slot of each cut."""
        cuts = self.input, self.panel, self.output, self.registers, self.accumulators
        return tuple([-1 if each is None else each.first for each in cuts])

    def move(self, place: Place, number: int, offset: int) -> None:
        """Notes that piece *number* lies at *offset* instead of its slot."""
        self.moved.setdefault(place, {})[number] = offset
