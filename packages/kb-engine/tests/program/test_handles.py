"""Concrete values read as Python numbers; every touch of a pending one is an error that says which."""

import numpy as np
import pytest

from kb_engine.memory.allocator import Allocator, Lease
from kb_engine.memory.pending import Producer
from kb_engine.program.tcm_holder import TcmHolder
from kb_engine.program.values.handles import CompositeHandle, LoadedTensor
from kb_messages import DType, KernelError, Matrix

MATRIX = Matrix.packed(2, 3, DType.F32, 1 << 40)
HOLDER = TcmHolder(Lease(Allocator("tcm", 1 << 40, 64)), MATRIX)
PRODUCER = Producer("composite gemm", "gemm.py:12")


def loaded(values=((1.5, 2, 3), (4, 5, 6)), dtype=np.float32):
    array = np.array(values, dtype)
    return LoadedTensor(MATRIX, array.shape, array, None)


TOUCHES = {
    "the truth value": bool,
    "`float()`": float,
    "`int()`": int,
    "use as an index": lambda x: [1, 2][x],
    "indexing": lambda x: x[0, 0],
    "iteration": list,
    "conversion to a numpy array": np.asarray,
    "reading `.data`": lambda x: x.data,
}


def expected(touch):
    return (
        f"composite gemm of gemm.py:12: got {touch} of its pending result, needs a value that exists while the kernel "
        "runs; results of compute ops are known only after the run, or where a kernel "
        "looks at them in a run with an op log"
    )


@pytest.mark.parametrize(
    "value", [CompositeHandle(MATRIX, HOLDER, PRODUCER), LoadedTensor(MATRIX, (2, 3), None, PRODUCER)]
)
@pytest.mark.parametrize(("touch", "how"), TOUCHES.items(), ids=TOUCHES)
def test_every_touch_of_a_pending_value_is_refused(value, touch, how):
    assert value.is_pending
    with pytest.raises(KernelError) as caught:
        how(value)
    assert str(caught.value) == expected(touch)


@pytest.mark.parametrize("how", [np.exp, lambda x: np.float32(1) + np.asarray(x), lambda x: np.array([x, x])])
def test_numpy_cannot_smuggle_a_pending_value_in(how):
    with pytest.raises(KernelError) as caught:
        how(LoadedTensor(MATRIX, (2, 3), None, PRODUCER))
    assert str(caught.value) in (expected("conversion to a numpy array"), expected("iteration"), expected("indexing"))


def test_calls_that_read_no_elements_are_free():
    handle = CompositeHandle(MATRIX, HOLDER, PRODUCER)
    assert (handle.shape, handle.dtype, len(handle)) == ((2, 3), DType.F32, 2)
    assert handle.matrix == MATRIX
    assert CompositeHandle(MATRIX, None, PRODUCER).matrix is None
    assert {handle: "as a key"}[handle] == "as a key"
    assert not handle.completion.done


def test_elements_read_as_python_numbers():
    value = loaded()
    assert value[0, 0] == 1.5
    assert type(value[0, 0]) is float
    assert type(loaded(((1, 2), (3, 4)), np.int32)[1, 1]) is int
    assert type(loaded(((True,),), np.bool_)[0, 0]) is bool
    np.testing.assert_array_equal(value[0], [1.5, 2, 3])


def test_a_concrete_value_is_an_array_to_numpy():
    value = loaded()
    np.testing.assert_array_equal(np.asarray(value), value.data)
    assert np.asarray(value, dtype=np.float64).dtype == np.float64
    assert np.shares_memory(np.asarray(value), value.data)
    assert not np.shares_memory(np.array(value, copy=True), value.data)
    assert [row.tolist() for row in value] == [[1.5, 2, 3], [4, 5, 6]]


def test_a_single_element_steers_control_flow():
    one = LoadedTensor(Matrix.packed(1, 1, DType.I32), (1,), np.array([2], np.int32), None)
    assert bool(one)
    assert float(one) == 2.0
    assert int(one) == 2
    assert "abc"[one] == "c"
    assert list(range(one)) == [0, 1]


class Asked:
    """Stands for `tl` and answers with what it was asked."""

    def arithmetic(self, *asked):
        return asked

    def convert(self, *asked):
        return asked


OPERATORS = {
    "add": (lambda x, y: x + y, lambda x: 2 + x),
    "sub": (lambda x, y: x - y, lambda x: 2 - x),
    "mul": (lambda x, y: x * y, lambda x: 2 * x),
    "div": (lambda x, y: x / y, lambda x: 2 / x),
}


@pytest.mark.parametrize("op", OPERATORS)
def test_an_operator_is_a_math_command_with_its_arguments_in_order(op):
    x, y = (LoadedTensor(MATRIX, (2, 3), None, PRODUCER, Asked()) for _ in range(2))
    both, right = OPERATORS[op]
    assert [id(each) for each in both(x, y)[1:]] == [id(x), id(y)]
    assert both(x, y)[0] == right(x)[0] == op
    assert right(x)[1] == 2
    assert right(x)[2] is x


def test_comparisons_negation_and_conversion_are_math_commands():
    x = LoadedTensor(MATRIX, (2, 3), None, PRODUCER, Asked())
    comparisons = [x == 1, x != 1, x < 1, x <= 1, x > 1, x >= 1]
    assert [asked[0] for asked in comparisons] == ["eq", "ne", "lt", "le", "gt", "ge"]
    assert all(asked[1] is x and asked[2] == 1 for asked in comparisons)
    assert [asked[0] for asked in (1 < x, 1 <= x, 1 > x, 1 >= x)] == ["gt", "ge", "lt", "le"]  # noqa: SIM300
    assert (-x)[0] == "neg"
    assert x.to("f16")[1] == "f16"


def test_a_value_that_no_kernel_made_does_not_compute():
    with pytest.raises(TypeError, match=r"^add of a value that no kernel made$"):
        loaded() + 1
