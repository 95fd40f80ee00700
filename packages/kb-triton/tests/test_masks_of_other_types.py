"""Masks that are no booleans: refused in a sentence, because Triton compiles no kernel with one."""

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_messages import KernelError

pytestmark = pytest.mark.usefixtures("lenient")  # the sentences are those of a program


@triton.jit
def k(x, y, flags, n, WHAT: tl.constexpr, ON: tl.constexpr, B: tl.constexpr):
    at = tl.arange(0, B)
    if WHAT == "integers":
        mask = n - at
    elif WHAT == "floats":
        mask = (at < n).to(tl.float32)
    elif WHAT == "bytes":
        mask = tl.load(flags + at)
    else:
        mask = n
    if ON == "load":
        tl.store(y + at, tl.load(x + at, mask=mask, other=0.0))
    elif ON == "store":
        tl.store(y + at, tl.load(x + at), mask)
    elif ON == "atomic_add":
        tl.atomic_add(y + at, tl.load(x + at), mask=mask)
    elif ON == "atomic_store":
        tl.atomic_store(y + at, tl.load(x + at), mask=mask)
    elif ON == "histogram":
        tl.store(y + at, tl.histogram(at, B, mask=mask).to(tl.float32))


MASKS = {
    "integers": "a block of 16 int32",
    "floats": "a block of 16 fp32",
    "bytes": "a block of 16 int8",
    "an argument": "a scalar of int32",
}


@pytest.mark.parametrize("call", ["load", "store", "atomic_add", "atomic_store", "histogram"])
@pytest.mark.parametrize("what", MASKS)
def test_a_mask_of_another_type_is_refused(what, call):
    y = np.zeros(16, np.float32)
    with pytest.raises(KernelError) as caught:
        k[1,](np.ones(16, np.float32), y, np.ones(16, np.int8), 9, WHAT=what, ON=call, B=16)
    called = {"atomic_store": "atomic_xchg"}.get(call, call)
    assert (
        str(caught.value)
        .partition(": ")[2]
        .endswith(
            f"got {MASKS[what]} as the mask of tl.{called}, needs booleans (int1); "
            "compare, as in offsets < n or flags != 0"
        )
    )
    assert caught.value.where.startswith("test_masks_of_other_types.py:")
    assert not y.any()


@triton.jit
def k_number(x, y, MASK: tl.constexpr, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=MASK, other=0.0) + 1, mask=MASK)
    tl.atomic_add(y + at, 2.0, mask=MASK)


@pytest.mark.parametrize("mask", [True, False, 1, 0])
def test_booleans_and_0_and_1_of_python_choose_all_or_nothing(mask):
    y = np.zeros(16, np.float32)
    k_number[1,](np.ones(16, np.float32), y, MASK=mask, B=16)
    np.testing.assert_array_equal(y, 4 if mask else 0)


@pytest.mark.parametrize("mask", [16, -1, 1.0])
def test_another_number_is_refused(mask):
    with pytest.raises(KernelError, match=rf"got the number {mask} as the mask of tl\.load, needs booleans"):
        k_number[1,](np.ones(16, np.float32), np.zeros(16, np.float32), MASK=mask, B=16)


@triton.jit
def k_flags(x, y, flags, B: tl.constexpr):
    at = tl.arange(0, B)
    chosen = tl.load(flags + at)
    tl.store(y + at, tl.load(x + at, mask=chosen, other=5.0), mask=chosen | (at == 0))


def test_booleans_of_memory_are_a_mask():
    flags, y = np.arange(16) % 3 == 1, np.zeros(16, np.float32)
    k_flags[1,](np.ones(16, np.float32), y, flags, B=16)
    expected = flags.astype(np.float32)
    expected[0] = 5
    np.testing.assert_array_equal(y, expected)
