"""Tensors and values of any rank, and views of values: numpy's shapes and elements, and what views cost."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kb_dataexec import Executor, MemoryLogWriter, numpy_dtype
from kb_engine import Engine, Host, read_tensor
from kb_messages import DType, KernelError
from kb_topology import load_topology

ROOT = Path(__file__).parents[1]
KINDS = {numpy_dtype(dtype): dtype for dtype in DType}
Array = npt.NDArray[Any]


def launched(kernel: Callable[..., None], arrays: list[Array], topology: str = "one_pe") -> tuple[Host, list[Any]]:
    engine = Engine(load_topology(ROOT / f"topologies/{topology}.yaml"), MemoryLogWriter())
    host = Host(engine, Path(__file__).parent)
    tensors = [host.tensor(f"t{n}", each, KINDS[each.dtype]) for n, each in enumerate(arrays)]
    host.launch(kernel, *tensors, pes=[0])
    return host, tensors


def run(kernel: Callable[..., None], arrays: list[Array], mode: str = "fused", topology: str = "one_pe") -> list[Array]:
    host, tensors = launched(kernel, arrays, topology)
    log = host.engine.close_log()
    assert host.engine.initial_memory is not None
    memory = Executor(log, host.engine.initial_memory, mode, fuse_from=2).run()  # type: ignore[arg-type]
    return [read_tensor(memory, each) for each in tensors]


X = np.arange(2 * 3 * 8 * 4, dtype=np.float32).reshape(2, 3, 8, 4)


CUBE, MATRIX, VECTOR = X[0], X[0].reshape(24, 4), X.ravel()


@pytest.mark.parametrize("mode", ["tile", "fused"])
@pytest.mark.parametrize(
    ("array", "key"),
    [
        (X, (1, 2)),
        (X, (1, 2, slice(2, 6))),
        (X, (slice(None), 1, slice(3, 5), slice(1, 3))),
        (X, (0, slice(None), slice(0, 8, 3))),
        (X, (Ellipsis, 2)),
        (X, (1, 1, 1)),
        (X, (slice(0, 1), slice(2, 3))),
        (X, (np.array([1, 0]), np.array([2, 1]))),
        (X, (slice(None), np.array([2, 0]), 3)),
        (X, (1, 2, 7, 3)),
        (CUBE, (1, 2)),
        (CUBE, (1, slice(2, 6), 3)),
        (CUBE, (2, 7, 3)),
        (MATRIX, 3),
        (MATRIX, (-1, slice(1, 3))),
        (MATRIX, (slice(4, 9), 2)),
        (MATRIX, (slice(None), -1)),
        (MATRIX, (5, 3)),
        (MATRIX, (5, np.array([3, 0]))),
        (MATRIX, (slice(0, 24, 5), 1)),
        (VECTOR, 7),
        (VECTOR, -1),
    ],
)
def test_integers_drop_dimensions_as_numpys_do(array: Array, key: Any, mode: str) -> None:
    seen = []

    def kernel(tl: Any, x: Any, out: Any, back: Any) -> None:
        value = tl.load(x[key])
        seen.append(value.data)
        tl.store(out, value * 2.0)
        tl.store(back[key], value)

    want = array[key]
    out = np.zeros(np.shape(want) or (1,), np.float32)
    back = np.zeros_like(array)
    back[key] = want
    found = run(kernel, [array, out, np.zeros_like(array)], mode)
    assert np.shape(seen[0]) == np.shape(want)
    np.testing.assert_array_equal(seen[0], want)
    np.testing.assert_array_equal(found[1], np.reshape(want * 2, out.shape))
    np.testing.assert_array_equal(found[2], back)


@pytest.mark.parametrize("mode", ["tile", "fused"])
@pytest.mark.parametrize("is_computed", [False, True])
@pytest.mark.parametrize(
    "key",
    [
        (slice(1, 3),),
        (1,),
        (slice(None), slice(3, 5), slice(1, 3)),
        (0, slice(None), 2),
        (slice(None, None, -1), slice(1, 8, 3)),
        (Ellipsis, 2),
        (2, 5, slice(None, None, 2)),
        (slice(1, 2), None, 4),
        (slice(-2, None), slice(None), slice(0, 1)),
        (None, Ellipsis),
    ],
)
def test_a_slice_of_a_value_is_a_value(key: Any, is_computed: bool, mode: str) -> None:
    want = CUBE[key]

    def kernel(tl: Any, x: Any, out: Any) -> None:
        value = tl.load(x) * 1.0 if is_computed else tl.load(x)
        part = value[key]
        assert part.shape == want.shape
        tl.store(out, part + 0.5)

    np.testing.assert_array_equal(run(kernel, [CUBE, np.zeros_like(want)], mode)[1], want + 0.5)


def test_rows_of_a_value_are_values_and_single_elements_are_numbers() -> None:
    def kernel(tl: Any, x: Any, out: Any, turned: Any) -> None:
        value = tl.load(x) * 2.0
        for number, row in enumerate(value):
            tl.store(out[number], row * row[1])
        assert (value[2, 3], value.T[3, 2], value[-1][0], len(value[0])) == (22.0, 22.0, 184.0, 4)
        tl.store(turned, value.T[1:3])

    *_, found, turned = run(kernel, [MATRIX, np.zeros_like(MATRIX), np.zeros((2, 24), np.float32)])
    np.testing.assert_array_equal(found, MATRIX * 2 * MATRIX[:, 1:2] * 2)
    np.testing.assert_array_equal(turned, (MATRIX * 2).T[1:3])


def test_functions_of_numpy_by_element_are_math_of_the_chip() -> None:
    def kernel(tl: Any, x: Any, out: Any) -> None:
        value = tl.load(x)
        tl.store(out[0], np.sqrt(np.abs(value)))
        tl.store(out[1], np.maximum(value, np.float32(3)))
        tl.store(out[2], np.add(value, 1) - np.multiply(2.0, value))
        tl.store(out[3], tl.where(np.greater(value, 5), value, np.negative(value)))
        assert (np.shape(value), np.ndim(value), np.size(value)) == ((4,), 1, 4)

    x = np.array([-4, 9, 16, 2.25], np.float32)
    host, (_, out) = launched(kernel, [x, np.zeros((4, 4), np.float32)])
    log = host.engine.close_log()
    assert host.engine.initial_memory is not None
    found = read_tensor(Executor(log, host.engine.initial_memory).run(), out)
    want = [np.sqrt(np.abs(x)), np.maximum(x, 3), 1 - x, np.where(x > 5, x, -x)]
    np.testing.assert_array_equal(found, np.array(want, np.float32))
    # abs, sqrt, maximum, add, mul, sub, gt, neg and where: the chip computes them, and takes time.
    assert sum(each.name == "math" for each in log.records()) == 9


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (lambda v: v[[0, 1]], "got the index [0, 1], needs integers and slices; tl.gather takes elements anywhere"),
        (lambda v: v[v > 3], "needs integers and slices"),
        (lambda v: v[7:9], "got a slice beyond a value of 4 x 8, needs at least one of its elements"),
        (np.sum, "got np.sum of a value, needs a function that takes values; a function of tl makes a value"),
        (np.add.reduce, "got np.add.reduce of a value"),
        (lambda v: np.concatenate([v, v]), "got np.concatenate of a value"),
        (lambda v: np.exp(v, out=np.zeros((4, 8), np.float32)), "got np.exp of a value"),
        (lambda v: np.where(v > 1, v, 0), "got np.where of a value"),
    ],
)
def test_what_numpy_would_compute_without_the_chip_is_refused_at_its_line(use: Any, expected: str) -> None:
    def kernel(tl: Any, x: Any) -> None:
        value = tl.load(x)
        use(value)

    with pytest.raises(KernelError) as caught:
        launched(kernel, [X[0, 0].reshape(4, 8)])
    # A lambda of the table above stands in one statement with the table.
    at = r"\d+" if hasattr(use, "__code__") else kernel.__code__.co_firstlineno + 2
    assert re.match(rf"test_values_of_any_rank\.py:{at}: ", str(caught.value))
    assert expected in str(caught.value)


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_a_row_of_a_matrix_is_a_vector_whatever_its_number_is_computed_from(mode: str) -> None:
    def kernel(tl: Any, x: Any, rows: Any, y: Any) -> None:
        for number in (tl.num_programs() - 1, np.int64(1), tl.arange(2, 4)[0], tl.load(rows[0]), tl.load(rows)[1]):
            row = tl.load(x[number, :])
            assert row.shape == (4,)
            tl.store(y[number], tl.cumsum(row))  # along the row, because a row has one axis

    want = np.zeros_like(MATRIX)
    want[[0, 1, 2, 5, 7]] = MATRIX[[0, 1, 2, 5, 7]].cumsum(axis=1)
    found = run(kernel, [MATRIX, np.array([5, 7], np.int32), np.zeros_like(MATRIX)], mode)
    np.testing.assert_array_equal(found[2], want)


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_masks_of_rows_columns_and_elements_have_their_dimensions(mode: str) -> None:
    def kernel(tl: Any, x: Any, y: Any) -> None:
        four, eight = tl.arange(0, 4), tl.arange(0, 8)
        tl.store(y[3], tl.load(x[3], four < 3, -1.0))
        part = tl.load(x[4:12, 1], (eight >= 2) & (eight < 5), -1.0)
        assert part.shape == (8,)
        tl.store(y[4:12, 1], part, eight < 7)
        tl.store(y[20:28, 2], tl.load(x[20:28, 0], eight < 4, 0.5), eight < 4)  # the slices reach beyond the edge
        tl.store(y[12:20, 3], tl.load(x[12:20, 3], (eight & 1) == 0, 7.0))

    want = np.zeros_like(MATRIX)
    want[3] = np.where(np.arange(4) < 3, MATRIX[3], -1)
    want[4:11, 1] = -1
    want[6:9, 1] = MATRIX[6:9, 1]
    want[20:24, 2] = MATRIX[20:24, 0]
    want[12:20, 3] = np.where(np.arange(8) % 2, 7, MATRIX[12:20, 3])
    np.testing.assert_array_equal(run(kernel, [MATRIX, np.zeros_like(MATRIX)], mode)[1], want)


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_atomics_change_a_row_a_column_and_an_element(mode: str) -> None:
    def kernel(tl: Any, x: Any, old: Any) -> None:
        seen = tl.atomic_add(x[1:5, 2], tl.full((4,), 10, "i32"))
        assert seen.shape == (4,)
        tl.store(old, seen)
        tl.atomic_max(x[2], tl.full((4,), 11, "i32"), tl.arange(0, 4) < 3)
        tl.atomic_add(x[1:5, 0], 100, (tl.arange(0, 4) & 2) == 2)
        assert tl.atomic_add(x[0, 3], 5).shape == ()

    x = np.arange(24, dtype=np.int32).reshape(6, 4)
    want = x.copy()
    want[1:5, 2] += 10
    want[2, :3] = np.maximum(want[2, :3], 11)
    want[3:5, 0] += 100
    want[0, 3] += 5
    found = run(kernel, [x, np.zeros(4, np.int32)], mode)
    np.testing.assert_array_equal(found[0], want)
    np.testing.assert_array_equal(found[1], x[1:5, 2])


def test_a_command_is_the_same_with_an_integer_and_with_a_slice_of_one_element() -> None:
    def integers(tl: Any, x: Any, y: Any) -> None:
        tl.store(y[2], tl.load(x[1]))
        tl.store(y[4:12, 2], tl.load(x[4:12, 1], tl.arange(0, 8) < 5))

    def slices(tl: Any, x: Any, y: Any) -> None:
        tl.store(y[2:3], tl.load(x[1:2]))
        tl.store(y[4:12, 2:3], tl.load(x[4:12, 1:2], (tl.arange(0, 8) < 5)[:, None]))

    records = []
    for kernel in (integers, slices):
        host, _ = launched(kernel, [MATRIX, np.zeros_like(MATRIX)])
        log = host.engine.close_log()
        records.append([(each.t_end_ps, each.operands) for each in log.records()])
    assert records[0] == records[1]


def test_a_column_as_a_vector_is_no_operand_of_a_composite_and_takes_no_column() -> None:
    def refused(kernel: Callable[..., None]) -> str:
        with pytest.raises(KernelError) as caught:
            launched(kernel, [MATRIX, np.zeros_like(MATRIX)])
        return str(caught.value)

    needs = (
        "got t0[0:4, 1], a vector whose elements lie in rows, needs a matrix, or adjacent elements of a row; keep the "
        "dimension: x[:, n : n + 1] is a matrix"
    )
    assert needs in refused(lambda tl, x, y: tl.composite("gemm", x[0:4], x[0:4, 1]))
    assert needs in refused(lambda tl, x, y: tl.composite("exp", x[0:4, 1]))
    assert needs in refused(lambda tl, x, y: tl.composite("exp", x[4:8, 1:2], out=x[0:4, 1]))
    assert (
        "got tl.store of 24 x 1 f32 to t1[0:24, 2] of 1 x 24 f32, needs equal shapes and dtypes; keep the column's "
        "dimension, x[:, n : n + 1], or store value.ravel()"
    ) in refused(lambda tl, x, y: tl.store(y[:, 2], tl.sum(tl.load(x), axis=1)))


def test_values_with_axes_in_another_order_have_views() -> None:
    def kernel(tl: Any, x: Any, y: Any) -> None:
        part = tl.load(x[0])
        tl.store(y[0:1, :], tl.permute(part, (2, 0, 1)).reshape(1, 96))
        tl.store(y[1, 0:32], tl.load(x[0, 0]).T.ravel())

    y = run(kernel, [X, np.zeros((2, 96), np.float32)])[1]
    np.testing.assert_array_equal(y[0], X[0].transpose(2, 0, 1).ravel())
    np.testing.assert_array_equal(y[1, :32], X[0, 0].T.ravel())


def test_a_matrix_of_a_larger_tensor_is_the_plain_command_that_its_slice_is() -> None:
    ends = []
    for array in (X, X.reshape(48, 4)):

        def kernel(tl: Any, x: Any) -> None:
            tl.load(x[1, 2, 2:6] if x.tensor.shape == X.shape else x[42:46])

        host, _ = launched(kernel, [array])
        ends.append(host.launches[0].end_ps)
        assert host.engine.session.n_ops == 1
    assert ends[0] == ends[1]


def test_a_matrix_of_a_larger_tensor_is_an_operand_of_a_composite() -> None:
    def kernel(tl: Any, x: Any, y: Any, out: Any) -> None:
        for batch in range(2):
            tl.wait(tl.composite("gemm", x[batch], y[batch].T, out=out[batch]))

    x, y = (np.random.default_rng(seed).integers(-3, 3, (2, 5, 6)).astype(np.float32) for seed in (1, 2))
    *_, found = run(kernel, [x, y, np.zeros((2, 5, 5), np.float32)])
    np.testing.assert_array_equal(found, x @ y.transpose(0, 2, 1))


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_views_are_other_shapes_of_the_same_bytes(mode: str) -> None:
    def kernel(tl: Any, x: Any, out: Any, sums: Any) -> None:
        value = tl.load(x)
        cube = tl.reshape(value, 2, 4, -1)
        assert cube.shape == (2, 4, 3)
        column = tl.expand_dims(tl.load(x[0:1, 0:6]).ravel(), 1)
        assert (column.shape, cube[:, None].shape, tl.ravel(cube).shape) == ((6, 1), (2, 1, 4, 3), (24,))
        tl.store(out, cube + 1.0)
        tl.store(sums, tl.sum(cube, axis=2))
        del value
        assert cube[1, 3, 2] == 23.0

    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    *_, out, sums = run(kernel, [x, np.zeros((2, 4, 3), np.float32), np.zeros((2, 4, 1), np.float32)], mode)
    np.testing.assert_array_equal(out, x.reshape(2, 4, 3) + 1)
    np.testing.assert_array_equal(sums, x.reshape(2, 4, 3).sum(axis=2, keepdims=True))


def test_a_view_takes_no_time_and_holds_the_bytes() -> None:
    ends = []
    for views in (0, 9):

        def kernel(tl: Any, x: Any, n_views: int = views) -> None:
            value = tl.load(x)
            for _ in range(n_views):
                value = tl.reshape(value, 6, 4)[:, None, :].reshape(4, 6)
            tl.load(x)
            assert value[0, 1] == 1.0

        host, _ = launched(kernel, [np.arange(24, dtype=np.float32).reshape(4, 6)])
        ends.append(host.launches[0].end_ps)
        assert host.engine.session.n_ops == 2
    assert ends[0] == ends[1]


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_axes_in_another_order_are_laid_out_by_the_next_transfer(mode: str) -> None:
    def kernel(tl: Any, x: Any, stored: Any, loaded: Any) -> None:
        turned = tl.permute(tl.load(x), (2, 0, 1))
        assert turned.shape == (4, 2, 3)
        tl.store(stored, turned)
        tl.store(loaded, tl.load(tl.permute(x, 2, 0, 1)))
        assert tl.permute(tl.load(x[0:1, 0:1]), 2, 1, 0).shape == (4, 1, 1)
        assert tl.permute(tl.load(x[0]), 1, 0).shape == (4, 3)
        assert tl.permute(tl.arange(0, 6).reshape((2, 3)), 1, 0)[2, 1] == 5

    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    want = x.transpose(2, 0, 1)
    found = run(kernel, [x, np.zeros((4, 2, 3), np.float32), np.zeros((4, 2, 3), np.float32)], mode)
    np.testing.assert_array_equal(found[1], want)
    np.testing.assert_array_equal(found[2], want)


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_masks_have_the_rank_of_what_they_mask(mode: str) -> None:
    def kernel(tl: Any, x: Any, out: Any) -> None:
        heads, rows = tl.arange(0, 3), tl.arange(0, 8)
        mask = (heads < 2)[:, None, None] & (rows[:, None] >= tl.arange(0, 4)[None, :])
        tl.store(out, tl.load(x[1], mask, -1.0))
        tl.store(out[0:1, 6:10], tl.load(x[0, 0:1, 6:10], (6 + tl.arange(0, 4) < 8)[:, None], 9.0), rows[0:4, None] < 2)

    mask = (np.arange(3) < 2)[:, None, None] & np.tri(8, 4, dtype=bool)
    want = np.where(mask, X[1], -1)
    want[0:1, 6:8] = X[0, 0:1, 6:8]
    _, found = run(kernel, [X, np.zeros((3, 8, 4), np.float32)], mode)
    np.testing.assert_array_equal(found, want)


def test_known_integers_of_three_dimensions_are_data() -> None:
    def kernel(tl: Any, out: Any) -> None:
        number = tl.arange(0, 2)[:, None, None] * 12 + tl.arange(0, 3)[:, None] * 4 + tl.arange(0, 4)
        tl.store(out, number)
        tl.store(out[1:2], tl.load(out[1:2]) * number[0:1])

    want = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    want[1] *= want[0]
    np.testing.assert_array_equal(run(kernel, [np.zeros((2, 3, 4), np.int32)])[0], want)


NORMAL = np.random.default_rng(1).standard_normal((2, 3, 8, 4)).astype(np.float32)


def close(kernel: Callable[..., None], array: Array, wanted: Array) -> None:
    for mode in ("tile", "fused"):
        *_, found = run(kernel, [array, np.zeros(wanted.shape, wanted.dtype)], mode)
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -2])
@pytest.mark.parametrize("kept", [True, False])
def test_reductions_go_over_any_axis(axis: int, kept: bool) -> None:
    def kernel(tl: Any, x: Any, out: Any) -> None:
        value = tl.load(x)
        largest, where = tl.max(value, axis, kept, return_indices=True)
        tl.store(out, tl.sum(value, axis, keep_dims=kept) + largest * where)

    wanted = NORMAL.sum(axis, keepdims=kept, dtype=np.float64)
    wanted += NORMAL.max(axis, keepdims=kept) * NORMAL.argmax(axis, keepdims=kept)
    close(kernel, NORMAL, wanted.astype(np.float32))


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_scans_go_along_any_axis_and_back(axis: int) -> None:
    def kernel(tl: Any, x: Any, out: Any) -> None:
        tl.store(out, tl.cumsum(tl.load(x), axis) - tl.cummax(tl.load(x), axis, reverse=True))

    back = np.flip(np.maximum.accumulate(np.flip(NORMAL, axis), axis), axis)
    close(kernel, NORMAL, NORMAL.cumsum(axis) - back)


@pytest.mark.parametrize("function", ["sum", "prod", "max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("shape", [(2, 3, 8, 4), (48, 4), (192,), (1, 192), (192, 1)])
def test_a_reduction_without_an_axis_goes_over_all_elements(function: str, shape: tuple[int, ...]) -> None:
    def kernel(tl: Any, x: Any, out: Any) -> None:
        value, call = tl.load(x), getattr(tl, function)
        assert call(value).shape == (1,) * len(shape)
        assert call(value, keep_dims=False).shape == ()
        tl.store(out, value * 0 + call(value, keep_dims=False))

    x = NORMAL.reshape(shape)
    close(kernel, x, np.full(shape, getattr(np, function)(x.astype(np.float64)), np.float32))


@pytest.mark.parametrize("shapes", [((2, 3, 8, 4), (3, 8, 4)), ((2, 3, 8, 4), (2, 1, 8, 1)), ((3, 1, 4), (2, 1, 8, 1))])
def test_operands_of_any_rank_broadcast_as_numpys_do(shapes: tuple[tuple[int, ...], ...]) -> None:
    one, two = (NORMAL[tuple(slice(n) for n in (1,) * (4 - len(shape)) + shape)].reshape(shape) for shape in shapes)

    def loaded(tl: Any, first: Any, second: Any, out: Any) -> None:
        tl.store(out, tl.load(first) - tl.load(second))

    for mode in ("tile", "fused"):
        *_, found = run(loaded, [one, two, np.zeros((one - two).shape, np.float32)], mode)
        np.testing.assert_array_equal(found, one - two)


def test_a_dropped_axis_and_a_new_one_take_no_command_and_no_stage() -> None:
    counts = []
    for dropped in (False, True):

        def kernel(tl: Any, x: Any, out: Any, drops: bool = dropped) -> None:
            value = tl.load(x)
            largest = tl.max(value, axis=1, keep_dims=not drops)
            powers = tl.exp(value - (largest[:, None] if drops else largest))
            total = tl.sum(powers, axis=1, keep_dims=not drops)
            tl.store(out, powers / (total.reshape(8, 1) if drops else total))

        host, _ = launched(kernel, [NORMAL[0, 0], np.zeros((8, 4), np.float32)])
        counts.append((host.engine.session.n_ops, host.launches[0].end_ps))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("mode", ["tile", "fused"])
@pytest.mark.parametrize("outer", [(3,), (2, 3), (2, 1, 2)])
@pytest.mark.parametrize("dtype", [np.float16, np.int8])
def test_a_dot_of_more_than_two_dimensions_is_one_of_each_entry(dtype: type, outer: tuple[int, ...], mode: str) -> None:
    summed = np.dtype(np.int32 if dtype is np.int8 else np.float32)

    def kernel(tl: Any, a: Any, b: Any, out: Any) -> None:
        left, right = tl.load(a), tl.load(b)
        total = tl.dot(left, right, tl.zeros((*outer, 5, 4), KINDS[summed]))
        for _ in range(2):
            total = tl.dot(left, right, total)
        tl.store(out, total + tl.dot(left, right))

    data = np.random.default_rng(3)
    a, b = (data.integers(-4, 5, shape).astype(dtype) for shape in ((*outer, 5, 6), (*outer, 6, 4)))
    *_, found = run(kernel, [a, b, np.zeros((*outer, 5, 4), summed)], mode)
    np.testing.assert_array_equal(found, 4 * (a.astype(int) @ b.astype(int)))


def test_a_value_and_its_view_are_stored_once() -> None:
    def twice(tl: Any, x: Any, out: Any) -> None:
        value = tl.load(x) * 2.0
        row = tl.reshape(value, 1, 32)
        tl.store(out, tl.reshape(row, 4, 8))
        tl.store(out, tl.reshape(value, 4, 8))

    host, _ = launched(twice, [NORMAL[0, 0], np.zeros((4, 8), np.float32)])
    assert host.engine.session.n_ops == 1 + 3 + 2
    close(twice, NORMAL[0, 0], NORMAL[0, 0].reshape(4, 8) * 2)


def one_beyond(tl: Any, x: Any) -> None:
    tl.load(x[0, np.array([1, 3])])


def other_rows(tl: Any, x: Any) -> None:
    tl.load(x[0]) + tl.load(x[0, 0, 0:3])


def sum_over_rows(tl: Any, x: Any) -> None:
    tl.sum(tl.load(x[0]), axis=3)


def dot_of_three(tl: Any, x: Any) -> None:
    tl.dot(tl.load(x[0]), tl.load(x[0, 0]).T)


def dot_of_others(tl: Any, x: Any) -> None:
    tl.dot(tl.load(x[0]), tl.load(x[:, 0, 0:4]))


def wrong_size(tl: Any, x: Any) -> None:
    tl.reshape(tl.load(x[0]), 5, 5)


def wrong_shape(tl: Any, x: Any) -> None:
    tl.store(x[0], tl.load(x[0]).reshape(8, 3, 4))


def wrong_order(tl: Any, x: Any) -> None:
    tl.permute(tl.load(x[0]), 0, 1, 1)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (
            one_beyond,
            (
                "got index 3 in dimension 1 of t0, 384 bytes from its start, needs 0 to 2; "
                "leave it out by a mask, or correct the index"
            ),
        ),
        (other_rows, "got add of 3 x 8 x 4, 3 x 4, needs shapes that broadcast"),
        (sum_over_rows, "got tl.sum over axis 3, needs an axis from 0 to 2"),
        (dot_of_three, "got tl.dot of 3 x 8 x 4, needs two matrices, or two values of as many dimensions"),
        (dot_of_others, "got tl.dot of 3 x 8 x 4 and 2 x 4 x 4, needs B x M x K and B x K x N"),
        (wrong_size, "got tl.reshape of 3 x 8 x 4, needs a shape of as many elements"),
        (
            wrong_shape,
            (
                "got tl.store of 8 x 3 x 4 f32 to t0 (3 x 8 x 4 of 2 x 3 x 8 x 4) of 3 x 8 x 4 f32, "
                "needs equal shapes and dtypes"
            ),
        ),
        (wrong_order, "got tl.permute by (0, 1, 1), needs each of the 3 axes once"),
    ],
)
def test_what_has_no_meaning_is_refused_at_the_kernels_line(kernel: Callable[..., None], message: str) -> None:
    with pytest.raises(KernelError) as caught:
        launched(kernel, [X])
    line = f"test_values_of_any_rank.py:{kernel.__code__.co_firstlineno + 1}"
    assert str(caught.value) == f"{line}: {message}"
