"""Which arrays a store shares with its caller and with its snapshots, and which bytes it copies."""

import numpy as np

from kb_dataexec.memory.store import MemoryStore
from kb_messages import DType

HBM = 0x400


def new_store() -> MemoryStore:
    return MemoryStore([(HBM, 1 << 20, "cube0.hbm0")])


def test_a_handed_over_tensor_is_read_without_a_copy_and_becomes_read_only():
    store, array = new_store(), np.zeros((64, 64), np.float32)
    store.write_tensor(HBM, 0, array, copy=False)
    assert np.shares_memory(store.read(HBM, 64, 8, 32, 256, DType.F32), array)
    assert not array.flags.writeable


def test_a_borrowed_tensor_is_copied():
    store, array = new_store(), np.zeros(4, np.float32)
    store.write_tensor(HBM, 0, array)
    array[:] = 1
    assert store.read(HBM, 0, 1, 16, 16, DType.F32).tolist() == [[0, 0, 0, 0]]


def test_a_view_that_others_can_write_through_is_copied_even_when_handed_over():
    store, whole, raw = new_store(), np.zeros(8, np.uint8), bytearray(8)
    store.write_tensor(HBM, 0, whole[2:6], copy=False)
    store.write_tensor(HBM, 16, np.frombuffer(raw, np.uint8), copy=False)
    whole[:] = 1
    raw[:] = b"\x01" * 8
    assert store.read(HBM, 0, 1, 4, 4, DType.U8).tolist() == [[0] * 4]
    assert store.read(HBM, 16, 1, 8, 8, DType.U8).tolist() == [[0] * 8]


def test_a_read_only_view_of_what_nobody_can_write_is_kept():
    store, array = new_store(), np.zeros(8, np.float32)
    array.setflags(write=False)
    store.write_tensor(HBM, 0, array[4:], copy=False)
    assert np.shares_memory(store.read(HBM, 0, 1, 16, 16, DType.F32), array)


def test_a_write_into_a_handed_over_tensor_leaves_the_callers_array_alone():
    store, array = new_store(), np.zeros(4, np.uint8)
    store.write_tensor(HBM, 0, array, copy=False)
    store.write(HBM, 1, b"\x07")
    assert array.tolist() == [0, 0, 0, 0]
    assert store.read(HBM, 0, 1, 4, 4, DType.U8).tolist() == [[0, 7, 0, 0]]


def test_a_snapshot_and_its_source_change_apart():
    store = new_store()
    store.write(HBM, 0, bytes(8))
    twin = store.snapshot()
    store.write(HBM, 0, b"\x01")
    twin.write(HBM, 1, b"\x02")
    twin.release(HBM, 7, 1, 1, 1)
    assert store.read(HBM, 0, 1, 8, 8, DType.U8).tolist() == [[1, 0, 0, 0, 0, 0, 0, 0]]
    assert twin.read(HBM, 0, 1, 7, 7, DType.U8).tolist() == [[0, 2, 0, 0, 0, 0, 0]]


def test_a_snapshot_copies_no_bytes():
    store = new_store()
    store.write(HBM, 0, bytes(8))
    reads = [memory.read(HBM, 0, 1, 8, 8, DType.U8) for memory in (store, store.snapshot())]
    assert np.shares_memory(*reads)


def test_a_lasting_read_is_a_view_of_what_a_snapshot_has_and_shows_no_later_write():
    store = new_store()
    store.write(HBM, 0, np.arange(8, dtype=np.uint8))
    own = store.read(HBM, 2, 2, 2, 4, DType.U8, lasting=True)
    assert not np.shares_memory(own, store.read(HBM, 0, 1, 8, 8, DType.U8))
    store.snapshot()
    shared = store.read(HBM, 2, 2, 2, 4, DType.U8, lasting=True)
    assert np.shares_memory(shared, store.read(HBM, 0, 1, 8, 8, DType.U8))
    store.write(HBM, 0, np.zeros(8, np.uint8))
    assert own.tolist() == shared.tolist() == [[2, 3], [6, 7]]
    assert not own.flags.writeable
    assert not shared.flags.writeable
