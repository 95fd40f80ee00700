"""Each launch of a kernel runs the code, with the constants, that a program has at that moment."""

import gc
import math
from enum import Enum
from itertools import count
from types import ModuleType
from typing import NamedTuple
from weakref import ref

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_messages import KbError, KernelError

pytestmark = pytest.mark.usefixtures("lenient")  # kernels read objects of their modules

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


@pytest.mark.parametrize(
    ("kernel", "arguments", "place", "values", "wanted"),
    [
        (of_vendor_kernel, (), "tl.extra.cuda.OWN", (3, 5), (3, 5)),
        (of_argument_kernel, (tl.math,), "tl.math.OWN", (3, 5), (3, 5)),
        (of_builtin_kernel, (), "abs", (lambda _: 3, lambda _: 5), (3, 5)),
        (of_dtype_kernel, (), "tl.float32.OWN", (3, 5), (3, 5)),
        (of_dtypes_kernel, (), "tl.dtype.OWN", (3, 5), (3, 5)),
        (of_scalar_kernel, (), "tl.tensor.OWN", (3, 5), (3, 5)),
        (product_kernel, (), "tl.tensor.__mul__", (tl.tensor.__mul__, tl.tensor.__sub__), (3, -2)),
        (of_names_kernel, (), "same.arg_names", (["x"], ["x", "y"]), (1, 2)),
        (of_math_kernel, (), "math.OWN", (lambda x: x, lambda x: 2 * x), (3, 6)),
        (of_math_kernel, (), "math.OWN", (math.sqrt, math.floor), (3**0.5, 3)),
        (of_numpy_kernel, (), "np.OWN", (np.float32, lambda: 5), (0, 5)),
        (field_kernel, (Factor(3),), "Factor.number", (Factor.number, property(lambda _: 5)), (3, 5)),
        (of_member_kernel, (), "Steps.ONE._value_", (3, 5), (3, 5)),
        (three_kernel, (), "three_kernel.fn.__code__", (three_kernel.fn.__code__, five.__code__), (3, 5)),
    ],
)
def test_a_replaced_attribute_or_code_is_used_by_the_next_launch(kernel, arguments, place, values, wanted, monkeypatch):
    y, of = np.zeros(1, np.float32), "builtins" if place == "abs" else __name__
    for value, found in ((values[0], wanted[0]), (values[1], wanted[1]), (values[0], wanted[0])):
        monkeypatch.setattr(f"{of}.{place}", value, raising=False)
        kernel[(1,)](y, *arguments)
        assert y[0] == np.float32(found)


@pytest.mark.parametrize(
    ("launch", "place", "wanted"),
    [
        (lambda y: property_kernel[(1,)](y, Factor(2)), "SCALE", 2),
        (lambda y: attribute_kernel[(1,)](y, Factor(2)), "Factor.own", 1),
        (lambda y: of_value_kernel[(1,)](y), "Factor.own", 1),
        (lambda y: of_class_kernel[(1,)](y), "Steps.own", 1),
        (lambda y: of_function_kernel[(1,)](y), "same.own", 1),
        (lambda y: of_module_kernel[(1,)](y), "math.pi", 1),
        (lambda y: by_module_kernel[(1,)](y), "math.pi", 1),
        (lambda y: of_inner_module_kernel[(1,)](y), "tl.math.SCALE", 1),
    ],
)
def test_a_changed_constant_is_used_by_the_next_launch(launch, place, wanted, monkeypatch):
    y = np.zeros(1, np.float32)
    for constant in (3, 5, 3):
        monkeypatch.setattr(f"{__name__}.{place}", constant, raising=not place.startswith("tl."))
        launch(y)
        assert y[0] == wanted * constant


