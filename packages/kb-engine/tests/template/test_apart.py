"""What is made with arrays in the place of integers is, taken apart, what is made of each integer."""

import numpy as np

from kb_engine.template.apart import taken_apart
from kb_messages import (
    DType,
    LoadCommand,
    MathAttributes,
    Matrix,
    VectorCommand,
    VectorOp,
    VectorProgram,
    VectorValue,
)

WIDE = VectorValue(4, 64, DType.F32)
ADD = VectorProgram(
    inputs=(WIDE, WIDE),
    ops=(VectorOp(math=MathAttributes(op="add"), arguments=(0, 1), result=WIDE),),
    outputs=(2,),
)


def matrix(address):
    return Matrix(address=address, rows=4, cols=64, stride=256, dtype=DType.F32)


def test_each_command_has_its_own_address():
    found = taken_apart(LoadCommand(src=matrix(np.array([0, 4096, 1024])), dst=matrix(512)), 3)
    assert found == [LoadCommand(src=matrix(each), dst=matrix(512)) for each in (0, 4096, 1024)]
    assert {type(each.src.address) for each in found} == {int}


def test_arrays_may_be_in_several_places():
    one, other = np.array([0, 4096]), np.array([8192, 512])
    found = taken_apart(VectorCommand(program=ADD, inputs=(matrix(one), matrix(64)), outputs=(matrix(other),)), 2)
    expected = [
        VectorCommand(program=ADD, inputs=(matrix(first), matrix(64)), outputs=(matrix(second),))
        for first, second in ((0, 8192), (4096, 512))
    ]
    assert found == expected
    assert found[0].program is ADD
    assert taken_apart((one, 7, other), 2) == [(0, 7, 8192), (4096, 7, 512)]


def test_what_has_no_array_is_one_object():
    command = LoadCommand(src=matrix(0), dst=matrix(512))
    assert [each is command for each in taken_apart(command, 3)] == [True] * 3
    assert taken_apart((1, 2), 2) == [(1, 2), (1, 2)]
