"""What tells launches apart that repeat others: classes, functions and sources beside code and arguments."""

import math
from enum import Enum, IntEnum
from itertools import count
from typing import NamedTuple

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_messages import KbError, KernelError

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


@triton.jit
def of_vendor_kernel(y_ptr):
    tl.store(y_ptr, tl.extra.cuda.OWN)


@triton.jit
def of_argument_kernel(y_ptr, of: tl.constexpr):
    tl.store(y_ptr, of.OWN)


def magnitude():
    return abs(-2)


@triton.jit
def of_builtin_kernel(y_ptr):
    tl.store(y_ptr, magnitude())


@triton.jit
def of_dtype_kernel(y_ptr):
    tl.store(y_ptr, tl.float32.OWN)


@triton.jit
def of_dtypes_kernel(y_ptr):
    tl.store(y_ptr, tl.dtype.OWN)


@triton.jit
def of_scalar_kernel(y_ptr):
    tl.store(y_ptr, tl.program_id(0).OWN)


@triton.jit
def product_kernel(y_ptr):
    at = tl.arange(0, 1)
    tl.store(y_ptr + at, (at + 1) * 3)


@triton.jit
def of_names_kernel(y_ptr):
    tl.store(y_ptr, len(same.arg_names))


@triton.jit
def of_math_kernel(y_ptr):
    tl.store(y_ptr, math.OWN(3))


def of_numpy():
    return float(np.OWN())


@triton.jit
def of_numpy_kernel(y_ptr):
    tl.store(y_ptr, of_numpy())


@triton.jit
def field_kernel(y_ptr, factor):
    tl.store(y_ptr, factor.number)


@triton.jit
def of_member_kernel(y_ptr):
    tl.store(y_ptr, Steps.ONE.value)


@triton.jit
def three_kernel(y_ptr):
    tl.store(y_ptr, 3)


def five(y_ptr):
    tl.store(y_ptr, 5)


LIST = [3]


def of_list(*_):
    return LIST[0]


def block_of_first(one, two):
    return tl.full((1,), LIST[0], tl.int32)


@pytest.mark.parametrize(
    ("kernel", "arguments", "place", "values", "wanted", "repeated"),
    [
        (of_vendor_kernel, (), "tl.extra.cuda.OWN", (3, 5), (3, 5), 1),
        (of_argument_kernel, (tl.math,), "tl.math.OWN", (3, 5), (3, 5), 1),
        (of_builtin_kernel, (), "abs", (lambda _: 3, lambda _: 5), (3, 5), 1),
        (of_dtype_kernel, (), "tl.float32.OWN", (3, 5), (3, 5), 1),
        (of_dtypes_kernel, (), "tl.dtype.OWN", (3, 5), (3, 5), 1),
        (of_scalar_kernel, (), "tl.tensor.OWN", (3, 5), (3, 5), 1),
        (product_kernel, (), "tl.tensor.__mul__", (tl.tensor.__mul__, tl.tensor.__sub__), (3, -2), 0),
        (of_names_kernel, (), "same.arg_names", (["x"], ["x", "y"]), (1, 2), 0),
        (of_math_kernel, (), "math.OWN", (lambda x: x, lambda x: 2 * x), (3, 6), 0),
        (of_math_kernel, (), "math.OWN", (math.sqrt, math.floor), (3**0.5, 3), 1),
        (of_numpy_kernel, (), "np.OWN", (np.float32, lambda: 5), (0, 5), 1),
        (field_kernel, (Factor(3),), "Factor.number", (Factor.number, property(lambda _: 5)), (3, 5), 1),
        (of_member_kernel, (), "Steps.ONE._value_", (3, 5), (3, 5), 1),
        (three_kernel, (), "three_kernel.fn.__code__", (three_kernel.fn.__code__, five.__code__), (3, 5), 1),
    ],
)
def test_what_a_program_replaced_decides(kernel, arguments, place, values, wanted, repeated, device, monkeypatch):
    """What calls code of an author is simulated each time, and so is what was known before an operator was replaced."""
    y, of = np.zeros(1, np.float32), "builtins" if place == "abs" else __name__
    for value, found in ((values[0], wanted[0]), (values[1], wanted[1]), (values[0], wanted[0])):
        monkeypatch.setattr(f"{of}.{place}", value, raising=False)
        kernel[(1,)](y, *arguments)
        assert y[0] == np.float32(found)
    assert device.n_repeated == repeated


