"""What tells launches apart that repeat others: classes, functions and sources beside code and arguments."""

import math
from enum import Enum, IntEnum
from typing import NamedTuple

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_messages import KernelError

SCALE = 3


class Factor(NamedTuple):
    number: int

    @property
    def scaled(self):
        return self.number * SCALE


class Steps(Enum):
    ONE = 1


@triton.jit
def same(x):
    return x


Factor.own = Steps.own = same.own = 3
FACTOR = Factor(2)


@triton.jit
def property_kernel(y_ptr, factor):
    tl.store(y_ptr, factor.scaled)


@triton.jit
def attribute_kernel(y_ptr, factor):
    tl.store(y_ptr, factor.own)


@triton.jit
def of_value_kernel(y_ptr):
    tl.store(y_ptr, FACTOR.own)


@triton.jit
def of_class_kernel(y_ptr):
    tl.store(y_ptr, Steps.own)


@triton.jit
def of_function_kernel(y_ptr):
    tl.store(y_ptr, same(same.own))


@triton.jit
def number_kernel(y_ptr, number):
    tl.store(y_ptr, number)


@triton.jit
def of_module_kernel(y_ptr):
    tl.store(y_ptr, math.pi)


@triton.jit
def of_inner_module_kernel(y_ptr):
    tl.store(y_ptr, tl.math.SCALE)


@triton.jit
def by_module_kernel(y_ptr):
    tl.store(y_ptr, of_module(math))


def of_module(module):
    return module.pi


class Way(IntEnum):
    OUT = 2
    BACK = 3


@pytest.mark.parametrize(
    ("launch", "place", "wanted", "repeated"),
    [
        (lambda y: property_kernel[(1,)](y, Factor(2)), "SCALE", 2, 1),
        (lambda y: attribute_kernel[(1,)](y, Factor(2)), "Factor.own", 1, 1),
        (lambda y: of_value_kernel[(1,)](y), "Factor.own", 1, 1),
        (lambda y: of_class_kernel[(1,)](y), "Steps.own", 1, 1),
        (lambda y: of_function_kernel[(1,)](y), "same.own", 1, 0),
        (lambda y: of_module_kernel[(1,)](y), "math.pi", 1, 1),
        (lambda y: by_module_kernel[(1,)](y), "math.pi", 1, 1),
        (lambda y: of_inner_module_kernel[(1,)](y), "tl.math.SCALE", 1, 1),
    ],
)
def test_constants_of_classes_functions_and_modules_decide(launch, place, wanted, repeated, device, monkeypatch):
    y = np.zeros(1, np.float32)
    for constant in (3, 5, 3):
        monkeypatch.setattr(f"{__name__}.{place}", constant, raising=not place.startswith("tl."))
        launch(y)
        assert y[0] == wanted * constant
    assert device.n_repeated == repeated


def test_the_same_code_with_another_constant_is_another_kernel(device):
    def halves(kind):
        @triton.jit
        def kernel(y_ptr, number: kind):
            tl.store(y_ptr, number // 2)

        return kernel

    scalar, constant, y = halves(int), halves(tl.constexpr), np.zeros(1, np.float32)
    for kernel, wanted in ((scalar, -3), (constant, -4), (scalar, -3), (constant, -4)):  # a constant is Python's
        kernel[(1,)](y, -7)
        assert y[0] == wanted
    assert device.n_repeated == 2


def test_members_of_an_enum_decide_until_they_have_attributes(device):
    y = np.zeros(1, np.float32)
    for way in (Way.OUT, Way.BACK, Way.OUT):
        number_kernel[(1,)](y, way)
        assert y[0] == way
    assert device.n_repeated == 1
    Way.OUT.other, Way.BACK.other = Way.BACK, Way.OUT
    number_kernel[(1,)](y, Way.OUT)
    assert device.n_repeated == 1


def test_equal_code_of_another_source_is_another_kernel(device, tmp_path):
    text = (
        "def chosen(x, y):\n    at = tl.arange(0, 16)\n    x = tl.load(x + at)\n    tl.store(y + at, x > 1 and x < 3)\n"
    )
    path, x, y = tmp_path / "kernels.py", np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    path.write_text(text, encoding="utf-8")
    for file in (str(path), "<a text>"):
        names = {"tl": tl, "__name__": "kernels"}
        exec(compile(text, file, "exec"), names)
        if file == str(path):
            triton.jit(names["chosen"])[(1,)](x, y)
            np.testing.assert_array_equal(np.flatnonzero(y), [2])
        else:  # `and` of blocks needs the source
            with pytest.raises(KernelError, match="the truth of a block of 16"):
                triton.jit(names["chosen"])[(1,)](x, y)
