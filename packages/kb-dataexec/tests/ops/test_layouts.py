"""Records whose result has a shape or a type of its own, one at a time and on stacks."""

import re

import msgspec
import numpy as np
import pytest
from dataexec_gemm_log import REG, REGIONS, TCM, LogBuilder
from dataexec_math_values import DTYPE_OF, STEP, inputs_of, whole

from kb_dataexec.execute.executor import Executor
from kb_dataexec.memory.store import MemoryStore
from kb_messages import DType, LogError, MathAttributes, OpKind, Role


def apply(op, *arrays, out, dtype=None, copies=3, **more):
    """The result of *copies* equal records on rows of *arrays*, in both modes, which have to agree."""
    dtype = dtype or DTYPE_OF[arrays[-1].dtype]
    params = msgspec.json.encode(MathAttributes(op=op, **more)).decode()
    builder, store = LogBuilder(), MemoryStore(REGIONS)
    nbytes = out[0] * out[1] * dtype.nbytes
    for at, array in enumerate(arrays):
        store.write_tensor(TCM, at * STEP, array)
    for number in range(copies):
        operands = [*inputs_of(arrays), whole(Role.OUT, REG, number * nbytes, out, dtype)]
        builder.add((number, 0, 0), OpKind.MATH, "an_op", operands, params)
    log = builder.log()
    found = []
    for mode in ("tile", "fused"):
        after = Executor(log, store, mode, fuse_from=2).run()
        read = [
            after.read(REG, number * nbytes, out[0], nbytes // out[0], nbytes // out[0], dtype)
            for number in range(copies)
        ]
        found += [np.array(each) for each in read]
    assert len({each.tobytes() for each in found}) == 1
    return found[0]


X = np.arange(24, dtype=np.float32).reshape(4, 6)


def test_elements_are_rearranged_by_lengths_and_strides():
    assert apply("rearrange", X, out=(6, 4), lengths=(6, 4), strides=(1, 6)).tolist() == X.T.tolist()
    found = apply("rearrange", X, out=(4, 6), lengths=(4, 6), strides=(-6, -1), first=23)
    assert found.tolist() == np.flip(X).tolist()
    assert apply("rearrange", X, out=(1, 3), lengths=(3,), strides=(8,), first=1).tolist() == [[1, 9, 17]]
    assert apply("rearrange", X, out=(3, 6), lengths=(3, 6), strides=(0, 1), first=6).tolist() == [X[1].tolist()] * 3
    cube = X.reshape(2, 3, 4)
    found = apply("rearrange", X, out=(8, 3), lengths=(2, 4, 3), strides=(12, 1, 4))
    assert found.tolist() == cube.transpose(0, 2, 1).reshape(8, 3).tolist()


def test_two_values_are_combined():
    found = apply("combine", X, -X, out=(24, 2), lengths=(24, 2), strides=(1, 24))
    assert found.tolist() == np.stack([X, -X], -1).reshape(24, 2).tolist()
    found = apply("combine", X[:1], X, out=(5, 6), lengths=(30,), strides=(1,))
    assert found.tolist() == np.concatenate([X[:1], X]).tolist()


@pytest.mark.parametrize("axis", [0, 1])
def test_elements_are_chosen_along_an_axis(axis):
    index = np.random.default_rng(0).integers(-1, 5, (2, 6) if axis == 0 else (4, 9)).astype(np.int32)
    inside = (index >= 0) & (index < X.shape[axis])
    expected = np.where(inside, np.take_along_axis(X, np.where(inside, index, 0), axis), np.nan)
    found = apply("gather", index, X, out=index.shape, axis=axis)
    np.testing.assert_array_equal(found, expected)
    found = apply("gather", index, X.astype(np.int8), out=index.shape, axis=axis)
    assert found.tolist() == np.where(inside, expected, 0).tolist()


def test_elements_are_counted():
    x = np.array([[0, 3, 3, 9], [-1, 3, 2, 4]], np.int16)
    assert apply("histogram", x, out=(1, 5), dtype=DType.I32).tolist() == [[1, 0, 1, 3, 1]]


def test_bytes_are_elements_of_another_type():
    assert apply("bitcast", X, out=(4, 6), dtype=DType.U32).tolist() == X.view(np.uint32).tolist()
    back = apply("bitcast", X.view(np.int32), out=(4, 6), dtype=DType.F32)
    assert back.tolist() == X.tolist()


@pytest.mark.parametrize("op", ["sort", "merge"])
def test_sorted_rows_and_columns(op):
    x = np.random.default_rng(1).standard_normal((4, 6)).astype(np.float32)
    for axis in (0, 1):
        assert apply(op, x, out=(4, 6), axis=axis).tolist() == np.sort(x, axis).tolist()
        found = apply(op, x, out=(4, 6), axis=axis, reverse=True)
        assert found.tolist() == np.flip(np.sort(x, axis), axis).tolist()


INDEX = np.zeros((4, 6), np.int32)
ORDER = {"lengths": (24,), "strides": (1,)}
REFUSED = [
    (("gather", INDEX, X), {"out": (4, 6), "axis": 0, "group": (2, 1)}, "no group of rows"),
    (("rearrange", X), {"out": (4, 6)}, "positive lengths, and a stride for each"),
    (("rearrange", X), {"out": (4, 6), "lengths": (24,), "strides": (1, 1)}, "positive lengths, and a stride for each"),
    (("rearrange", X), {"out": (4, 5), **ORDER}, "lengths of 4 x 5 elements together"),
    (("rearrange", X), {"out": (4, 6), **ORDER, "first": 1}, "an order within the 24 elements"),
    (
        ("rearrange", X),
        {"out": (4, 6), "lengths": (24,), "strides": (-1,), "first": 22},
        "an order within the 24 elements",
    ),
    (("combine", X, X.astype("f2")), {"out": (4, 6), **ORDER}, "inputs of one type"),
    (("gather", X, X), {"out": (4, 6), "axis": 1}, "an index of integers"),
    (("gather", INDEX, X), {"out": (4, 5), "axis": 1}, "a result of 4 x 6, as the index has"),
    (("gather", INDEX, X[:3]), {"out": (4, 6), "axis": 1}, "an index as long as the source across the axis"),
    (("histogram", INDEX), {"out": (2, 6)}, "a row of integers as the result"),
    (("histogram", INDEX), {"out": (1, 6), "dtype": DType.F32}, "a row of integers as the result"),
    (("bitcast", X), {"out": (4, 6), "dtype": DType.F16}, "a result of 4 x 6 elements as wide"),
    (("bitcast", X), {"out": (6, 4)}, "a result of 4 x 6 elements as wide"),
]


@pytest.mark.parametrize(("given", "more", "needs"), REFUSED)
def test_a_record_that_means_nothing_names_its_place(given, more, needs):
    with pytest.raises(
        LogError, match=rf"op 0 \(an_op, pe0, kernel.py:3\): got {given[0]} of .*, needs {re.escape(needs)}"
    ):
        apply(*given, **more)
