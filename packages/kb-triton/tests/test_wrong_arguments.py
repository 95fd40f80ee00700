"""Arguments of a launch that the kernel does not take: each is named, with what it would have to be."""

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_messages import KernelError
from kb_triton.runtime import Config, autotune


@triton.jit
def k_named(x, y, n, BLOCK: tl.constexpr, KIND: tl.constexpr = 3):
    tl.store(y, tl.load(x))


OF_NAMED = "needs those of k_named(x, y, n, BLOCK: tl.constexpr, KIND: tl.constexpr = 3)"


@pytest.mark.parametrize(
    ("named", "got"),
    [
        ({"BLOK": 16}, f"the unknown argument BLOK, {OF_NAMED}; did you mean 'BLOCK'?"),
        ({"BLOCK": 16, "BLOK": 16}, f"the unknown argument BLOK, {OF_NAMED}; did you mean 'BLOCK'?"),
        ({"BLOCK": 16, "num_warp": 4}, f"the unknown argument num_warp, {OF_NAMED}; did you mean 'num_warps'?"),
        ({"BLOCK": 16, "F": 4, "C": 2}, f"the unknown arguments F, C, {OF_NAMED}"),
        ({}, f"arguments that do not fit (missing a required argument: 'BLOCK'), {OF_NAMED}"),
        ({"BLOCK": 16, "n": 2}, f"arguments that do not fit (multiple values for argument 'n'), {OF_NAMED}"),
    ],
)
def test_an_argument_that_the_kernel_does_not_have_is_named(named, got):
    with pytest.raises(KernelError) as caught:
        k_named[1,](np.ones(16, np.float32), np.ones(16, np.float32), 16, **named)
    assert str(caught.value) == f"launch of k_named: got {got}"


def test_the_configuration_of_an_unknown_argument_is_named():
    x = np.ones(16, np.float32)
    config = "Config(C: 32, num_warps: 4, num_ctas: 1, num_stages: 3)"
    sentence = f"launch of k_named: got the unknown argument C of {config}, {OF_NAMED}"
    for others in ([], [Config({"BLOCK": 16})]):
        with pytest.raises(KernelError) as caught:
            autotune([*others, Config({"C": 32})], ["n"])(k_named)[1,](x, x, 16)
        assert str(caught.value) == sentence
    with pytest.raises(KernelError, match=r"got the unknown argument KINDS, needs .*; did you mean 'KIND'\?"):
        autotune([Config({"BLOCK": 16})], ["n"])(k_named)[1,](x, x, 16, KINDS=2)


@triton.jit
def k_added(y, n, MOST: tl.constexpr = 0):
    m = n[1] if MOST else n
    tl.store(y, tl.load(y) + (m % 8))


@pytest.mark.parametrize(
    ("value", "got"),
    [
        (1 << 64, "argument n: got the integer 18446744073709551616"),
        (-(1 << 63) - 1, "argument n: got the integer -9223372036854775809"),
        ((0, 1 << 64), "argument n[1]: got the integer 18446744073709551616"),
        (1 << 20_000, "argument n: got an integer of 20001 bits"),
    ],
    ids=["too large", "too small", "in a tuple", "too many digits"],
)
def test_an_integer_beyond_64_bits_is_refused_by_name(value, got):
    with pytest.raises(KernelError) as caught:
        k_added[1,](np.zeros(1, np.int32), value)
    assert str(caught.value) == f"{got}, needs an integer of 64 bits, from -2^63 to 2^64 - 1"


@pytest.mark.parametrize(("value", "left"), [((1 << 64) - 1, 7), (-(1 << 63), 0)])
def test_the_ends_of_64_bits_are_arguments(value, left):
    y = np.zeros(1, np.float32)
    k_added[1,](y, value)
    assert y[0] == left


def test_a_constant_may_have_more_bits():
    y = np.zeros(1, np.int32)
    k_added[1,](y, (1, 2), MOST=1 << 70)
    assert y[0] == 2
