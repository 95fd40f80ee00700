import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_dataexec.memory.store import MemoryStore, StoreError
from kb_messages import DType

HBM = 0x400
SIZE = 256


def new_store(nbytes: int = 1 << 20) -> MemoryStore:
    return MemoryStore([(HBM, nbytes, "cube0.hbm0")])


def expect(text: str):
    return pytest.raises(StoreError, match=f"^{re.escape(text)}$")


def test_what_is_written_is_read():
    store = new_store()
    store.write(HBM, 8, np.arange(6, dtype=np.int16).reshape(2, 3), stride=10)
    assert store.read(HBM, 8, 2, 6, 10, DType.I16).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_read_may_cover_part_of_a_tensor_or_several():
    store = new_store()
    store.write_tensor(HBM, 0, np.arange(4, dtype=np.uint8))
    store.write_tensor(HBM, 4, np.arange(4, 8, dtype=np.uint8))
    assert store.read(HBM, 2, 1, 4, 4, DType.U8).tolist() == [[2, 3, 4, 5]]
    assert store.read(HBM, 1, 2, 3, 3, DType.U8).tolist() == [[1, 2, 3], [4, 5, 6]]


def test_bytes_are_reinterpreted_by_the_type_that_is_asked_for():
    store = new_store()
    store.write(HBM, 0, b"\x00\x3c\x00\xc0")
    assert store.read(HBM, 0, 1, 4, 4, DType.F16).tolist() == [[1.0, -2.0]]


def test_reads_are_read_only():
    store = new_store()
    store.write(HBM, 0, b"\x01\x02")
    with pytest.raises(ValueError, match="read-only"):
        store.read(HBM, 0, 1, 2, 2, DType.U8)[0, 0] = 3


def test_unwritten_bytes_are_an_error():
    store = new_store()
    store.write(HBM, 0, bytes(8))
    with expect(
        "cube0.hbm0 + 0x4 (address 0x1000000000004): got a read of 1 x 4 f16 whose bytes from 0x8 on were never "
        "written, needs initialised bytes"
    ):
        store.read(HBM, 4, 1, 8, 8, DType.F16)


def test_released_bytes_are_an_error():
    store = new_store()
    store.write(HBM, 0, bytes(16))
    store.release(HBM, 4, 2, 2, 4)
    with expect(
        "cube0.hbm0 + 0x0 (address 0x1000000000000): got a read of 1 x 16 u8 whose bytes from 0x4 on were released, "
        "needs initialised bytes"
    ):
        store.read(HBM, 0, 1, 16, 16, DType.U8)
    assert store.read(HBM, 6, 1, 2, 2, DType.U8).tolist() == [[0, 0]]


def test_a_rectangle_that_is_released_whole_costs_no_memory():
    store = new_store()
    store.write(HBM, 0, bytes(16))
    store.release(HBM, 0, 4, 4, 4)
    assert store.nbytes_held == 0


def test_a_release_of_rows_that_nobody_wrote_is_told_by_later_reads():
    store = new_store()
    store.release(HBM, 0, 4, 8, 16)
    with pytest.raises(StoreError, match="from 0x10 on were released"):
        store.read(HBM, 16, 1, 8, 8, DType.U8)


def test_a_range_beyond_the_memory_is_an_error():
    with expect(
        "cube0.hbm0 + 0xffffe (address 0x10000000ffffe): got bytes 0xffffe to 0x100002, needs a range within its "
        "0x100000 bytes"
    ):
        new_store().read(HBM, 0xFFFFE, 1, 4, 4, DType.U8)


def test_an_unknown_owner_is_an_error():
    with expect("owner 0x7: got no memory of that number, needs one of 1 memories"):
        new_store().write(7, 0, b"x")


def test_a_misaligned_read_is_an_error():
    with expect(
        "cube0.hbm0 + 0x2 (address 0x1000000000002): got rows of 8 bytes, 8 apart, needs offset, rows and stride in "
        "multiples of f32's 4 bytes"
    ):
        new_store().read(HBM, 2, 1, 8, 8, DType.F32)


def test_an_empty_rectangle_is_an_error():
    with expect(
        "cube0.hbm0 + 0x0 (address 0x1000000000000): got 0 rows of 4 bytes, 4 apart, needs at least one byte and a "
        "stride of 0 or more"
    ):
        new_store().read(HBM, 0, 0, 4, 4, DType.U8)


def test_rows_of_a_write_must_not_overlap():
    with expect(
        "cube0.hbm0 + 0x0 (address 0x1000000000000): got a write of 4-byte rows 2 bytes apart, needs rows that do not "
        "overlap"
    ):
        new_store().write(HBM, 0, np.zeros((2, 4), np.uint8), stride=2)


def test_a_row_may_be_read_many_times():
    store = new_store()
    store.write(HBM, 0, b"\x01\x02")
    assert store.read(HBM, 0, 3, 2, 0, DType.U8).tolist() == [[1, 2]] * 3


def test_reserved_bytes_stay_uninitialised():
    store = new_store()
    store.reserve(HBM, 0, 64)
    store.write(HBM, 0, np.zeros((4, 8), np.uint8), stride=16)
    with pytest.raises(StoreError, match="from 0x8 on were never written"):
        store.read(HBM, 0, 1, 64, 64, DType.U8)