@pytest.mark.parametrize(
    ("kernel", "arguments", "place", "replacement"),
    [
        (of_builtin_kernel, (), "builtins.abs", of_list),
        (of_math_kernel, (), f"{__name__}.math.OWN", of_list),
        (of_numpy_kernel, (), f"{__name__}.np.OWN", LIST.__len__),
        (of_numpy_kernel, (), f"{__name__}.np.OWN", of_list),
        (of_numpy_kernel, (), f"{__name__}.np.OWN", np.frompyfunc(of_list, 0, 1)),
        (field_kernel, (Factor(3),), f"{__name__}.Factor.number", property(of_list)),
        (product_kernel, (), f"{__name__}.tl.tensor.__mul__", block_of_first),
        (of_scalar_kernel, (), f"{__name__}.tl.tensor.OWN", property(of_list)),
    ],
)
def test_what_is_looked_at_by_what_a_program_replaced_decides(
    kernel, arguments, place, replacement, device, monkeypatch
):
    y = np.zeros(1, np.float32)
    monkeypatch.setattr(place, replacement, raising=False)
    for number in (1, 2):
        LIST[:] = [number] * number
        kernel[(1,)](y, *arguments)
        assert y[0] == number
    assert device.n_repeated == 0


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


@triton.jit
def of_added_kernel(y_ptr):
    tl.store(y_ptr + tl.program_id(0), tl.added())


def test_what_a_program_added_to_tl_is_called_by_each_program(device, monkeypatch):
    """64 programs run on 8 PEs, and those of a kernel that only computes follow from a few."""
    y, calls = np.zeros(64, np.float32), count()
    monkeypatch.setattr(tl, "added", lambda: next(calls), raising=False)
    of_added_kernel[(64,)](y)
    assert sorted(y) == [*range(64)]
    assert device.n_repeated == 0


def first():
    return 5


@triton.jit
def of_either_kernel(y_ptr):
    tl.store(y_ptr, first() + (1 if isinstance(EITHER, int) else 2))


EITHER = first


def test_a_function_is_told_from_its_number_among_all(device, monkeypatch):
    y = np.zeros(1, np.float32)
    for value, wanted in ((first, 7), (1, 6), (first, 7)):
        monkeypatch.setattr(f"{__name__}.EITHER", value)
        of_either_kernel[(1,)](y)
        assert y[0] == wanted
    assert device.n_repeated == 1


@triton.jit
def of_either_name_kernel(y_ptr):
    tl.store(y_ptr, math.OWN if EITHER else math.OTHER)


def test_a_name_that_was_taken_away_is_missed(device, monkeypatch):
    y = np.zeros(1, np.float32)
    with monkeypatch.context() as patch:
        patch.setattr(math, "OWN", 3, raising=False)
        of_either_name_kernel[(1,)](y)
    assert y[0] == 3
    monkeypatch.setattr(math, "OTHER", 3, raising=False)
    with pytest.raises(KbError, match="no attribute 'OWN'"):
        of_either_name_kernel[(1,)](y)


class Pair(NamedTuple):
    number: int
    other: int


def test_which_field_a_name_stands_for_decides(device, monkeypatch):
    y, fields = np.zeros(1, np.float32), (Pair.number, Pair.other)
    for wanted, (number, other) in ((3, fields), (5, fields[::-1]), (3, fields)):
        monkeypatch.setattr(Pair, "number", number)
        monkeypatch.setattr(Pair, "other", other)
        field_kernel[(1,)](y, Pair(3, 5))
        assert y[0] == wanted
    assert device.n_repeated == 1


@triton.jit
def number_of_class_kernel(y_ptr, given):
    tl.store(y_ptr, given.low)


def test_a_constant_of_a_class_has_its_name(device):
    """The constants stay in their order, and their names change places."""
    y = np.zeros(1, np.float32)
    for wanted, names in ((3, ("low", "high")), (5, ("high", "low")), (3, ("low", "high"))):
        for name, number in zip(names, (3, 5), strict=True):
            setattr(Factor, name, number)
        try:
            number_of_class_kernel[(1,)](y, Factor(1))
        finally:
            for name in names:
                delattr(Factor, name)
        assert y[0] == wanted
    assert device.n_repeated == 1


ONE, TWIN = (float("1.5"), "one"), (float("1.5"), "one")


@triton.jit
def by_identity_kernel(y_ptr):
    tl.store(y_ptr, 1 if ONE[0] is TWIN[0] else 2)


def test_which_constants_are_one_decides_where_a_kernel_asks(device, monkeypatch):
    y = np.zeros(1, np.float32)
    for twin, wanted in ((TWIN, 2), (ONE, 1), (TWIN, 2), ((ONE[0], "one"), 1)):
        monkeypatch.setattr(f"{__name__}.TWIN", twin)
        by_identity_kernel[(1,)](y)
        assert y[0] == wanted
    assert device.n_repeated == 1
