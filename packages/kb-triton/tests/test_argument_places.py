"""The argument and the index of an element that a launch wrote, by the bytes of its store on the chip."""

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_messages import Role
from kb_triton.host import Device, using


@triton.jit
def store_kernel(x, out, AT: tl.constexpr):
    tl.store(out + AT, 1)


def stored(one_cube, out, at, x=None):
    """What the device calls the element at *at* elements behind the first one of *out*."""
    found = []
    with using(Device(one_cube, on_launch=found.append)):
        store_kernel[(1,)](np.zeros(4, np.float32) if x is None else x, out, at)
    (launched,) = found
    operands = launched.log.operands
    row = operands[(operands["role"] == Role.DST) & (operands["space"] == operands["space"][-1])][-1]
    return launched.element_at(int(row["owner"]), int(row["offset"]))


BASE = np.zeros((6, 8), np.float32)


@pytest.mark.parametrize(
    ("view", "at", "index"),
    [
        (BASE, 0, (0, 0)),
        (BASE, 8 * 5 + 7, (5, 7)),
        (BASE.T, 8 * 5 + 7, (7, 5)),
        (BASE[::2, 1:], 16, (1, 0)),
        (BASE[::2, ::2], 2 * 8 + 4, (1, 2)),
        (BASE[::-1], -8 * 2 + 3, (2, 3)),
        (BASE[::-1, ::-1], -8 - 1, (1, 1)),
        (BASE.reshape(2, 3, 8), 8 * 4 + 1, (1, 1, 1)),
        (np.zeros(5, np.int16), 3, (3,)),
        (np.zeros((), np.float32), 0, ()),
    ],
)
def test_an_element_of_a_view_has_the_index_of_the_view(one_cube, view, at, index):
    assert stored(one_cube, view, at) == ("out", index)


def test_a_byte_between_the_elements_of_a_view_belongs_to_none(one_cube):
    assert stored(one_cube, BASE[:, ::2], 1) is None


def test_the_first_of_two_arguments_that_share_bytes_is_named(one_cube):
    assert stored(one_cube, BASE[1:], 8, x=BASE) == ("x", (2, 0))
