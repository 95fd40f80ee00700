"""The copy of a function that a kernel calls: made once, and anew when a name of its code means something else."""

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_triton.jit.runnable import Runnable

FACTOR = 2


def scaled(x, add=1):
    def inner(y):
        return y * FACTOR

    return inner(x) + add


@triton.jit
def kernel(y):
    tl.store(y + tl.program_id(0), scaled_inside(tl.program_id(0).to(tl.float32)))


scaled_inside = triton.jit(scaled)


def test_a_copy_lasts_until_a_name_or_a_default_means_something_else(monkeypatch):
    copies = Runnable(scaled)
    first = copies.function()
    assert copies.function() is first
    assert first(3) == 7
    monkeypatch.setitem(globals(), "unrelated", 1)
    assert copies.function() is first
    monkeypatch.setitem(globals(), "FACTOR", 5)
    assert copies.function()(3) == 16
    monkeypatch.setattr(scaled, "__defaults__", (0,))
    assert copies.function()(3) == 15
    monkeypatch.undo()
    assert copies.function()(3) == 7


@pytest.mark.usefixtures("lenient")  # a function within a function
def test_a_kernel_sees_what_its_module_has_at_the_launch(monkeypatch):
    y = np.zeros(3, np.float32)
    kernel[3,](y)
    np.testing.assert_array_equal(y, [1, 3, 5])
    monkeypatch.setitem(globals(), "FACTOR", 4)
    kernel[3,](y)
    np.testing.assert_array_equal(y, [1, 5, 9])