def test_reserved_bytes_take_no_memory_until_one_is_written():
    store = new_store(1 << 40)
    store.reserve(HBM, 0, 1 << 33)
    twin = store.snapshot()
    with pytest.raises(StoreError, match="from 0x0 on were never written"):
        twin.read(HBM, 0, 1, 8, 8, DType.U8)
    assert not store.held(HBM, 0, 1, 8, 8)[1].any()
    store.write_tensor(HBM, 1 << 20, np.arange(8, dtype=np.uint8))
    assert store.read(HBM, 1 << 20, 1, 2, 2, DType.U8).tolist() == [[0, 1]]
    for at in (16, 1 << 21):
        store.release(HBM, at, 1, 8, 8)


def test_replicas_of_one_array_have_one_place_until_one_is_written():
    store, array = new_store(), np.ones((8, 8), np.uint16)
    for offset in (0, 256):
        store.write_tensor(HBM, offset, array, copy=False)
    store.write_tensor(HBM, 512, array.copy(), copy=False)
    corner = (3, 6, 16)  # three rows of three elements
    assert store.place(HBM, 18, *corner) == store.place(HBM, 274, *corner)
    assert store.place(HBM, 18, *corner) not in (store.place(HBM, 530, *corner), store.place(HBM, 20, *corner))
    store.write(HBM, 274, b"\x07\x00")
    assert store.place(HBM, 18, *corner) != store.place(HBM, 274, *corner)
    store.release(HBM, 18, 1, 2, 2)
    assert store.place(HBM, 18, *corner) is None
    assert store.place(HBM, 120, 1, 32, 32) is None  # beyond the array


@pytest.mark.parametrize("reserved", [True, False])
def test_an_output_written_tile_by_tile_is_read_whole_without_a_copy(reserved):
    store, expected = new_store(), np.arange(64 * 64, dtype=np.uint16).reshape(64, 64)
    if reserved:
        store.reserve(HBM, 0, expected.nbytes)
    for col in range(0, 64, 16):
        store.write(HBM, col * 2, expected[:, col : col + 16], stride=128)
    first, second = (store.read(HBM, 0, 64, 128, 128, DType.U16) for _ in range(2))
    assert (first == expected).all()
    assert np.shares_memory(first, second)


def test_rectangles_that_grow_an_extent_are_not_copied_each_time():
    store = new_store(1 << 26)
    arrays = set()
    for col in range(256):
        store.write(HBM, col * 4, np.full((64, 4), col, np.uint8), stride=1024)
        arrays.add(id(store._regions[HBM].extents.items[0].data))
    assert len(arrays) <= 3


def test_far_apart_rows_do_not_hold_what_lies_between():
    store = new_store(1 << 38)
    store.write(HBM, 0, np.ones((4, 16), np.uint8), stride=1 << 30)
    assert store.nbytes_held == 64


def test_saved_memory_loads_with_its_validity(tmp_path):
    store = new_store()
    store.reserve(HBM, 0, 16)
    store.write(HBM, 4, b"\x01\x02\x03\x04")
    store.write(HBM, 100, b"\x09")
    store.save(tmp_path / "a")
    loaded = MemoryStore.load(tmp_path / "a")
    assert loaded.regions == store.regions
    assert loaded.read(HBM, 4, 1, 4, 4, DType.U8).tolist() == [[1, 2, 3, 4]]
    with pytest.raises(StoreError, match="never written"):
        loaded.read(HBM, 3, 1, 2, 2, DType.U8)


def test_saving_is_deterministic(tmp_path):
    for name in ("a", "b"):
        store = new_store()
        store.reserve(HBM, 0, 1 << 16)
        store.write(HBM, 4, b"\x01\x02\x03\x04")
        store.save(tmp_path / name)
    files = [{p.name: p.read_bytes() for p in sorted((tmp_path / name).iterdir())} for name in ("a", "b")]
    assert files[0] == files[1]


def test_a_folder_without_a_store_is_an_error(tmp_path):
    index = tmp_path / "index.json"
    with expect(f"{index}: got no such file, needs a file"):
        MemoryStore.load(tmp_path)


def test_an_unknown_store_version_is_an_error(tmp_path):
    new_store().save(tmp_path)
    index = tmp_path / "index.json"
    index.write_text(index.read_text().replace('"version": 1', '"version": 2'))
    with expect(f"{index}: got 'kernbench-memory' version 2, needs 'kernbench-memory' version 1"):
        MemoryStore.load(tmp_path)


class Model:
    """A MemoryStore as a byte array and a mask."""

    def __init__(self) -> None:
        self.data, self.valid = bytearray(SIZE), [False] * SIZE

    def copy(self) -> "Model":
        twin = Model()
        twin.data, twin.valid = self.data[:], self.valid[:]
        return twin

    def cells(self, offset: int, rows: int, row_nbytes: int, stride: int) -> list[int]:
        return [offset + row * stride + at for row in range(rows) for at in range(row_nbytes)]


