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
