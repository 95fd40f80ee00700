"""Copies of many periods at once: where none meets bytes of another one, their order makes no difference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, cycle
from typing import Any, Final, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from kb_engine.memory.device_memory import DeviceMemory
from kb_engine.memory.tiles import TilePart
from kb_engine.program.pe_port import PePort
from kb_engine.program.symbols import Ints
from kb_engine.template import HeldFrom, Loaded, LoadLook, PendingMark, Put, Repetition, Told
from kb_engine.template.holes import Build
from kb_messages import OFFSET_BITS, OFFSET_MASK, KbError, Matrix, Rectangle

_TILES_AT_ONCE: Final = 256
"""Tiles that are read before they are written."""
_UNKNOWN: Final = -1
LoadedBy: TypeAlias = Mapping[int, Mapping[int, Loaded]]
"""What programs have loaded, by their numbers, and there by the numbers of the TCM."""


class ToldStep(NamedTuple):
    """A step of program number `program` of a period, at `port`. The program was `given` addresses.

    `numbers` are those of the program, and of the one that does the same in each period that follows.
    """

    program: int
    step: Told
    given: Sequence[int]
    port: PePort
    numbers: Sequence[list[int]]

    @property
    def memory(self) -> DeviceMemory:
        """What the step tells something."""
        return self.port.memory

    def repeated(self, i: int, loaded: dict[int, Loaded] | None = None) -> Repetition:
        """The program that does the same *i* periods later, and has *loaded* that much."""
        run = Repetition(self.port, self.numbers[i], loaded=loaded)
        run.given += self.given
        return run


class Spread(NamedTuple):
    """A matrix of a step in each of the periods that follow: `first` in the first one, and the addresses of all."""

    first: Matrix
    bases: Ints

    @classmethod
    def of(cls, told: ToldStep, make: Build, n: int) -> Spread:
        """What *make* makes in the next *n* periods."""
        columns = list(np.array(told.numbers[1 : n + 1], dtype=np.int64).T)  # matrices of all periods at once
        first: Matrix = make(told.numbers[1], told.given)
        address: Any = make(columns, told.given).address
        return cls(first, np.broadcast_to(np.asarray(address, dtype=np.int64), n))

    @property
    def span_nbytes(self) -> int:
        """From the first byte to the last one in a period."""
        shape = self.first.rectangle
        return shape.end - shape.base

    @property
    def hull(self) -> Rectangle | None:
        """From the first byte of any period to the last one, in one row; None where they lie in several memories."""
        low, high = int(self.bases.min()), int(self.bases.max())
        nbytes = high - low + self.span_nbytes
        return Rectangle(low, 1, nbytes, nbytes) if low >> OFFSET_BITS == high >> OFFSET_BITS else None

    def is_whole(self, memory: DeviceMemory) -> bool:
        """Whether *memory* has one run of bytes, none of them unknown or misaligned, with those of all periods."""
        hull, dtype = self.hull, self.first.dtype
        if hull is None or bool((self.bases % dtype.nbytes).any()):
            return False
        try:
            return memory.store.place(*hull.in_memory) is not None
        except KbError:  # not all of that is in the memory
            return False

    def is_known(self, memory: DeviceMemory) -> bool:
        """Whether no byte in any period, or between them, is pending in *memory*."""
        return self.hull is not None and memory.pending.producer_of(self.hull) is None

    def of_periods(self, periods: Sequence[int]) -> Spread:
        """The matrix in *periods*, counted from 0."""
        return self._replace(bases=self.bases[periods])

    def offsets(self, periods: Sequence[int]) -> list[int]:
        """Where the matrix begins in its memory in *periods*, counted from 0."""
        offsets: list[int] = (self.bases[periods] & OFFSET_MASK).tolist()
        return offsets

    def read(self, memory: DeviceMemory, periods: Sequence[int]) -> npt.NDArray[Any]:
        """The elements in *periods*, counted from 0."""
        owner, _, rows, row_nbytes, stride = self.first.rectangle.in_memory
        return memory.store.read_each(owner, self.offsets(periods), rows, row_nbytes, stride, self.first.dtype)


class _Load(NamedTuple):
    program: int
    memory: DeviceMemory
    spread: Spread


class _Store(NamedTuple):
    """A store of a part of what `load` brings some periods before. `early` is what was loaded before the first period:
    for the first stores, or for all of them where there is no load.
    """

    memory: DeviceMemory
    spread: Spread
    part: TilePart | None
    load: Spread | None
    early: Sequence[npt.NDArray[Any]]


class CopiesAtOnce:
    """The steps *told* of a period, in the *n* periods that follow, each of *by* programs.

    *loaded* is what programs that run at the begin have loaded, and *before* tells that of those that begin then.
    *origin* tells where the TCM is from that a program holds by some number. `marks` are the steps that mark bytes as
    pending, which are not done.
    """

    def __init__(
        self,
        told: Sequence[ToldStep],
        n: int,
        by: int,
        loaded: LoadedBy,
        before: Callable[[int], Mapping[int, Loaded]],
        origin: Callable[[int], HeldFrom],
    ) -> None:
        self._n, self._by = n, by
        self._loaded, self._before, self._origin = loaded, before, origin
        self.marks = [each for each in told if isinstance(each.step, PendingMark)]
        self._told = [each for each in told if not isinstance(each.step, PendingMark)]
        self._loads: dict[tuple[int, int], _Load] = {}

    def do(self) -> dict[int, dict[int, Loaded]] | None:
        """Copy, and return what the programs have loaded that run then, by those that run at the begin.

        None where the order of the steps may matter. Then nothing is done.
        """
        if not all(self._takes_load(each, each.step) for each in self._told if isinstance(each.step, LoadLook)):
            return None
        stores = [self._store(each, each.step) for each in self._told if isinstance(each.step, Put)]
        kept = {number: self._kept_by(number) for number in self._loaded}
        if None in stores or None in kept.values():
            return None
        copies = cast(list[_Store], stores)
        periods = _last_ones([each.spread for each in copies])
        if self._meet([each.spread.of_periods(mine) for each, mine in zip(copies, periods, strict=True)]):
            return None
        for each, mine in zip(copies, periods, strict=True):
            _write(each, mine)
        return cast(dict[int, dict[int, Loaded]], kept)

    def _takes_load(self, told: ToldStep, look: LoadLook) -> bool:
        """Note a load. False if its bytes may be pending or unknown, or it is not one of a matrix."""
        kept = look.kept
        if kept is None or kept.made is not None or len(look.matrices) > 1:
            return False
        spread = Spread.of(told, look.matrices[0], self._n)
        self._loads[told.program % self._by, kept.slot] = _Load(told.program, told.memory, spread)
        return spread.is_whole(told.memory) and spread.is_known(told.memory)

    def _store(self, told: ToldStep, put: Put) -> _Store | None:
        """A store as it is done; None if its bytes may be pending, or where it is not known what it stores."""
        spread = Spread.of(told, put.matrix, self._n)
        load, back = self._load_of(told.program, put.slot)
        if back < 0 or not spread.is_known(told.memory):
            return None
        early = []
        for period in range(1, back + 1):
            found = self._before(told.program + period * self._by).get(put.slot)
            if found is None or found.known is None:
                return None
            early.append(found.known)
        return _Store(told.memory, spread, put.part, None if load is None else load.spread, early)

    def _load_of(self, program: int, slot: int) -> tuple[_Load | None, int]:
        """The load of what *program* holds by number *slot*, and how many periods before it was.

        There is no load where programs hold the same in all periods. A negative number stands for what is not known.
        """
        origin = self._origin(slot)
        given_to = program - origin.before
        load = self._loads.get((given_to % self._by, origin.slot))
        if load is None:
            return None, 1 if origin.stays else _UNKNOWN
        return load, (load.program - given_to) // self._by

    def _kept_by(self, number: int) -> dict[int, Loaded] | None:
        """What the program has loaded that does then what program *number* does now; None if that is not known."""
        found = {}
        for slot, each in self._loaded[number].items():
            load, back = self._load_of(number, slot)
            if not 0 <= back < self._n:
                return None
            if load is None:
                found[slot] = each
            else:
                tile = load.spread.read(load.memory, [self._n - 1 - back])[0]
                found[slot] = Loaded(None, tile.copy())
        return found

    def _meet(self, stores: Sequence[Spread]) -> bool:
        """Whether a store meets another one or a load, or bytes that are marked meet any of these."""
        written = begins, ends = _spans(stores)
        order = begins.argsort()
        if bool((begins[order][1:] < ends[order][:-1]).any()):
            return True
        loads = [each.spread for each in self._loads.values()]
        marks = [Spread.of(each, cast(PendingMark, each.step).matrix, self._n) for each in self.marks]
        return _share_bytes(written, _spans(loads + marks)) or _share_bytes(_spans(loads), _spans(marks))


def _last_ones(stores: Sequence[Spread]) -> list[list[int]]:
    """For each of *stores*, the periods in which none of the same bytes follows."""
    shapes = [each.first.rectangle.in_memory[2:] for each in stores]
    places = [*zip(*(each.bases.tolist() for each in stores), strict=True)]
    last = {place: at for at, place in enumerate(zip(chain.from_iterable(places), cycle(shapes)))}
    periods: list[list[int]] = [[] for _ in stores]
    for at in sorted(last.values()):
        periods[at % len(stores)].append(at // len(stores))
    return periods


def _spans(spreads: Sequence[Spread]) -> tuple[Ints, Ints]:
    """From where to where each matrix of *spreads* lies."""
    begins = [np.empty(0, dtype=np.int64), *[each.bases for each in spreads]]
    ends = [begins[0], *[each.bases + each.span_nbytes for each in spreads]]
    return np.concatenate(begins), np.concatenate(ends)


def _share_bytes(some: tuple[Ints, Ints], others: tuple[Ints, Ints]) -> bool:
    """Whether one of *some* spans has a byte of one of the *others*: one that begins before its end has not ended."""
    begun = np.sort(others[0]).searchsorted(some[1], side="left")
    ended = np.sort(others[1]).searchsorted(some[0], side="right")
    return bool((begun > ended).any())


def _write(store: _Store, periods: Sequence[int]) -> None:
    """Do *store* in *periods*, which ascend."""
    memory, spread, early = store.memory, store.spread, store.early
    owner, _, rows, _, stride = spread.first.rectangle.in_memory
    for begin in range(0, len(periods), _TILES_AT_ONCE):
        mine = periods[begin : begin + _TILES_AT_ONCE]
        if store.load is None:
            tiles: Sequence[npt.NDArray[Any]] = [early[0]] * len(mine)
        else:
            later = [each - len(early) for each in mine if each >= len(early)]
            tiles = [early[each] for each in mine if each < len(early)]
            tiles = [*tiles, *store.load.read(memory, later)] if later else tiles
        parts = tiles if store.part is None else [store.part.of(each) for each in tiles]
        memory.store.write_each(owner, spread.offsets(mine), [each.reshape(rows, -1) for each in parts], stride)
