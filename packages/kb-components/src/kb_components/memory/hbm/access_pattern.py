"""The pattern of a request on each pseudo-channel: bursts grouped into visits to banks, and repetitions of visits.

The timing of a request depends on the begins of its visits and on the cycles between their column commands. So no state
is kept per burst.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import NamedTuple

from kb_components.memory.hbm.address_bits import AddressMapping
from kb_components.memory.hbm.timing import Timing

Leave = tuple[int, int]
"""(bank, cycles from the first column command of the stretch to the last column command of a visit to the bank)."""
Visit = tuple[int, int, int, tuple[Leave, ...]]
"""(bank, row, cycles from the first column command of the stretch, visits that end before the next visit begins).

A visit is a sequence of bursts of one row of a bank without a burst of another row of the bank between them.
"""


class Stretch(NamedTuple):
    """Bursts of one pseudo-channel in the order of their addresses. Rows count from the row of the first burst."""

    visits: tuple[Visit, ...]
    length: int
    n_bursts: int
    first_group: int
    last_group: int
    last_bank: int
    banks: tuple[int, ...]


class Run(NamedTuple):
    """A stretch that is repeated *repeat* times, first at row *row* and then each time *row_step* rows higher."""

    stretch: Stretch
    row: int
    repeat: int
    row_step: int


class _Piece(NamedTuple):
    """`rows` runs of bursts, `stride` bytes apart from byte `base` on, all `repeat` times, `step` bytes apart."""

    base: int
    rows: int
    row_nbytes: int
    stride: int
    repeat: int = 1
    step: int = 0


def runs_of(
    mapping: AddressMapping, timing: Timing, burst_nbytes: int, rectangle: tuple[int, int, int, int]
) -> list[tuple[int, list[Run]]]:
    """The runs, in order, of each pseudo-channel that *rectangle* (offset, rows, row_nbytes, stride) touches.

    Repetitions are found by the period of the mapping: `below_row` bursts later, the same banks come in the same order,
    one row higher.
    """
    found: dict[int, list[Run]] = {}
    period = mapping.below_row * burst_nbytes
    for piece in _pieces(mapping, burst_nbytes, *rectangle):
        for channel, row, stretch in _stretches(mapping, timing, burst_nbytes, piece):
            found.setdefault(channel, []).append(Run(stretch, row, piece.repeat, piece.step // period))
    return sorted(found.items())


def _pieces(
    mapping: AddressMapping, burst_nbytes: int, base: int, rows: int, row_nbytes: int, stride: int
) -> Iterator[_Piece]:
    period = mapping.below_row * burst_nbytes
    top = period * mapping.n_rows
    if rows == 1 or stride == row_nbytes:
        yield from _contiguous(base, rows * row_nbytes, period, top, burst_nbytes)
    elif row_nbytes >= 2 * period:
        # A row of the rectangle is longer than two periods: each is its own contiguous piece.
        for row in range(rows):
            yield from _contiguous(base + row * stride, row_nbytes, period, top, burst_nbytes)
    else:
        # After this many rows of the rectangle the mapping comes to the same banks, some rows of DRAM higher.
        unit = period // gcd(stride, period)
        repeat = rows // unit
        if stride == 0 or repeat < 2 or base // top != (base + (rows - 1) * stride + row_nbytes - 1) // top:
            unit, repeat = rows, 1
        yield _Piece(base, unit, row_nbytes, stride, repeat, unit * stride)
        if unit * repeat < rows:
            yield _Piece(base + unit * repeat * stride, rows - unit * repeat, row_nbytes, stride)


def _contiguous(base: int, nbytes: int, period: int, top: int, burst_nbytes: int) -> Iterator[_Piece]:
    end = -(-(base + nbytes) // burst_nbytes) * burst_nbytes
    base -= base % burst_nbytes
    while base < end:
        repeat, rest = divmod(min(end, (base // top + 1) * top) - base, period)
        if repeat:
            yield _Piece(base, 1, period, period, repeat, period)
            base += repeat * period
        if rest:
            yield _Piece(base, 1, rest, rest)
            base += rest


def _stretches(
    mapping: AddressMapping, timing: Timing, burst_nbytes: int, piece: _Piece
) -> Iterator[tuple[int, int, Stretch]]:
    channels: dict[int, _Builder] = {}
    for row in range(piece.rows):
        first = piece.base + row * piece.stride
        for burst in range(first // burst_nbytes, (first + piece.row_nbytes - 1) // burst_nbytes + 1):
            channel, bank, dram_row = mapping.place(burst)
            builder = channels.get(channel)
            if builder is None:
                builder = channels[channel] = _Builder(timing, mapping.banks_per_group, bank, dram_row)
            builder.add(bank, dram_row)
    for channel, builder in channels.items():
        yield channel, builder.row, builder.stretch()


class _Builder:
    """Collects the bursts of one pseudo-channel into a stretch."""

    def __init__(self, timing: Timing, banks_per_group: int, bank: int, row: int) -> None:
        self.row = row
        self._per_group = banks_per_group
        self._ccd_s, self._ccd_l = timing.ccd_s, timing.ccd_l
        self._visits: list[tuple[int, int, int, list[Leave]]] = []
        self._open: dict[int, int] = {}
        self._left: dict[int, tuple[int, int]] = {}  # bank -> (the visit begun last by then, cycles) of its last burst
        self._cycles = self._n_bursts = 0
        self._bank = self._first_bank = bank

    def add(self, bank: int, row: int) -> None:
        if self._n_bursts:
            same = bank // self._per_group == self._bank // self._per_group
            self._cycles += self._ccd_l if same else self._ccd_s
        if self._open.get(bank) != row:
            self._flush(bank)
            self._open[bank] = row
            self._visits.append((bank, row - self.row, self._cycles, []))
        self._left[bank] = len(self._visits) - 1, self._cycles
        self._bank = bank
        self._n_bursts += 1

    def _flush(self, bank: int) -> None:
        if bank in self._left:
            visit, cycles = self._left.pop(bank)
            self._visits[visit][3].append((bank, cycles))

    def stretch(self) -> Stretch:
        for bank in list(self._left):
            self._flush(bank)
        return Stretch(
            visits=tuple((bank, row, cycles, tuple(leaves)) for bank, row, cycles, leaves in self._visits),
            length=self._cycles,
            n_bursts=self._n_bursts,
            first_group=self._first_bank // self._per_group,
            last_group=self._bank // self._per_group,
            last_bank=self._bank,
            banks=tuple(self._open),
        )
