"""Closing: how a vector program of recorded ops is issued: its needed ops, its stored results, and the ops left for
later.

A program whose rows do not fit the registers is issued in phases: each phase goes over all pieces of the rows once. The
result of a reduction of whole rows is there when a phase has gone over all pieces. So an op that needs a piece together
with such a total belongs to the next phase. The next phase computes the piece again, from the inputs of the program:
that takes no TCM, which long rows would fill.

In a full TCM, results replace inputs of the program that nothing needs afterwards.
"""

from __future__ import annotations

from collections.abc import Hashable
from sys import getrefcount
from typing import Final, NamedTuple

from kb_engine.language.vector.op_pieces import may_be_cut
from kb_engine.language.vector.recorded import BoundedCache, RecordedOp, RecordedView, VectorInput, program_of
from kb_messages import MATH_FUNCTIONS, VectorOp, VectorProgram

SMALL: Final = 8
"""A value is small if the largest value of its program is at least this many times larger. Source: assumed."""
_CLOSINGS: Final[BoundedCache[tuple[Hashable, ...], Closing]] = BoundedCache()


class Closing(NamedTuple):
    """How to close a program. Ops are given by their places among the recorded ops.

    `program` computes the ops `needed`, and stores the results of `leaving`; None where no op is needed. Each of its
    inputs is an argument: the place of an op, and the number of the argument. The ops `left` stay recorded. A closing
    that `is_simple` has one op, for which no other cut than strips or pieces of rows is possible.
    """

    program: VectorProgram | None
    needed: tuple[int, ...]
    inputs: tuple[tuple[int, int], ...]
    leaving: tuple[int, ...]
    left: tuple[int, ...]
    is_simple: bool


def closing_of(ops: list[RecordedOp], asked: RecordedOp | None) -> Closing:
    """The closing of *ops* for the result *asked*, or, with None, for all results that the kernel refers to."""
    signature = _signature(ops, asked)
    return _CLOSINGS.get(signature) or _CLOSINGS.keep(signature, _closing(ops, asked))


def needed_ops(ops: list[RecordedOp], outputs: set[int]) -> list[RecordedOp]:
    """The *ops* on which *outputs* depend, and *outputs* themselves."""
    needed = set(outputs)
    for op in reversed(ops):
        if id(op) in needed:
            needed.update(id(each) for each in _unstored(op))
    return [op for op in ops if id(op) in needed]


def used_ops(ops: list[RecordedOp]) -> set[int]:
    """The ids of the ops that make the arguments of *ops*, apart from arguments that a command has stored."""
    return {id(each) for op in ops for each in _unstored(op)}


def _signature(ops: list[RecordedOp], asked: RecordedOp | None) -> tuple[Hashable, ...]:
    """The key of the closing of *ops* for *asked*. It is equal for each iteration of a loop."""
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
    """Computes the closing of *ops* for *asked*, without the cache."""
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
    """The ids of *ops* that depend on an op that an earlier program left, and to which the kernel has a reference."""
    chained: set[int] = set()
    for op in ops:
        if op.deferred or any(id(each) in chained for each in _unstored(op)):
            chained.add(id(op))
    return {id(op.root) for op in ops if op.alive and not op.deferred and id(op) in chained}


def _unstored(op: RecordedOp) -> list[RecordedOp]:
    """The ops that make the arguments of *op*, apart from arguments that a command has stored."""
    return [each.root for each in op.arguments if isinstance(each, RecordedOp) and each.stored is None]


def phases_of(ops: list[RecordedOp], outputs: set[int]) -> list[set[int]]:
    """For each phase of *ops*, the ids of the ops whose results it stores: *outputs*, and totals for later phases.

    There is one phase where no op needs a piece together with a total.
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
"""CPython's count for an object with one reference: the call of `getrefcount` holds another."""


def inputs_to_replace(program: VectorProgram, inputs: list[VectorInput], left: list[RecordedOp]) -> list[VectorInput]:
    """The *inputs* that neither the ops *left* nor the kernel need after *program*, so that its results may replace
    them.

    A result takes the place of an input of the same rows, columns and dtype. The tiles of *program* are whole values or
    strips of them, and such a result is cut into the same strips as the input. So no tile stores to bytes that another
    tile has yet to fetch. A single row beside values of several rows is read by all strips, and so is a single column:
    their places are not taken. No place is taken where an op moves elements, or reads a value in another shape.
    """
    if not all(map(_is_cut_alike, program.ops)):
        return []
    values = program.values
    has_rows, has_cols = any(each.rows > 1 for each in values), any(each.cols > 1 for each in values)
    return [
        each
        for each in inputs_given_up(inputs, left)
        if (each.value.rows > 1 or not has_rows) and (each.value.cols > 1 or not has_cols)
    ]


def inputs_given_up(inputs: list[VectorInput], left: list[RecordedOp]) -> list[VectorInput]:
    """The *inputs* that are all of their place, and that neither the ops *left* nor the kernel need."""
    kept = {id(each.stored) for op in left for each in op.arguments}
    return [
        each
        for each in inputs
        if id(each) not in kept and _is_all_of_its_place(each) and getrefcount(each.holder) == _HELD_ONCE
    ]


def _is_cut_alike(op: VectorOp) -> bool:
    """Whether *op* makes each strip of its result, or a total, from the same strip of its arguments."""
    function = MATH_FUNCTIONS[op.math.op]
    moves = function.spreads or function.picks or function.lays_out
    return not (moves or op.shapes or op.math.group is not None)


def _is_all_of_its_place(each: VectorInput) -> bool:
    return each.holder is not None and not each.holder.freed and each.holder.matrix == each.matrix
