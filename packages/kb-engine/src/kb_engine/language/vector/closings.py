"""What closing a vector program does: the ops that it needs, what it stores, and what it leaves for later."""

from __future__ import annotations

from collections.abc import Hashable
from sys import getrefcount
from typing import Final, NamedTuple

from kb_engine.language.vector.op_pieces import may_be_cut
from kb_engine.language.vector.recorded import BoundedCache, RecordedOp, RecordedView, VectorInput, program_of
from kb_messages import MATH_FUNCTIONS, VectorOp, VectorProgram

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


def phases_of(ops: list[RecordedOp], outputs: set[int]) -> list[set[int]]:
    """For each phase of *ops*, the ids of the ops whose results are stored: *outputs*, and totals for later phases.

    One phase where no op needs a piece beside a total.
    """
    cols = max((op.value.cols for op in ops), default=1)
    phase: dict[int, int] = {}
    totals: set[int] = set()
    stored: dict[int, set[int]] = {}
    for op in ops:
        arguments = [each for each in op.arguments if not isinstance(each, VectorInput) and each.stored is None]
        is_total = [id(each.root) in totals for each in arguments]
        made = max((phase[id(each.root)] for each in arguments), default=0)
        pieces = [each for each in op.arguments if _cols(each) == cols > 1]
        beside = op.value.cols == cols > 1 or bool(pieces)
        for each, total in zip(arguments, is_total, strict=True):
            if total and beside:
                made = max(made, phase[id(each.root)] + 1)
        phase[id(op)] = made
        if (any(is_total) and not beside) or (
            MATH_FUNCTIONS[op.function.math.op].reduces and op.function.math.axis == 1 and pieces
        ):
            totals.add(id(op))
        for each in arguments:
            if id(each.root) in totals and phase[id(each.root)] < made:
                stored.setdefault(phase[id(each.root)], set()).add(id(each.root))
    for op in ops:
        if id(op) in outputs:
            stored.setdefault(phase[id(op)], set()).add(id(op))
    return [stored[number] for number in sorted(stored)]


def _cols(value: VectorInput | RecordedOp) -> int:
    return value.value.cols if not isinstance(value, RecordedView) else value.root.value.cols


_HELD_ONCE: Final = 2
"""What CPython counts for an object with one reference, because the question itself has another."""


def inputs_to_replace(program: VectorProgram, inputs: list[VectorInput], left: list[RecordedOp]) -> list[VectorInput]:
    """Those of *inputs* that neither the ops *left* nor the kernel need after *program*, whose results may lie there.

    A result takes the place of an input of the same rows, columns and dtype. The tiles of *program* are whole values or
    strips of them, and such a result is cut into the same strips as the input. So no tile stores to bytes that another
    tile has yet to fetch. A row is the same for all strips where other values have several rows, and so is a column
    beside rows: their places are not taken. Nor are any where an op moves elements, or reads a value in another shape.
    """
    if not all(map(_is_cut_alike, program.ops)):
        return []
    values, kept = program.values, {id(each.stored) for op in left for each in op.arguments}
    has_rows, has_cols = any(each.rows > 1 for each in values), any(each.cols > 1 for each in values)
    return [
        each
        for each in inputs
        if id(each) not in kept
        and (each.value.rows > 1 or not has_rows)
        and (each.value.cols > 1 or not has_cols)
        and _is_all_of_its_place(each)
        and getrefcount(each.holder) == _HELD_ONCE
    ]


def _is_cut_alike(op: VectorOp) -> bool:
    """Whether *op* takes from each strip of its arguments to the same strip of its result, or to a total."""
    function = MATH_FUNCTIONS[op.math.op]
    moves = function.spreads or function.picks or function.lays_out
    return not (moves or op.shapes or op.math.group is not None)


def _is_all_of_its_place(each: VectorInput) -> bool:
    return each.holder is not None and not each.holder.freed and each.holder.matrix == each.matrix
