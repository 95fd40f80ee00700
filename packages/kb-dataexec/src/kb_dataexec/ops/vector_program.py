"""Vector programs on arrays, as the records of their commands are executed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.rows import Op, OperandRow
from kb_dataexec.ops.math import decode
from kb_messages import OpKind, Role, VectorProgram, VectorValue


def evaluate_program(program: VectorProgram, inputs: Sequence[Array]) -> list[Array]:
    """The values of the outputs of *program* for *inputs*, matrices of its shapes and types.

    Raises LogError, at the line of an op, for a program that means nothing.
    """
    values, kinds = list(inputs), program.values
    for op in program.ops:
        rows = [*(_row(Role.IN, kinds[each]) for each in op.arguments), _row(Role.OUT, op.result)]
        params = msgspec.json.encode(op.math).decode()
        math = decode(Op(0, OpKind.MATH, "math", "", op.line, params, rows))
        values.append(math.evaluate([values[each] for each in op.arguments]))
    return [values[each] for each in program.outputs]


def _row(role: Role, value: VectorValue) -> OperandRow:
    row_nbytes = value.cols * value.dtype.nbytes
    return OperandRow(role, 0, 0, value.rows, row_nbytes, row_nbytes, value.dtype, 0)
