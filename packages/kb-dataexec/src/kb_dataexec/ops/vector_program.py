"""Executes vector programs on arrays, with the bytes of the records of their commands."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from kb_dataexec.arrays.dtypes import Array, cast
from kb_dataexec.log.rows import Op, OperandRow
from kb_dataexec.ops.math import DecodedMath, decode
from kb_messages import DType, MathAttributes, OpKind, Role, VectorProgram, VectorValue


def evaluate_program(program: VectorProgram, inputs: Sequence[Array]) -> list[Array]:
    """Returns the outputs of *program* for *inputs*, matrices of its shapes and types.

    Raises LogError, which names the line of an op, for an invalid program.
    """
    values, kinds = list(inputs), program.values
    for op in program.ops:
        read = op.read(kinds)
        math = _decoded(op.math, tuple(read), op.result, op.line)
        given = [values[at].reshape(each.rows, each.cols) for at, each in zip(op.arguments, read, strict=True)]
        values.append(math.evaluate(given))
    return [values[each] for each in program.outputs]


def evaluate_integers(
    math: MathAttributes, inputs: Sequence[Array], dtypes: Sequence[DType], out: VectorValue
) -> Array:
    """Returns the result *out* of one op on *inputs*, matrices of integers of *dtypes*.

    Raises LogError for an invalid op.
    """
    kinds = tuple(VectorValue(len(each), each.shape[1], dtype) for each, dtype in zip(inputs, dtypes, strict=True))
    given = [cast(each, dtype) for each, dtype in zip(inputs, dtypes, strict=True)]
    return _decoded_of_integers(math, kinds, out).evaluate(given)


@lru_cache(maxsize=1024)
def _decoded_of_integers(math: MathAttributes, inputs: tuple[VectorValue, ...], out: VectorValue) -> DecodedMath:
    """Decodes an op of integers alone, with a cache: equal attributes are the same op, as no scalar is -0.0 or NaN."""
    return _decoded(math, inputs, out, "")


def _decoded(math: MathAttributes, inputs: tuple[VectorValue, ...], out: VectorValue, line: str) -> DecodedMath:
    rows = [*(_row(Role.IN, each) for each in inputs), _row(Role.OUT, out)]
    return decode(Op(0, OpKind.MATH, "math", "", line, msgspec.json.encode(math).decode(), rows))


def _row(role: Role, value: VectorValue) -> OperandRow:
    row_nbytes = value.cols * value.dtype.nbytes
    return OperandRow(role, 0, 0, value.rows, row_nbytes, row_nbytes, value.dtype, 0)
