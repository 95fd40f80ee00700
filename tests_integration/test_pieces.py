"""Loads and stores of elements anywhere, beside numpy: lists, strides, masks, blocks, in both modes of pass 2."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_dataexec import Executor, MemoryLogWriter, numpy_dtype
from kb_engine import Engine, Host, read_tensor
from kb_messages import DType, KbError
from kb_topology import load_topology

ROOT = Path(__file__).parents[1]
KINDS = {numpy_dtype(dtype): dtype for dtype in DType}
Array = npt.NDArray[Any]


def run(
    kernel: Callable[..., None], arrays: list[Array], mode: str = "fused", topology: str = "one_pe", **options: Any
) -> list[Array]:
    """What pass 2 makes of all tensors, which hold *arrays*, when one PE runs *kernel* on them."""
    engine = Engine(load_topology(ROOT / f"topologies/{topology}.yaml"), MemoryLogWriter())
    host = Host(engine, Path(__file__).parent)
    tensors = [host.tensor(f"t{n}", each, KINDS[each.dtype], **options) for n, each in enumerate(arrays)]
    host.launch(kernel, *tensors, pes=[0])
    log = engine.close_log()
    assert engine.initial_memory is not None
    memory = Executor(log, engine.initial_memory, mode, fuse_from=2).run()  # type: ignore[arg-type]
    return [read_tensor(memory, each) for each in tensors]


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[list[Any], bool]:
    """An index of a tensor of *shape*, in parts that a kernel turns into ranges and numpy into arrays."""
    parts: list[Any] = []
    listed = draw(st.booleans())
    for size in shape:
        kind = draw(st.sampled_from(["slice", "list", "range", "int"] if listed else ["slice", "step", "back"]))
        if kind == "slice":
            start = draw(st.integers(0, size - 1))
            parts.append(slice(start, draw(st.integers(start + 1, size))))
        elif kind == "step":
            parts.append(slice(draw(st.integers(0, size - 1)), None, draw(st.integers(1, 3))))
        elif kind == "back":
            parts.append(slice(None, None, -draw(st.integers(1, 2))))
        elif kind == "list":
            parts.append(draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=6)))
        elif kind == "range":
            start = draw(st.integers(0, size - 1))
            parts.append(range(start, draw(st.integers(start + 1, size))))
        else:
            parts.append(draw(st.integers(0, size - 1)))
    return parts, listed


def as_columns(parts: list[Any], make: Callable[[Any], Any]) -> tuple[Any, ...]:
    """*parts* as one key: lists and ranges, which *make* makes, on axes of their own."""
    n_lists = sum(isinstance(each, (list, range)) for each in parts)
    found, seen = list[Any](), 0
    for each in parts:
        if isinstance(each, (list, range)):
            found.append(make(each)[(slice(None),) + (None,) * (n_lists - 1 - seen)])
            seen += 1
        else:
            found.append(each)
    return tuple(found)


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_any_elements_come_and_go_as_numpy_has_them(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from([(13,), (7, 9), (5, 16)]))
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape) * 3 + 1
    parts, _ = data.draw(keys(shape))
    index = as_columns(parts, np.array)
    expected = x[index]
    if not expected.ndim:
        return
    mask = data.draw(st.none() | st.lists(st.booleans(), min_size=expected.size, max_size=expected.size))
    chosen = None if mask is None else np.array(mask).reshape(expected.shape)
    if chosen is not None and not chosen.any():
        return
    seen = []

    def kernel(tl: Any, x: Any, out: Any, back: Any, chosen: Any) -> None:
        def known(each: Any) -> Any:
            return tl.arange(each.start, each.stop) if isinstance(each, range) else np.array(each)

        ref, under = x[as_columns(parts, known)], None if mask is None else tl.load(chosen) > 0
        value = tl.load(ref) if under is None else tl.load(ref, under, -7)
        seen.append(value.data)
        tl.store(out, value)
        tl.store(back[as_columns(parts, known)], value, under)

    want = expected if chosen is None else np.where(chosen, expected, -7)
    back = np.full_like(x, -1)
    kept = back.copy()
    if chosen is None:
        kept[index] = want
    else:
        places = np.arange(x.size).reshape(shape)[index][chosen]
        kept.reshape(-1)[places] = want[chosen]
    flags = np.zeros(expected.shape, np.int32) if chosen is None else chosen.astype(np.int32)
    for mode in ("tile", "fused"):
        found = run(kernel, [x, np.zeros(expected.shape, np.int32), back, flags], mode)
        np.testing.assert_array_equal(found[1], want)
        np.testing.assert_array_equal(found[2], kept)
        np.testing.assert_array_equal(found[0], x)
        np.testing.assert_array_equal(seen[-1], want)


def test_shards_are_crossed_by_slices_and_lists() -> None:
    def kernel(tl: Any, x: Any, out: Any) -> None:
        rows = np.array([0, 31, 7, 8, 9, 24])
        tl.store(out[3:29, 1:11], tl.load(x[3:29, 1:11]))
        tl.store(out[rows[:, None], tl.arange(12, 16)[None, :]], tl.load(x[rows[:, None], tl.arange(0, 4)[None, :]]))

    x = np.arange(32 * 16, dtype=np.float32).reshape(32, 16)
    want = np.zeros_like(x)
    want[3:29, 1:11] = x[3:29, 1:11]
    want[[0, 31, 7, 8, 9, 24], 12:16] = x[[0, 31, 7, 8, 9, 24], 0:4]
    for shard in ("row", "column"):
        _, found = run(kernel, [x, np.zeros_like(x)], topology="one_cube", shard=shard)
        np.testing.assert_array_equal(found, want)
    for topology in ("one_sip", "u280_hbm", "one_cube_banked"):
        _, found = run(kernel, [x, np.zeros_like(x)], topology=topology)
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_a_causal_mask_chooses_a_triangle_of_pending_bytes(mode: str) -> None:
    def kernel(tl: Any, x: Any, out: Any) -> None:
        number = tl.arange(0, 8)
        mask = number[:, None] >= number[None, :]
        tl.store(x, tl.load(x) * 2.0)
        tile = tl.load(x, mask, float("-inf"))
        assert tile.is_pending
        tl.store(out, tl.exp(tile), mask)

    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
    triangle = np.tril(np.ones((8, 8), bool))
    want = np.where(triangle, np.exp(x.astype(np.float64) * 2), 5)
    found = run(kernel, [x, np.full((8, 8), 5, np.float32)], mode)
    np.testing.assert_allclose(found[1], want, rtol=1e-6)


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_a_tile_read_along_columns_lies_transposed_and_is_multiplied_as_it_lies(mode: str) -> None:
    def kernel(tl: Any, x: Any, y: Any, out: Any, back: Any) -> None:
        k, m = tl.arange(0, 8), tl.arange(0, 4)
        turned = tl.load(x[m[None, :], k[:, None]])  # k x m, while x is m x k
        assert turned.shape == (8, 4)
        tl.store(out, tl.dot(turned.T, tl.load(y)))
        tl.store(back, turned)

    x, y = (np.random.default_rng(2).integers(-4, 4, shape).astype(np.float32) for shape in ((4, 8), (8, 16)))
    found = run(kernel, [x, y, np.zeros((4, 16), np.float32), np.zeros((8, 4), np.float32)], mode)
    np.testing.assert_array_equal(found[2], x @ y)
    np.testing.assert_array_equal(found[3], x.T)


def test_of_what_is_stored_to_one_place_the_last_stays() -> None:
    def kernel(tl: Any, x: Any, out: Any) -> None:
        tl.store(out[np.array([2, 0, 2, 1, 0])], tl.load(x))
        tl.store(out[tl.arange(0, 5) * 0 + 4], tl.load(x))

    x = np.arange(5, dtype=np.float32) + 1
    _, found = run(kernel, [x, np.zeros(6, np.float32)])
    np.testing.assert_array_equal(found, [5, 4, 3, 0, 5, 0])


def test_bytes_of_pieces_are_pending_until_they_are_known() -> None:
    def kernel(tl: Any, x: Any, out: Any) -> None:
        tl.store(x[::2], tl.load(x[::2]) * 2.0)
        assert not tl.load(x[1::2]).is_pending
        assert tl.load(x[np.array([1, 3, 4])]).is_pending
        tl.store(x[::2], tl.load(x[1::2]))
        value = tl.load(x)
        assert not value.is_pending
        tl.store(out, value)

    x = np.arange(8, dtype=np.float32)
    for mode in ("tile", "fused"):
        _, found = run(kernel, [x, np.zeros(8, np.float32)], mode)
        np.testing.assert_array_equal(found, [1, 1, 3, 3, 5, 5, 7, 7])


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_a_computed_index_is_looked_at(mode: str) -> None:
    def kernel(tl: Any, x: Any, out: Any) -> None:
        order = (3 - tl.load(out)).to("i32")
        tl.store(out, tl.load(x[order]))

    x = np.arange(4, dtype=np.float32)
    _, found = run(kernel, [x * 10, x], mode)
    np.testing.assert_array_equal(found, [30, 20, 10, 0])


def test_a_loaded_list_gathers_rows_and_scatters_them() -> None:
    def kernel(tl: Any, x: Any, ids: Any, out: Any) -> None:
        known = tl.load(ids)
        tl.store(out[known], tl.load(x[known, 1:4]))

    x, ids = np.arange(40, dtype=np.float32).reshape(10, 4), np.array([7, 1, 2, 9, 0], np.int32)
    want = np.zeros((10, 3), np.float32)
    want[ids] = x[ids, 1:4]
    for mode in ("tile", "fused"):
        *_, found = run(kernel, [x, ids, np.zeros((10, 3), np.float32)], mode)
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_known_integers_and_masks_are_data_too(mode: str) -> None:
    def kernel(tl: Any, x: Any, out: Any, numbers: Any) -> None:
        value, number = tl.load(x), tl.arange(0, 8)
        gaps = (number[:, None] & 1) == (number[None, :] & 1)
        tl.store(out, tl.where(gaps, value, float(-1)) + (number & 3))
        tl.store(numbers, number[:, None] * 8 + number[None, :])
        tl.store(numbers[0:1], tl.load(numbers[0:1], number > 9, other=7))

    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
    number = np.arange(8)
    want = np.where((number[:, None] & 1) == (number & 1), x, np.float32(-1)) + (number & 3).astype(np.float32)
    numbers = np.arange(64, dtype=np.int16).reshape(8, 8)
    numbers[0] = 7
    found = run(kernel, [x, np.zeros_like(x), np.zeros((8, 8), np.int16)], mode)
    np.testing.assert_array_equal(found[1], want)
    np.testing.assert_array_equal(found[2], numbers)


@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_a_causal_mask_is_data_where_it_is_an_operand(mode: str) -> None:
    def kernel(tl: Any, x: Any, out: Any) -> None:
        number = tl.arange(0, 8)
        tl.store(out, tl.where(number[:, None] >= number[None, :], tl.load(x), float("-inf")))

    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
    _, found = run(kernel, [x, np.zeros_like(x)], mode)
    np.testing.assert_array_equal(found, np.where(np.tri(8, dtype=bool), x, -np.inf))


def test_a_number_that_the_tensor_does_not_have_is_not_stored() -> None:
    def kernel(tl: Any, out: Any) -> None:
        tl.store(out, tl.arange(120, 136))

    with pytest.raises(KbError) as caught:
        run(kernel, [np.zeros(16, np.int8)])
    line = f"test_pieces.py:{kernel.__code__.co_firstlineno + 1}"
    assert str(caught.value) == f"{line}: got 128 as i8, needs a number of that type"
