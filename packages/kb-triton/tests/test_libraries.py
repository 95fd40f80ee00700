"""What libraries around kernels rely on: sources and hashes of functions, and objects that stand for arrays."""

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_messages import KernelError


@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)


class Tail:
    """The elements of *array* from *first* on, as a library's own buffer class."""

    def __init__(self, array, first):
        self._array = array
        self.first = first
        self.dtype = array.dtype
        self.shape = (array.size - first,)

    def data_ptr(self):
        return self._array.ctypes.data + self.first * self._array.itemsize


class Nowhere(Tail):
    def __init__(self, array, first):
        super().__init__(array, first)
        self.address = self._array.ctypes.data
        del self._array

    def data_ptr(self):
        return self.address


def test_an_object_with_an_address_is_a_pointer():
    x, out = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    double_kernel[(1,)](Tail(x, 3), Tail(out, 2), 7, BLOCK=8)
    assert out.tolist() == [0, 0, 6, 8, 10, 12, 14, 16, 18, 0]


def test_an_object_without_its_array_is_refused():
    x = np.arange(10, dtype=np.float32)
    with pytest.raises(KernelError) as caught:
        double_kernel[(1,)](Nowhere(x, 0), x, 7, BLOCK=8)
    assert str(caught.value) == (
        "argument x_ptr: got a Nowhere with data_ptr() and no array among its attributes, needs an array, or an object "
        "that keeps the array it stands for"
    )


def test_the_source_of_a_function_begins_with_its_def():
    @triton.jit
    def inner(x):
        return x

    assert inner.src == "def inner(x):\n    return x\n"
    assert double_kernel.src.startswith("def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):\n    at = ")


def test_functions_of_other_sources_have_other_keys():
    @triton.jit
    def other(x):
        return x

    assert len(other.cache_key) == 64
    assert other.cache_key == other.cache_key != double_kernel.cache_key
    assert other.__globals__ is globals()


def test_parameters_say_that_they_are_not_specialised():
    @triton.jit(do_not_specialize=["n", 0])
    def kernel(x, n, m):
        pass

    assert [each.do_not_specialize for each in kernel.params] == [True, True, False]


def _made(offset):
    @triton.jit
    def made(x_ptr, out_ptr, n, BLOCK: tl.constexpr = 8):
        at = tl.arange(0, BLOCK)
        tl.store(out_ptr + at, PATCHED + offset, mask=at < n)  # noqa: F821 - the name is replaced

    return made


def test_the_source_of_a_template_may_be_replaced():
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    template = _made(tl.constexpr(5))
    kernel = triton.JITFunction(template.fn)
    kernel._unsafe_update_src(kernel.src.replace("PATCHED", "tl.load(x_ptr + at, mask=at < n) * 2"))
    assert "tl.load(x_ptr + at" in kernel.src
    assert "PATCHED" in template.src
    kernel[(1,)](x, out, 7)
    assert out.tolist() == [5, 7, 9, 11, 13, 15, 17, 0]
    kernel._unsafe_update_src(kernel.src.replace("* 2", "* 3"))
    kernel[(1,)](x, out, 8)
    assert out.tolist() == [5 + 3 * at for at in range(8)]
    for source, sentence in (
        ("def made(:\n    pass\n", "source of made: got a syntax error"),
        ("def other(x_ptr):\n    pass\n", "got a source without a function made"),
    ):
        with pytest.raises(KernelError, match=sentence):
            kernel._unsafe_update_src(source)
