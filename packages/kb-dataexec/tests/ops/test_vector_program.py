"""A vector program on arrays is what its records compute one after the other."""

import numpy as np
import pytest

from kb_dataexec.execute import evaluate_program
from kb_messages import DType, LogError, MathAttributes, VectorOp, VectorProgram, VectorValue

WIDE, NARROW, COLUMN = VectorValue(3, 4, DType.F32), VectorValue(3, 4, DType.F16), VectorValue(3, 1, DType.F32)


def op(name, result, *arguments, **more):
    return VectorOp(math=MathAttributes(op=name, **more), arguments=arguments, result=result, line="k.py:7")


def test_the_values_of_the_outputs_are_computed():
    ops = op("copy", WIDE, 0), op("max", COLUMN, 1, axis=1), op("sub", WIDE, 1, 2), op("copy", NARROW, 3)
    x = np.arange(12, dtype=np.float16).reshape(3, 4)
    found = evaluate_program(VectorProgram(inputs=(NARROW,), ops=ops, outputs=(2, 4)), [x])
    assert [each.dtype for each in found] == [np.float32, np.float16]
    assert found[0].tolist() == [[3], [7], [11]]
    assert found[1].tolist() == [[-3, -2, -1, 0]] * 3


def test_a_program_that_means_nothing_names_the_line():
    program = VectorProgram(inputs=(WIDE,), ops=(op("sum", WIDE, 0, axis=1),), outputs=(1,))
    with pytest.raises(LogError, match=r"k\.py:7.*needs an OUT of 3 x 1"):
        evaluate_program(program, [np.zeros((3, 4), np.float32)])
