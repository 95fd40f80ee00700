"""What the functions of MATH whose result has a shape or type of its own ask of their operands."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from kb_messages.functions import MATH_FUNCTIONS
from kb_messages.oplog import MathAttributes
from kb_messages.vector import VectorValue


def has_own_form(op: str) -> bool:
    """Whether the result of *op* has another shape, or another type, than its arguments say."""
    function = MATH_FUNCTIONS[op]
    return function.lays_out or function.picks or function.retypes


def misfit(math: MathAttributes, inputs: Sequence[VectorValue], out: VectorValue) -> str:
    """What *math*, a function with a form of its own, needs and does not have; empty if all fits together."""
    function = MATH_FUNCTIONS[math.op]
    if math.group is not None:
        return "no group of rows"
    if function.retypes:
        fits = (inputs[0].rows, inputs[0].cols, inputs[0].dtype.nbytes) == (out.rows, out.cols, out.dtype.nbytes)
        return "" if fits else f"a result of {inputs[0].rows} x {inputs[0].cols} elements as wide"
    if function.picks:
        return _misfit_of_picks(math, inputs, out)
    if math.op == "histogram":
        return "" if out.rows == 1 and not out.dtype.is_float else "a row of integers as the result"
    return _misfit_of_order(math, inputs, out)


def _misfit_of_picks(math: MathAttributes, inputs: Sequence[VectorValue], out: VectorValue) -> str:
    index, source = inputs
    if index.dtype.is_float:
        return "an index of integers"
    if (index.rows, index.cols) != (out.rows, out.cols):
        return f"a result of {index.rows} x {index.cols}, as the index has"
    across = (index.cols, source.cols) if math.axis == 0 else (index.rows, source.rows)
    return "" if across[0] == across[1] else "an index as long as the source across the axis"


def _misfit_of_order(math: MathAttributes, inputs: Sequence[VectorValue], out: VectorValue) -> str:
    if len({each.dtype for each in inputs}) > 1:
        return "inputs of one type"
    lengths, strides = math.lengths, math.strides
    if not lengths or len(lengths) != len(strides) or min(lengths) < 1:
        return "positive lengths, and a stride for each"
    if prod(lengths) != out.rows * out.cols:
        return f"lengths of {out.rows} x {out.cols} elements together"
    ends = [(length - 1) * stride for length, stride in zip(lengths, strides, strict=True)]
    count = sum(each.rows * each.cols for each in inputs)
    low, high = math.first + sum(min(end, 0) for end in ends), math.first + sum(max(end, 0) for end in ends)
    return "" if low >= 0 and high < count else f"an order within the {count} elements"
