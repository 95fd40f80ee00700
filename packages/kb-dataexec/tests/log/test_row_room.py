"""Rows of files in one array, also where a file grew after the room was made."""

import tracemalloc

import numpy as np
import pytest

from kb_dataexec.files import read_array
from kb_dataexec.log.row_room import RowRoom
from kb_messages import KbError


def saved(path, rows):
    np.save(path, rows)
    return path


def read(room, files):
    for file in files:
        room.take(read_array(file, into=room.free))
    return room.joined()


def test_rows_of_all_files_stand_in_one_array_without_a_copy(tmp_path):
    files = [saved(tmp_path / f"{number}.npy", np.arange(number)) for number in (3, 0, 4)]
    room = RowRoom(np.dtype(np.int64), files)
    place = room.free
    rows = read(room, files)
    assert rows.tolist() == [0, 1, 2, 0, 1, 2, 3]
    assert rows.ctypes.data == place.ctypes.data


def test_rows_of_a_file_that_grew_are_all_there(tmp_path):
    files = [saved(tmp_path / f"{number}.npy", np.arange(3)) for number in range(2)]
    room = RowRoom(np.dtype(np.int64), files)
    saved(files[0], np.arange(1000))
    assert read(room, files).tolist() == [*range(1000), 0, 1, 2]


def test_a_file_that_is_not_there_needs_no_room(tmp_path):
    assert RowRoom(np.dtype(np.int64), [tmp_path / "a.npy"]).joined().tolist() == []


def test_files_behind_a_missing_one_are_not_looked_for(tmp_path):
    asked = []

    def files():
        for number in range(1000):
            asked.append(number)
            yield tmp_path / f"{number}.npy"

    RowRoom(np.dtype(np.int64), files())
    assert asked == [0]


def test_a_file_that_is_longer_than_the_memory_is_told_by_its_reader(tmp_path):
    path = saved(tmp_path / "a.npy", np.arange(3))
    with path.open("r+b") as file:
        file.truncate(1 << 43)
    with pytest.raises(KbError, match="8796093022080 bytes of data, needs the 24 that its header states"):
        read(RowRoom(np.dtype(np.int64), [path]), [path])


def test_rows_of_no_file_are_joined_without_twice_their_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("kb_dataexec.log.row_room._BLOCK_NBYTES", 1 << 16)
    file, expected = saved(tmp_path / "a.npy", np.arange(5)), [np.arange(5)]
    room = RowRoom(np.dtype(np.int64), [file])
    tracemalloc.start()
    for number in range(200):
        expected.append(np.arange(number, 5000 + number))
        room.take(expected[-1].copy())
        if number == 100:
            room.take(read_array(file, into=room.free))
            expected.append(expected[0])
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    rows = room.joined()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.array_equal(rows, np.concatenate(expected[1:]))
    assert peak - before < rows.nbytes + (1 << 17)
