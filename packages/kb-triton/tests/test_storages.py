"""Arrays of a launch: views, overlaps, types, what is refused, and what is written back."""

import numpy as np
import pytest

import kb_triton
import kb_triton as triton
import kb_triton.language as tl
from kb_dataexec import cast
from kb_messages import DType, KernelError
from kb_triton.host.buffers import buffer_of
from kb_triton.host.storages import Storages


@triton.jit
def double_kernel(x_ptr, out_ptr, n, x_stride, out_stride, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at * x_stride, mask=mask)
    tl.store(out_ptr + at * out_stride, x + x, mask=mask)


def doubled(x, out):
    n = x.shape[0]
    double_kernel[(-(-n // 64),)](x, out, n, x.strides[0] // x.itemsize, out.strides[0] // out.itemsize, BLOCK=64)


@pytest.mark.parametrize("n", [1, 63, 64, 130])
def test_strides_of_any_kind(n):
    base = np.arange(4 * n, dtype=np.float32)
    whole = np.full(3 * n, -1, np.float32)
    doubled(base[2::4], whole[::-3])
    expected = np.full(3 * n, -1, np.float32)
    expected[::-3] = 2 * base[2::4]
    np.testing.assert_array_equal(whole, expected)


def test_a_row_of_a_matrix_in_fortran_order():
    base = np.asfortranarray(np.arange(60, dtype=np.int32).reshape(6, 10))
    out = np.zeros((6, 10), np.int32)
    doubled(base[3], out[3])
    np.testing.assert_array_equal(out[3], 2 * base[3])
    assert not out[[0, 1, 2, 4, 5]].any()


def test_views_that_overlap_are_one_tensor():
    """The output begins one element after the input, and the program loads before it stores."""
    base = np.arange(65, dtype=np.float32)
    doubled(base[:64], base[1:])
    np.testing.assert_array_equal(base, [0, *(2.0 * np.arange(64))])


def test_elements_beyond_the_memory_of_an_expanded_array_are_refused_with_the_way_out():
    """Without its stride of 0 the kernel reads 64 elements where one is."""
    one, out = np.ones(1, np.float32), np.zeros(64, np.float32)
    with pytest.raises(KernelError) as caught:
        double_kernel[(1,)](np.broadcast_to(one, (64,)), out, 64, 1, 1, BLOCK=64)
    assert "of x_ptr (an expanded array, so elements share memory: pass x_ptr.copy()), 252 bytes" in str(caught.value)
    double_kernel[(1,)](np.broadcast_to(one, (64,)), out, 64, 0, 1, BLOCK=64)
    np.testing.assert_array_equal(out, np.full(64, 2.0))


@pytest.mark.parametrize("kind", ["f2", "bf16", "i1", "u2", "i8"])
def test_every_element_type_reaches_the_chip_and_returns(kind):
    values = np.arange(1, 40)
    x = cast(values.astype(np.float32), DType.BF16) if kind == "bf16" else values.astype(kind)
    out = np.zeros_like(x)
    doubled(x, out)
    np.testing.assert_array_equal(out.astype(np.float64), 2 * values)


def test_only_what_is_stored_is_written_back():
    x, out = np.ones(10, np.float32), np.zeros(1000, np.float32)
    doubled(x, out[:10])
    assert out[:10].tolist() == [2.0] * 10
    assert not out[10:].any()


def test_an_input_may_be_read_only_and_an_output_may_not():
    x, out = np.ones(10, np.float32), np.zeros(10, np.float32)
    x.setflags(write=False)
    doubled(x, out)
    assert out.tolist() == [2.0] * 10
    with pytest.raises(KernelError) as caught:
        doubled(out, x)
    line = double_kernel.fn.__code__.co_firstlineno + 5
    assert str(caught.value) == (
        f"test_storages.py:{line}: got a store into out_ptr, a read-only array, needs an array that may be written; "
        "pass a copy: x.copy()"
    )
    assert x.tolist() == [1.0] * 10


def test_a_view_of_a_read_only_base_that_may_be_written():
    base = np.zeros(10, np.float32)
    view = base[:]
    base.setflags(write=False)
    doubled(np.ones(10, np.float32), view)
    assert base.tolist() == [2.0] * 10


def test_types_that_triton_lacks_are_refused():
    with pytest.raises(KernelError) as caught:
        doubled(np.zeros(4, np.complex64), np.zeros(4, np.complex64))
    assert str(caught.value) == "argument x_ptr: got an array of complex64, needs a type that Triton has"


def test_an_array_between_elements_of_its_storage_is_refused():
    raw = np.zeros(41, np.uint8)
    view = raw[1:].view(np.float32)
    with pytest.raises(KernelError) as caught:
        doubled(view, np.zeros(10, np.float32))
    assert str(caught.value) == (
        "argument x_ptr: got an array that begins 1 bytes after a whole element of fp32 of its storage, needs an "
        "aligned array; pass a copy: x.copy()"
    )


def test_empty_arrays_reach_a_kernel_that_touches_none():
    out = np.zeros(0, np.float32)
    double_kernel[(1,)](np.zeros(0, np.float32), out, 0, 1, 1, BLOCK=64)


def places():
    """Places bytes at 1000, 2000, ... and says which."""
    placed = []

    def place(name, data):
        placed.append((name, data.nbytes))
        return 1000 * len(placed)

    return place, placed


def test_allocations_that_overlap_are_joined_and_others_are_not():
    place, placed = places()
    base = np.zeros(100, np.uint8)
    outer = np.frombuffer(base.data, np.uint8)[:50]
    storages = Storages(place)
    storages.add_all([("a", base[10:20]), ("b", outer), ("c", np.zeros(8, np.uint8)), ("d", base)])
    assert placed == [("a", 100), ("c", 8)]
    assert storages.of(base[10:].ctypes.data) is storages.found[0]
    assert storages.at(base.ctypes.data + 99) is storages.found[0]
    assert storages.found[0].view(DType.F32).shape == (25,)
    assert storages.found[0].view(DType.I64).shape == (12,)


def test_two_allocations_are_joined_by_a_third_over_both():
    place, placed = places()
    base = np.zeros(100, np.uint8)
    parts = [np.frombuffer(base.data, np.uint8, 40, start) for start in (0, 60)]
    storages = Storages(place)
    storages.add_all([("low", parts[0]), ("high", parts[1]), ("both", base)])
    assert placed == [("low", 100)]
    assert [each.name for each in storages.found] == ["low"]


@triton.jit
def gather_kernel(ptrs, out_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x_ptr = tl.load(ptrs + row).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + row * BLOCK + at, tl.load(x_ptr + at))


def test_addresses_that_the_host_has_stored():
    rows = [np.full(64, each, np.float32) for each in range(3)]
    whole = np.arange(100, dtype=np.float32)
    addresses = np.array([*map(kb_triton.address, rows), kb_triton.address(whole[10:])])
    out = np.zeros((4, 64), np.float32)
    gather_kernel[(4,)](addresses, out, BLOCK=64)
    np.testing.assert_array_equal(out, [*rows, whole[10:74]])
    with pytest.raises(KernelError, match="as a pointer, needs an address of a tensor that the kernel has"):
        gather_kernel[(1,)](np.array([8]), out, BLOCK=64)
    with pytest.raises(KernelError, match="a tensor by its address"):
        gather_kernel[(1,)](np.array([kb_triton.address(whole[90:])]), out, BLOCK=64)


@pytest.mark.parametrize("step", [1, 2, -1, -3])
def test_the_allocation_of_an_array_that_is_no_view_of_another(step):
    """Bytes of Python, seen through strides that numpy is told: the array reaches from its lowest to its last byte."""
    raw = bytearray(range(64))
    x = np.ndarray((4,), np.int16, raw, 32, (2 * step,))
    found = buffer_of(x, "x")
    ends = sorted((0, 3 * 2 * step))
    base = x.ctypes.data
    assert (found.address - base, found.end - base) == (ends[0], ends[1] + 2)
    assert found.as_bytes()[x.ctypes.data - found.address] == 32


def test_an_array_without_elements_has_no_bytes():
    found = buffer_of(np.zeros((0, 4), np.float32), "x")
    assert found.address == found.end
