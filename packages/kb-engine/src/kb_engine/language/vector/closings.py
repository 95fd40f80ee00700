"""What closing a vector program does: the ops that it needs, what it stores, and what it leaves for later."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

from kb_engine.language.vector.bounded_cache import BoundedCache
from kb_engine.language.vector.op_pieces import may_be_cut
from kb_engine.language.vector.recorded import RecordedOp, RecordedView, VectorInput, program_of
from kb_messages import VectorProgram

SMALL: Final = 8
"""A value is small if the largest of its program is so many times larger. Source: assumed."""
_CLOSINGS: Final[BoundedCache[tuple[Hashable, ...], Closing]] = BoundedCache()


class Closing(NamedTuple):
    """What closing does, by the places of ops among those that are recorded.

    `program` computes the ops `needed`, and stores those of `leaving`; None where nobody needs an op. Each of its
    inputs is an argument: the place of an op, and that of the argument. The ops `left` stay recorded. A closing that
    `is_simple` has one op, which strips or pieces of rows make fit if anything does.
    """

    program: VectorProgram | None
    needed: tuple[int, ...]
    inputs: tuple[tuple[int, int], ...]
    leaving: tuple[int, ...]
    left: tuple[int, ...]
    is_simple: bool


def closing_of(ops: list[RecordedOp], asked: RecordedOp | None) -> Closing:
    """What closing *ops* does when *asked* is needed, or, with None, all that the kernel can name."""
    signature = _signature(ops, asked)
    return _CLOSINGS.get(signature) or _CLOSINGS.keep(signature, _closing(ops, asked))


def needed_ops(ops: list[RecordedOp], outputs: set[int]) -> list[RecordedOp]:
    """Those of *ops* that *outputs* depend on, and themselves."""
    needed = set(outputs)
    for op in reversed(ops):
        if id(op) in needed:
            needed.update(id(each) for each in _unstored(op))
    return [op for op in ops if id(op) in needed]


def used_ops(ops: list[RecordedOp]) -> set[int]:
    """The ops that make the arguments of *ops*, unless a command has stored them."""
    return {id(each) for op in ops for each in _unstored(op)}


def _signature(ops: list[RecordedOp], asked: RecordedOp | None) -> tuple[Hashable, ...]:
    """All that decides how *ops* are closed when *asked* is needed. Equal for each turn of a loop."""
    numbers: dict[int, int] = {}
    n_inputs = 0
    found: list[Hashable] = []
    for place, op in enumerate(ops):
        numbers[id(op)] = place
        found += (op.function, op.line, op.alive + 2 * op.deferred + 4 * (op is asked))
        for each in op.arguments:
            source = each if type(each) is VectorInput else each.stored or each
            number = numbers.get(id(source))
            if number is None:
                n_inputs += 1
                numbers[id(source)] = -n_inputs
                found.append(source.value)
            else:
                found.append(number)
    return tuple(found)


def _closing(ops: list[RecordedOp], asked: RecordedOp | None) -> Closing:
    """As `closing_of`."""
    outputs = {id(op.root) for op in ops if op is asked or (op.alive and asked is None)}
    if asked is not None:
        outputs |= _chained(ops)
    needed = [op for op in needed_ops(ops, outputs) if not isinstance(op, RecordedView)]
    largest = max((op.value.nbytes for op in needed), default=0)
    named = {id(op.root) for op in ops if op.alive}
    outputs.update(id(op) for op in needed if id(op) in named and op.value.nbytes * SMALL <= largest)
    left = [op for op in needed_ops(ops, {id(op) for op in ops if op.alive}) if id(op) not in outputs]
    place = {id(op): number for number, op in enumerate(ops)}
    places, rest = (tuple(place[id(op)] for op in chosen) for chosen in (needed, left))
    if not needed:
        return Closing(None, (), (), (), rest, True)
    program, _, leaving = program_of(needed, outputs)
    inputs: dict[int, tuple[int, int]] = {}
    for at in places:
        for number, each in enumerate(ops[at].arguments):
            if each.stored is not None:
                inputs.setdefault(id(each.stored), (at, number))
    is_simple = len(needed) == 1 and not may_be_cut(needed[0].function.math)
    leave = tuple(place[id(op)] for op in leaving)
    return Closing(program, places, tuple(inputs.values()), leave, rest, is_simple)


def _chained(ops: list[RecordedOp]) -> set[int]:
    """Those of *ops* that the kernel can name and that depend on an op that an earlier program left."""
    chained: set[int] = set()
    for op in ops:
        if op.deferred or any(id(each) in chained for each in _unstored(op)):
            chained.add(id(op))
    return {id(op.root) for op in ops if op.alive and not op.deferred and id(op) in chained}


def _unstored(op: RecordedOp) -> list[RecordedOp]:
    """The ops that make the arguments of *op*, unless a command has stored them."""
    return [each.root for each in op.arguments if isinstance(each, RecordedOp) and each.stored is None]
