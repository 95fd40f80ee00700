"""Steps as a rehearsal wrote them down: what they have in common, and the addresses in which they differ."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from kb_engine.program.symbols import Ints, Peers, Symbol, plain
from kb_engine.template.addresses import GivenAddress
from kb_engine.template.holes import Build, Holes
from kb_engine.template.steps import (
    Allocation,
    KeptTile,
    LoadLook,
    PendingMark,
    Put,
    Release,
    Step,
    Submission,
    Wait,
    maker,
)
from kb_engine.template.template import Told
from kb_engine.template.tracing import Tape
from kb_messages import Matrix, VectorProgram


class RawValue(NamedTuple):
    """A value of a step, with its symbols and the addresses that the program was given.

    Values that differ in `addresses` in memory alone have a `kind` in common. TCM is named in it by its place among all
    that the program holds then.
    """

    value: Any
    kind: Hashable
    addresses: Sequence[Any]

    def __call__(self, *_: object) -> Any:
        """As what Holes make of it."""
        return self.value


def is_given(address: object) -> bool:
    """Whether *address*, which may pass for an integer, is one that the program was given."""
    return type(address) is GivenAddress


class RawHoles(Holes):
    """Leaves values as they are. *held* is the TCM that the program holds now, by the numbers by which it was given."""

    def __init__(self, peers: Peers, held: Mapping[int, object]) -> None:
        super().__init__(peers)
        self._held = held
        self._programs: dict[int, tuple[VectorProgram, int]] = {}
        self._kinds: dict[Hashable, int] = {}

    def cut(self, value: Any) -> tuple[Any, Any]:
        """As `Holes.cut`, but it makes a RawValue, and only a matrix in memory is as the traced program has it."""
        addresses: list[Any] = []
        raw = RawValue(value, self._kind(value, addresses), addresses)
        is_in_memory = type(value) is Matrix and not is_given(value.address)
        return (_fixed(value) if is_in_memory else value), raw

    def _kind(self, value: Any, addresses: list[Any]) -> Hashable:
        if type(value) is Matrix:
            place = self._place(value.address, addresses)
            sizes = plain(value.rows), plain(value.cols), plain(value.stride)
            virtual = None if value.virtual is None else self._kind(value.virtual, addresses)
            return place, sizes, id(value.dtype), virtual
        if isinstance(value, Enum):
            return id(value)
        if isinstance(value, VectorProgram):
            return self._program(value)
        if isinstance(value, tuple):
            return tuple([self._kind(each, addresses) for each in value])
        if isinstance(value, Struct):
            return self._fields(value, addresses)
        if is_given(value):
            return self._place(value, addresses)
        value = plain(value)
        return type(value), value.hex() if isinstance(value, float) else value

    def _place(self, address: Any, addresses: list[Any]) -> Hashable:
        if type(address) is GivenAddress:
            return list(self._held).index(address.slot), address.offset
        addresses.append(address)
        return None

    def _fields(self, value: Struct, addresses: list[Any]) -> Hashable:
        found: list[Hashable] = [type(value)]
        for name in value.__struct_fields__:
            each = getattr(value, name)
            if each is None or type(each) is bool or (type(each) is tuple and not each):
                found.append(each)
            else:
                found.append(self._place(each, addresses) if name == "address" else self._kind(each, addresses))
        return tuple(found)

    def _program(self, program: VectorProgram) -> int:
        """A number for all programs that are alike. Many commands share one, which is looked at once."""
        known = self._programs.get(id(program))
        if known is None:
            inside: list[Any] = []
            kind = self._fields(program, inside), tuple(inside)
            known = self._programs[id(program)] = program, self._kinds.setdefault(kind, len(self._kinds))
        return known[1]


def _fixed(matrix: Matrix) -> Matrix:
    """*matrix* as the traced program has it."""
    address: Any = matrix.address
    if type(address) is Symbol:
        address = address.here
    rows, cols, stride = plain(matrix.rows), plain(matrix.cols), plain(matrix.stride)
    return Matrix(address=address, rows=rows, cols=cols, stride=stride, dtype=matrix.dtype, virtual=matrix.virtual)


class RawStep(NamedTuple):
    """A step, its `kind`, which steps have in common that differ in addresses alone, and these addresses.

    Given TCM is named in the kind by its place among all that the program holds then. `holds` is that TCM before the
    step, by the numbers by which it was given. `given` is the number by which the step itself is given some, or -1.
    """

    step: Step
    kind: Hashable
    addresses: Sequence[Any]
    holds: Sequence[int]
    given: int


def raw_steps(tape: Tape) -> list[RawStep] | None:
    """The steps of *tape*, whose holes are RawHoles; None for a program that holds more than TCM.

    A Wait counts commands from the last one backwards, so it is the same step in each turn.
    """
    found: list[RawStep] = []
    holds: list[int] = []
    n_given = n_issued = 0
    for step in tape.steps:
        before, given = tuple(holds), -1
        raw: Sequence[Any] = ()  # RawValues, because RawHoles made them
        kind: Hashable
        if isinstance(step, Allocation):
            kind, given = step, n_given
            holds.append(given)
            n_given += 1
        elif isinstance(step, Release):
            kind = before.index(step.slot)
            holds.remove(step.slot)
        elif isinstance(step, Submission):
            kind, raw = (step.line, step.waits, tuple([before.index(slot) for slot in step.keeps])), [step.command]
            n_issued += 1
        elif isinstance(step, Wait):
            kind = step = step._replace(number=step.number - n_issued)
        elif isinstance(step, PendingMark):
            kind, raw = step.producer, [step.matrix]
        elif isinstance(step, LoadLook):
            kept = step.kept
            kind = step.line, None if kept is None else (before.index(kept.slot), kept.made)
            raw = step.matrices
        elif isinstance(step, Put):
            kind, raw = (before.index(step.slot), step.part), [step.matrix]
        else:
            return None
        kinds = type(step), kind, *[each.kind for each in raw]
        found.append(RawStep(step, kinds, [place for each in raw for place in each.addresses], before, given))
    return found


def ends_of_turns(steps: Sequence[RawStep]) -> list[bool]:
    """For each of *steps*, whether a turn may end with it: a command is the last that the turn tells the memory of, and
    the next turn waits for none of this one."""
    found, is_told, commands = list[bool](), True, list[int]()
    for number, (step, *_) in enumerate(steps):
        found.append(isinstance(step, Submission) or (isinstance(step, Wait) and is_told))
        if isinstance(step, Submission):
            commands.append(number)
        elif isinstance(step, Wait):
            issued_at = commands[step.number]
            found[issued_at:number] = [False] * (number - issued_at)
        is_told = isinstance(step, Submission) or (is_told and not isinstance(step, Told))
    return found


def tape_of(turns: Sequence[Sequence[RawStep]], sizes: Mapping[int, int], n_pes: int) -> Tape:
    """The steps of the first of *turns*, for that of each of *n_pes* programs and the others like it.

    Turn t of program p has the number `t * n_pes + p`. *sizes* are those of the TCM that is given.
    """
    first = turns[0]
    peers = Peers(0, len(turns) * n_pes)
    holds = first[0].holds if first else ()
    tape = Tape(peers, carried=[sizes[slot] for slot in holds])
    slots = {slot: number for number, slot in enumerate(holds)}
    n_issued = 0
    for number, raw in enumerate(first):
        n_issued += isinstance(raw.step, Submission)
        if isinstance(raw.step, Wait) and n_issued + raw.step.number < 0:
            peers.leave("waits for a command of an earlier turn")
        addresses = zip(*(turn[number].addresses for turn in turns), strict=True)
        columns = iter([_column(each, peers, n_pes) for each in addresses])
        if raw.given >= 0:
            slots[raw.given] = len(slots)
        tape.steps.append(_moved(raw.step, slots, columns, tape))
    return tape


def _column(addresses: Sequence[Any], peers: Peers, n_pes: int) -> Symbol:
    """The addresses of all turns, of all programs."""
    values = np.array([_by_program(each, n_pes) for each in addresses], dtype=np.int64).reshape(-1)
    return Symbol(peers, values, int(np.abs(values).max()))


def _by_program(address: Any, n_pes: int) -> Ints:
    return address.values if type(address) is Symbol else np.full(n_pes, address, dtype=np.int64)


def _moved(step: Step, slots: dict[int, int], columns: Iterator[Symbol], tape: Tape) -> Step:
    """*step* with other numbers of what is given, and with *columns* for its addresses."""

    def cut(raw: Any) -> Build:
        return maker(tape.holes.cut(_filled(raw.value, slots, columns, tape.peers)))

    if isinstance(step, Release):
        return Release(slots[step.slot])
    if isinstance(step, PendingMark):
        return PendingMark(cut(step.matrix), step.producer)
    if isinstance(step, LoadLook):
        kept = None if step.kept is None else KeptTile(slots[step.kept.slot], step.kept.made)
        return LoadLook(tuple([cut(each) for each in step.matrices]), step.line, kept)
    if isinstance(step, Put):
        return Put(cut(step.matrix), slots[step.slot], step.part)
    if not isinstance(step, Submission):
        return step
    return Submission(cut(step.command), step.line, step.waits, tuple([slots[each] for each in step.keeps]))


def _filled(value: Any, slots: Mapping[int, int], columns: Iterator[Symbol], peers: Peers) -> Any:
    if type(value) is GivenAddress:
        return GivenAddress(peers, slots[value.slot], value.offset, value.value)
    if isinstance(value, tuple):
        return tuple([_filled(each, slots, columns, peers) for each in value])
    if not isinstance(value, Struct) or isinstance(value, VectorProgram):
        return value
    fields: dict[str, Any] = {}
    for name in value.__struct_fields__:
        each = getattr(value, name)
        is_place = name == "address" and type(each) is not GivenAddress
        fields[name] = next(columns) if is_place else _filled(each, slots, columns, peers)
    return type(value)(**fields)
