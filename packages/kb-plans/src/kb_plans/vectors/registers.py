"""The places of a vector program's values in registers: each lives from the op that makes it to its last reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kb_messages import MATH_FUNCTIONS, VectorProgram


class RegisterLayout(NamedTuple):
    """The offset of each value in a tile's registers, and the bytes that the tile takes."""

    offsets: tuple[int, ...]
    nbytes: int


def last_uses(program: VectorProgram) -> list[int]:
    """The number of the last op that reads each value.

    An output has the number of ops, and a value without reader has -1.
    """
    last = [-1] * (len(program.inputs) + len(program.ops))
    for number, op in enumerate(program.ops):
        for value in op.arguments:
            last[value] = number
    for value in program.outputs:
        last[value] = len(program.ops)
    return last


def lay_out_values(program: VectorProgram, slots: Sequence[int], apart: frozenset[int] = frozenset()) -> RegisterLayout:
    """Places the values. Value v takes `slots[v]` bytes in a tile.

    A value takes the lowest bytes that are free. The result of an op on each element takes the bytes of an argument of
    the same size, if the op is the last to read the argument. Values *apart* lie elsewhere.
    """
    n_inputs, last = len(program.inputs), last_uses(program)
    offsets: list[int] = []
    live: dict[int, int] = {}
    top = 0
    for value, nbytes in enumerate(slots):
        number = value - n_inputs
        if value in apart:
            offsets.append(0)
        else:
            at = _in_place(program, number, live, last, offsets) if number >= 0 else None
            if at is None:
                at = _lowest(live, slots, offsets, nbytes)
            offsets.append(at)
            top = max(top, at + nbytes)
            live[value] = at
        if number >= 0:
            for each in [each for each in live if last[each] <= number]:
                del live[each]
    return RegisterLayout(tuple(offsets), top)


def _in_place(
    program: VectorProgram, number: int, live: dict[int, int], last: list[int], offsets: Sequence[int]
) -> int | None:
    """The offset of an argument whose bytes the result of op *number* can take; None if no argument qualifies."""
    op = program.ops[number]
    function = MATH_FUNCTIONS[op.math.op]
    if function.has_axis or function.spreads or function.lays_out:
        return None
    for value, shape in zip(op.arguments, op.read(program.values), strict=True):
        result = op.result
        alike = (shape.rows, shape.cols, shape.dtype.nbytes) == (result.rows, result.cols, result.dtype.nbytes)
        if alike and last[value] == number and value in live:
            return offsets[value]
    return None


def _lowest(live: dict[int, int], slots: Sequence[int], offsets: Sequence[int], nbytes: int) -> int:
    at = 0
    for start, end in sorted((offsets[value], offsets[value] + slots[value]) for value in live):
        # A gap between two live values is large enough.
        if start - at >= nbytes:
            break
        at = max(at, end)
    return at
