import numpy as np

from kb_dataexec import MemoryStore
from kb_engine.memory.device_memory import DeviceMemory
from kb_engine.memory.pending import Producer
from kb_engine.memory.tiles import MadeTile, TilePart
from kb_messages import OFFSET_BITS, DType, Matrix

OWNER = 9
TILE = Matrix.packed(2, 3, DType.I32)


def memory():
    return DeviceMemory(MemoryStore([(OWNER, 1024, "hbm0")]))


def matrix(offset, rows, cols, stride):
    return Matrix(address=(OWNER << OFFSET_BITS) + offset, rows=rows, cols=cols, stride=stride, dtype=DType.I32)


def test_a_rectangle_is_read_as_it_was_written():
    device, part = memory(), matrix(32, 2, 3, 64)
    device.write(part, np.arange(6, dtype=np.int32))
    np.testing.assert_array_equal(device.read(part), [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(device.read(matrix(32 + 64 + 4, 1, 2, 8)), [[4, 5]])


def test_what_is_read_cannot_be_written_to():
    device, part = memory(), matrix(0, 1, 2, 8)
    device.write(part, np.zeros(2, np.int32))
    assert not device.read(part).flags.writeable


def test_a_write_makes_pending_bytes_concrete():
    device, part = memory(), matrix(0, 2, 2, 16)
    device.pending.mark(part, Producer("op", "k.py:1"))
    device.write(part, np.zeros((2, 2), np.int32))
    assert device.pending.producer(part) is None


def test_what_is_loaded_stays_as_it_was_whatever_is_written_later():
    device, whole = memory(), matrix(0, 2, 2, 8)
    device.write(whole, np.array([[1, 2], [3, 4]], np.int32))
    for _ in range(2):
        producer, loaded = device.load([matrix(4, 2, 1, 8)], TILE)
        device.write(whole, np.zeros((2, 2), np.int32))
        assert producer is None
        assert loaded.tolist() == [[2], [4]]
        device.write(whole, np.array([[1, 2], [3, 4]], np.int32))
        device.keep_initial()


def test_a_tile_has_what_is_loaded_at_its_parts_and_a_number_elsewhere():
    device = memory()
    device.write(matrix(0, 2, 2, 8), np.array([[1, 2], [3, 4]], np.int32))
    made = MadeTile(6, DType.I32, np.int32(9).tobytes(), (TilePart(1, 3, 2, 1), TilePart(5, 3, 1, 1)))
    producer, loaded = device.load([matrix(0, 2, 1, 8), matrix(12, 1, 1, 4)], TILE, made)
    assert producer is None
    assert loaded.tolist() == [9, 1, 9, 9, 3, 4]


def test_a_part_of_a_tile_is_put_or_is_pending():
    device, there = memory(), matrix(0, 2, 2, 8)
    tile = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    device.pending.mark(there, Producer("op", "k.py:1"))
    device.put(there, TILE, tile, None, TilePart(1, 3, 2, 2))
    assert device.pending.producer(there) is None
    assert device.read(there).tolist() == [[2, 3], [5, 6]]
    device.put(there, TILE, None, Producer("op", "k.py:2"))
    assert device.pending.producer(there).line == "k.py:2"
