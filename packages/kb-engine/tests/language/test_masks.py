"""Which part of a reference a mask chooses, and each way to misuse masks, with the whole message."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_engine.language.access.masks import access_under
from kb_engine.program.values.host_values import HostValue
from kb_engine.program.values.tensors import Tensor
from kb_messages import DType, KernelError


def ref(rows, cols):
    tensor = Tensor(
        name="a",
        shape=(rows, cols),
        dtype=DType.F16,
        row_bounds=(0, rows),
        col_bounds=(0, cols),
        addresses=((1 << 40,),),
    )
    return tensor.ref


@given(st.data())
def test_a_rectangle_of_ones_is_found_wherever_it_lies(data):
    top, left = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 5))
    bottom, right = data.draw(st.integers(top + 1, 6)), data.draw(st.integers(left + 1, 6))
    mask = np.zeros((8, 9), bool)
    mask[top:bottom, left:right] = True
    found = access_under(ref(20, 10)[3:11, 4:13], HostValue(mask, lambda: ""), "line")
    assert (found.rows, found.cols) == (8, 9)
    assert (found.down, found.along) == (slice(top, bottom), slice(left, right))
    assert (found.ref.row_slice, found.ref.col_slice) == (slice(3 + top, 3 + bottom), slice(4 + left, 4 + right))
    assert not found.is_whole


def test_a_reference_keeps_the_shape_that_was_asked_for():
    part = ref(20, 10)[16:32, 8:16]
    assert (part.shape, part.asked_shape) == ((4, 2), (16, 8))
    assert part[2:, :].asked_shape == (14, 8)
    assert part[2:8, 1].asked_shape == (6, 1)
    assert part[-1:].asked_shape == (13, 8)
    assert part[:-1].asked_shape == (3, 8)
    assert part[-1].asked_shape == (1, 8)


def mask_of_a_number(tl, a):
    tl.load(a, mask=1)


def mask_of_integers(tl, a):
    tl.load(a, mask=tl.arange(16))


def mask_of_another_shape(tl, a):
    tl.load(a, mask=tl.arange(4) < 3)


def mask_beyond_the_edge(tl, a):
    tl.load(a[8:24], mask=(tl.arange(16) < 9)[:, None])


def other_without_a_mask(tl, a):
    tl.load(a, other=1.0)


def other_that_is_no_number(tl, a):
    tl.load(a, mask=tl.arange(16) < 3, other="nan")


def value_of_another_size(tl, a):
    tl.store(a[8:24], tl.load(a[8:24]), mask=(tl.arange(16) < 8)[:, None])


def empty_range(tl, a):
    tl.arange(4, 4)


def range_of_fractions(tl, a):
    tl.arange(0.5)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (mask_of_a_number, "got mask = an int, needs a comparison of integers, from tl.arange or loaded"),
        (mask_of_integers, "got a mask of 16 integers, needs booleans; compare it"),
        (mask_of_another_shape, "got a mask of 4 for 16 x 16 of a[0:16, 0:16], needs a shape that broadcasts"),
        (
            mask_beyond_the_edge,
            (
                "got a mask that includes element (8, 15) of a[8:16, 0:16], 8 x 16, "
                "needs one that excludes elements beyond the tensor's edge"
            ),
        ),
        (other_without_a_mask, "got other=1.0 without a mask, needs a mask, which says where it goes"),
        (other_that_is_no_number, "got other = a str, needs a number"),
        (
            value_of_another_size,
            "got tl.store of 8 x 16 f16 to a[8:16, 0:16] of 16 x 16 f16, needs equal shapes and dtypes",
        ),
        (empty_range, "got tl.arange from 4 to 4, needs integers, the second larger than the first"),
        (range_of_fractions, "got tl.arange from 0 to 0.5, needs integers, the second larger than the first"),
    ],
)
def test_misuse_is_refused_at_the_kernels_line(toy_host, kernel, message):
    host = toy_host()
    with pytest.raises(KernelError) as caught:
        host.launch(kernel, host.tensor("a", np.zeros((16, 16), np.float16), "f16"))
    assert str(caught.value) == f"test_masks.py:{kernel.__code__.co_firstlineno + 1}: {message}"


@pytest.mark.parametrize("other", [0.5, 0.0, 128, -129, 1 << 70])
def test_other_is_a_number_of_the_tensors_type(toy_host, other):
    def kernel(tl, a):
        tl.load(a, mask=tl.arange(4) < 3, other=other)

    host = toy_host()
    with pytest.raises(KernelError) as caught:
        host.launch(kernel, host.tensor("a", np.zeros(4, np.int8), "i8"))
    line = f"test_masks.py:{kernel.__code__.co_firstlineno + 1}"
    assert str(caught.value) == f"{line}: got other={other!r} for i8, needs a number of that type"


def test_a_range_costs_nothing(toy_host):
    def kernel(tl, a, ranges):
        for number in range(ranges):
            assert (tl.arange(number, 100) + number < 200)[0]
        tl.load(a)

    ends = []
    for ranges in (0, 50):
        host = toy_host()
        ends.append(host.launch(kernel, host.tensor("a", np.zeros(4, np.int8), "i8"), ranges).end_ps)
        assert host.engine.session.n_ops == 1
    assert ends[0] == ends[1]


def test_loaded_integers_are_indices_of_loads(toy_host):
    seen = []

    def kernel(tl, a, at):
        where = tl.load(at)
        row = where[0]
        seen.append(tl.load(a[row : row + 1]).data)

    host = toy_host()
    a = np.arange(12, dtype=np.int32).reshape(4, 3)
    host.launch(kernel, host.tensor("a", a, "i32"), host.tensor("at", np.array([2], np.int32), "i32"))
    np.testing.assert_array_equal(seen[0], a[2:3])