rectangles = st.builds(
    lambda offset, rows, row_nbytes, gap: (offset, rows, row_nbytes, row_nbytes + gap),
    st.integers(0, SIZE - 1),
    st.integers(1, 6),
    st.integers(1, 24),
    st.sampled_from([0, 0, 1, 8]),
).filter(lambda r: r[0] + (r[1] - 1) * r[3] + r[2] <= SIZE)
steps = st.tuples(
    st.sampled_from(["write", "write", "write", "tensor", "handover", "reserve", "release", "read", "snapshot"]),
    rectangles,
)


@settings(max_examples=examples(300))
@given(st.lists(steps, max_size=25))
def test_the_store_behaves_like_bytes_with_a_mask(history):
    store, model, frozen, kept = new_store(SIZE), Model(), [], []
    for number, (action, (offset, rows, row_nbytes, stride)) in enumerate(history, start=1):
        if action in ("tensor", "handover", "reserve"):
            rows, stride = 1, row_nbytes
        cells = model.cells(offset, rows, row_nbytes, stride)
        values = [(number * 31 + at) % 256 for at in range(len(cells))]
        array = np.array(values, np.uint8).reshape(rows, row_nbytes)
        if action == "read":
            kept.append(check_read(store, model, offset, rows, row_nbytes, stride))
        elif action == "release":
            store.release(HBM, offset, rows, row_nbytes, stride)
            for cell in cells:
                model.valid[cell] = False
        elif action == "snapshot":
            frozen.append((store, model))
            store, model = store.snapshot(), model.copy()
        elif action == "reserve":
            store.reserve(HBM, offset, row_nbytes)
        else:
            if action == "write":
                store.write(HBM, offset, array, stride)
            else:
                store.write_tensor(HBM, offset, array, copy=action == "tensor")
            if action != "handover":
                array[...] = 0xEE  # the caller's business, not the store's
            for cell, value in zip(cells, values, strict=True):
                model.data[cell], model.valid[cell] = value, True
    for memory, reference in [*frozen, (store, model)]:
        check_all(memory, reference)
    assert [lasting.tobytes() for lasting, _ in kept] == [expected for _, expected in kept]


def check_all(memory: MemoryStore, reference: Model) -> None:
    for at in range(0, SIZE, 8):
        check_read(memory, reference, at, 1, 8, 8)
    for rectangle in ((0, 8, 4, 9), (8, 5, 16, 0), (3, 3, 40, 24)):
        check_read(memory, reference, *rectangle)
    for dtype in (DType.U16, DType.F32, DType.BF16, DType.I64):
        check_read(memory, reference, 16, 3, 16, 32, dtype)


def check_read(
    store: MemoryStore, model: Model, offset: int, rows: int, row_nbytes: int, stride: int, dtype: DType = DType.U8
) -> tuple[np.ndarray, bytes]:
    """Bytes read as *dtype* are the model's; where some are not valid, the error names the first in order of rows.

    Returns a lasting read, and what it has to show for good.
    """
    cells = model.cells(offset, rows, row_nbytes, stride)
    if all(model.valid[cell] for cell in cells):
        got = store.read(HBM, offset, rows, row_nbytes, stride, dtype)
        expected = bytes(model.data[cell] for cell in cells)
        assert got.shape == (rows, row_nbytes // dtype.nbytes)
        assert got.tobytes() == expected
        return store.read(HBM, offset, rows, row_nbytes, stride, dtype, lasting=True), expected
    else:
        with pytest.raises(StoreError, match="needs initialised bytes") as caught:
            store.read(HBM, offset, rows, row_nbytes, stride, dtype)
        assert caught.value.byte == (HBM, next(cell for cell in cells if not model.valid[cell]))
        return np.empty(0), b""


def test_rectangles_of_one_shape_are_read_together():
    memory = MemoryStore([(1, 64, "hbm")])
    memory.write(1, 0, np.arange(24, dtype=np.uint8))
    memory.write(1, 24, np.arange(24, 48, dtype=np.uint8))
    found = memory.read_each(1, [2, 20, 8], 2, 4, 6, DType.U16)
    at = np.array([[2, 4], [8, 10]])
    assert found.tolist() == [[[256 * (n + 1) + n for n in row] for row in (at + step).tolist()] for step in (0, 18, 6)]
    assert not found.flags.writeable
    with pytest.raises(StoreError, match="multiples of u16's 2 bytes"):
        memory.read_each(1, [2, 3], 2, 4, 6, DType.U16)
    with pytest.raises(StoreError, match="whose bytes from 0x30 on were never written"):
        memory.read_each(1, [2, 42], 2, 4, 6, DType.U16)


def test_what_is_held_of_a_rectangle_is_told_byte_by_byte():
    memory = MemoryStore([(1, 64, "hbm")])
    memory.write(1, 2, np.arange(2, 12, dtype=np.uint8))
    memory.release(1, 4, 1, 2, 2)
    data, is_valid = memory.held(1, 0, 2, 6, 8)
    assert is_valid.tolist() == [[False, False, True, True, False, False], [True] * 4 + [False] * 2]
    assert data[is_valid].tolist() == [2, 3, 8, 9, 10, 11]
