"""Arguments that host code makes: descriptors, named tuples; and what it asks of a kernel."""

from typing import Any, NamedTuple

import numpy as np

import kb_triton as triton
import kb_triton.language as tl
from kb_triton.host import Device, TensorDescriptor, using


@triton.jit
def doubled(source, target, rows, M: tl.constexpr, N: tl.constexpr):
    for row in range(0, rows, M):
        target.store([row, 0], source.load([row, 0]) * 2)


def test_descriptors_of_the_host_load_and_store():
    x = np.random.default_rng(0).standard_normal((13, 7), np.float32)
    y = np.zeros_like(x)
    doubled[1,](TensorDescriptor.from_tensor(x, [4, 8]), TensorDescriptor.from_tensor(y, [4, 8]), 13, M=4, N=8)
    np.testing.assert_array_equal(y, x * 2)


@triton.jit
def filled(out, value, more, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), value)


NUMBERS = [
    np.int64(3),
    np.uint8(200),
    np.bool_(True),
    np.float16(0.5),
    np.float64(2.5),
    np.float32("inf"),
    np.str_("x"),
]


def test_numbers_of_numpy_are_shown_by_their_value(one_cube):
    found = []
    with using(Device(one_cube, on_launch=lambda launched: found.append(launched.arguments))):
        for number in NUMBERS:
            filled[1,](np.zeros(8, np.float32), 1.0, (number,), N=np.int32(8))
    assert [each["more"] for each in found] == [[3], [200], [True], [0.5], [2.5], ["inf"], ["x"]]
    assert [type(each["more"][0]) for each in found] == [int, int, bool, float, float, str, str]
    assert {each["N"] for each in found} == {8}


class Pair(NamedTuple):
    array: Any
    factor: Any


@triton.jit
def scaled(pair, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(pair.array + at) * pair.factor)


def test_a_named_tuple_keeps_its_names():
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    scaled[1,](Pair(x, 3), out, N=8)
    np.testing.assert_array_equal(out, x * 3)


def test_a_kernel_has_the_attributes_that_host_code_reads():
    launched = scaled[1,](Pair(np.zeros(8, np.float32), 3), np.zeros(8, np.float32), N=8, num_warps=2)
    assert list(scaled.cache[0].values())[-1] is launched
    assert list(scaled.device_caches[0][0].values())[-1].metadata.num_warps == 2
    assert scaled.starting_line_number == scaled.fn.__code__.co_firstlineno
