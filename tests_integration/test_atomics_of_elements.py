"""Atomics under masks, and on elements that are no rectangle."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kb_dataexec import Executor, MemoryLogWriter, numpy_dtype, sanitize
from kb_engine import Engine, Host, read_tensor
from kb_messages import DType
from kb_topology import load_topology

ROOT = Path(__file__).parents[1]
KINDS = {numpy_dtype(dtype): dtype for dtype in DType}
RNG = np.random.default_rng(0)
Array = npt.NDArray[Any]


def run(kernel: Callable[..., None], *arrays: Array) -> tuple[list[Array], int]:
    """The arrays after pass 2, which is the same in both modes, and the number of writes to memory by DMA."""
    engine = Engine(load_topology(ROOT / "topologies/one_pe.yaml"), MemoryLogWriter())
    host = Host(engine, Path(__file__).parent)
    tensors = [host.tensor(f"t{n}", each.copy(), KINDS[each.dtype]) for n, each in enumerate(arrays)]
    host.launch(kernel, *tensors, pes=[0])
    log = engine.close_log()
    assert engine.initial_memory is not None
    assert sanitize(log) == []
    found = [
        [np.array(read_tensor(Executor(log, engine.initial_memory, mode, fuse_from=2).run(), each)) for each in tensors]  # type: ignore[arg-type]
        for mode in ("tile", "fused")
    ]
    assert b"".join(map(bytes, found[0])) == b"".join(map(bytes, found[1]))
    return found[0], sum(record.name == "dma_write" for record in log.records())


def test_a_ragged_edge_is_one_command() -> None:
    def kernel(tl: Any, x: Any, y: Any) -> None:
        at = tl.arange(0, 16)
        tl.atomic_add(y[at], tl.load(x[at], at < 10, 0.0), at < 10)
        tl.atomic_add(y[at], 1.0, (at < 10) & (at >= 3))

    x = RNG.standard_normal(10).astype(np.float32)
    (_, y), writes = run(kernel, x, np.zeros(10, np.float32))
    np.testing.assert_array_equal(y, x + (np.arange(10) >= 3))
    assert writes == 2


def test_elements_of_one_place_change_it_one_after_the_other() -> None:
    def kernel(tl: Any, ids: Any, counts: Any, before: Any) -> None:
        tl.store(before, tl.atomic_add(counts[tl.load(ids)], 1))

    ids = RNG.integers(0, 8, 32).astype(np.int32)
    (_, counts, before), _ = run(kernel, ids, np.zeros(8, np.int32), np.zeros(32, np.int32))
    np.testing.assert_array_equal(counts, np.bincount(ids, minlength=8))
    np.testing.assert_array_equal(before, [np.sum(ids[:at] == each) for at, each in enumerate(ids)])


def test_rows_are_scattered_with_the_bytes_before() -> None:
    def kernel(tl: Any, x: Any, ids: Any, y: Any, before: Any) -> None:
        rows, cols = tl.load(ids), tl.arange(0, 4)
        tl.store(before, tl.atomic_add(y[rows[:, None], cols[None, :]], tl.load(x)))

    x, ids = RNG.standard_normal((6, 4)).astype(np.float32), np.array([3, 0, 3, 1, 0, 3], np.int32)
    wanted, old = np.zeros((5, 4), np.float32), np.zeros((6, 4), np.float32)
    for number, row in enumerate(ids):
        old[number] = wanted[row]
        wanted[row] += x[number]
    (*_, y, before), _ = run(kernel, x, ids, np.zeros((5, 4), np.float32), old * 0)
    np.testing.assert_array_equal(y, wanted)
    np.testing.assert_array_equal(before, old)


@pytest.mark.parametrize("keeps", [False, True])
def test_a_mask_with_gaps_leaves_out_and_gives_zeros(keeps: bool) -> None:
    def kernel(tl: Any, x: Any, y: Any, before: Any) -> None:
        mask = ((tl.arange(0, 4)[:, None] + tl.arange(0, 6)[None, :]) & 1) == 0
        old = tl.atomic_max(y, tl.load(x), mask)
        if keeps:
            tl.store(before, old + 1)

    x, y = (RNG.integers(-9, 9, (4, 6)).astype(np.int32) for _ in range(2))
    mask = ((np.arange(4)[:, None] + np.arange(6)) & 1) == 0
    (_, after, before), _ = run(kernel, x, y, np.ones((4, 6), np.int32))
    np.testing.assert_array_equal(after, np.where(mask, np.maximum(x, y), y))
    np.testing.assert_array_equal(before, np.where(mask, y, 0) + 1 if keeps else 1)


def test_a_mask_of_nothing_changes_nothing() -> None:
    def kernel(tl: Any, y: Any, before: Any) -> None:
        at = tl.arange(0, 8)
        tl.store(before, tl.atomic_add(y[at], 1.0, at >= 100) + 2)
        tl.wait(tl.atomic_add(y[at], 1.0, at >= 100))

    (y, before), _ = run(kernel, np.ones(8, np.float32), np.zeros(8, np.float32))
    assert (y == 1).all()
    assert (before == 2).all()


def test_a_compare_and_swap_of_every_second_element_stays_known() -> None:
    def kernel(tl: Any, y: Any, before: Any) -> None:
        at = tl.arange(0, 4) * 2
        old = tl.atomic_cas(y[at], tl.zeros((4,), "i32"), tl.full((4,), 7, "i32"))
        assert old[0] == 0
        tl.store(before, old)

    x = np.array([0, 1, 2, 3, 0, 5, 6, 7], np.int32)
    (y, before), _ = run(kernel, x, np.zeros(4, np.int32))
    np.testing.assert_array_equal(before, x[::2])
    np.testing.assert_array_equal(y, [7, 1, 2, 3, 7, 5, 6, 7])