def test_equal_code_with_a_constexpr_parameter_is_another_kernel():
    def halves(kind):
        @triton.jit
        def kernel(y_ptr, number: kind):
            tl.store(y_ptr, number // 2)

        return kernel

    scalar, constant, y = halves(int), halves(tl.constexpr), np.zeros(1, np.float32)
    for kernel, wanted in ((scalar, -3), (constant, -4), (scalar, -3), (constant, -4)):  # a constant is Python's
        kernel[(1,)](y, -7)
        assert y[0] == wanted


def test_a_kernel_needs_source_that_python_finds(tmp_path):
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
        else:
            with pytest.raises(ValueError, match="@jit functions should be defined in a Python file"):
                triton.jit(names["chosen"])
    negated = triton.jit(lambda a, b: tl.store(b, a))
    with pytest.raises(KernelError, match="needs a def in a Python file"):
        negated[(1,)](2, y)


@triton.jit
def of_added_kernel(y_ptr):
    tl.store(y_ptr + tl.program_id(0), tl.added())


def test_a_function_added_to_tl_is_called_by_each_program(monkeypatch):
    """64 programs run on 8 PEs, and those of a kernel that only computes follow from a few."""
    y, calls = np.zeros(64, np.float32), count()
    monkeypatch.setattr(tl, "added", lambda: next(calls), raising=False)
    of_added_kernel[(64,)](y)
    assert sorted(y) == [*range(64)]


@triton.jit
def of_own_name_kernel(y_ptr):
    tl.store(y_ptr, math.OWN)


def test_an_attribute_that_was_deleted_is_missed(monkeypatch):
    y = np.zeros(1, np.float32)
    with monkeypatch.context() as patch:
        patch.setattr(math, "OWN", 3, raising=False)
        of_own_name_kernel[(1,)](y)
    assert y[0] == 3
    with pytest.raises(KbError, match="no attribute 'OWN'"):
        of_own_name_kernel[(1,)](y)


@triton.jit
def copy_kernel(x_ptr, y_ptr):
    at = tl.arange(0, 16)
    tl.store(y_ptr + at, tl.load(x_ptr + at))


def test_a_read_only_array_is_refused_by_a_later_launch():
    x, y = np.ones(16, np.float32), np.zeros(16, np.float32)
    copy_kernel[(1,)](x, y)
    y.flags.writeable = False
    with pytest.raises(KernelError, match="a store into y_ptr, a read-only array"):
        copy_kernel[(1,)](x + 1, y)
    np.testing.assert_array_equal(y, np.ones(16))


@triton.jit
def count_kernel(counts_ptr):
    tl.atomic_add(counts_ptr + tl.program_id(0) % 2, 1.0)


def test_launches_take_equal_times_and_find_the_bytes_of_the_last_one(device):
    counts, times = np.zeros(2, np.float32), set()
    for number in range(1, 4):
        before_ps = device.elapsed_ps
        count_kernel[(10,)](counts)
        times.add(device.elapsed_ps - before_ps)
        np.testing.assert_array_equal(counts, np.full(2, 5 * number))
    assert len(times) == 1


SOURCE = """
import kb_triton as triton
import kb_triton.language as tl

@triton.jit
def larger(a, b):
    return a if a > b and not a <= b else b

@triton.jit
def twice(x):
    return x * 2

@triton.jit
def kernel(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(y_ptr, twice(tl.reduce(x, 0, larger)))
"""


def test_no_cache_keeps_the_module_of_a_launched_kernel(tmp_path):
    path, x, y = tmp_path / "kernels.py", np.arange(16, dtype=np.float32), np.zeros(1, np.float32)
    path.write_text(SOURCE, encoding="utf-8")
    module = ModuleType("kernels")
    exec(compile(SOURCE, path, "exec"), vars(module))
    for _ in range(2):
        module.kernel[(1,)](x, y)
    assert y[0] == 30
    gone = [ref(module.larger.fn), ref(module.twice), ref(module.kernel.fn)]
    del module
    copy_kernel[(1,)](x, x.copy())  # the chip keeps the last launch that it simulated
    gc.collect()
    assert [each() for each in gone] == [None, None, None]
