"""Arrays come back as they were saved; a damaged or forged file is one sentence and costs no memory."""

import io
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_dataexec.files import read_array
from kb_messages import LogError


def saved(path, array):
    np.save(path, array)
    return path


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.float32).reshape(3, 4),
        np.asfortranarray(np.arange(12, dtype=np.int64).reshape(3, 4)),
        np.array(3, np.float16),
        np.zeros((0, 5), np.uint8),
        np.array([True, False]),
    ],
    ids=["c", "fortran", "scalar", "empty", "bool"],
)
def test_what_was_saved_is_read(tmp_path, array):
    found = read_array(saved(tmp_path / "a.npy", array), LogError)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)


def forged(path, header):
    text = header.encode()
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    return path


HUGE = "{'descr': '<f4', 'fortran_order': False, 'shape': (1152921504606846976, 4096), }\n"
NEGATIVE = "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4), }\n"
FLAG = "{'descr': '<f4', 'fortran_order': False, 'shape': (True, ), }\n"
OBJECT = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n"


@pytest.mark.parametrize(
    ("header", "got"),
    [
        (HUGE, "0 bytes of data, needs the 18889465931478580854784 that its header states"),
        (NEGATIVE, "an array of shape (-1, 4), needs lengths of 0 or more"),
        (FLAG, "an array of shape (True,), needs lengths of 0 or more"),
        (OBJECT, "an array of object, needs an array of bool or int or unsigned int or float"),
        ("((((((((((\n", "no array ("),
        ("(" * 9000 + "\n", "no array ("),
        ("{'descr': '<f4'}\n", "no array ("),
        ("\0", "no array ("),
    ],
    ids=["huge", "negative", "flag", "object", "open brackets", "deep", "fields", "zero"],
)
def test_a_forged_header_is_one_sentence(tmp_path, header, got):
    path = forged(tmp_path / "a.npy", header)
    with pytest.raises(LogError) as caught:
        read_array(path, LogError)
    assert str(caught.value).startswith(f"{path}: got {got}")


def test_an_archive_a_text_and_an_empty_file_are_named(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.zeros(3))
    (tmp_path / "text.npy").write_text("hello")
    (tmp_path / "empty.npy").write_bytes(b"")
    for name, got in (("a.npz", "an archive (.npz)"), ("text.npy", "no array ("), ("empty.npy", "no array (")):
        with pytest.raises(LogError) as caught:
            read_array(tmp_path / name, LogError)
        assert f"{name}: got {got}" in str(caught.value)


def test_kind_and_rank_are_those_that_were_asked_for(tmp_path):
    path = saved(tmp_path / "a.npy", np.zeros((2, 3), np.complex64))
    with pytest.raises(LogError, match=r"got an array of complex64, needs an array of float$"):
        read_array(path, LogError, kinds="f")
    path = saved(tmp_path / "b.npy", np.zeros((2, 3)))
    with pytest.raises(LogError, match=r"got an array of shape \(2, 3\), needs one of 1 dimensions$"):
        read_array(path, LogError, ndim=1)


@settings(max_examples=examples(300))
@given(st.integers(0, 8 * 200 - 1), st.integers(0, 200))
def test_a_flipped_bit_or_a_cut_gives_an_array_or_a_sentence(tmp_path_factory, bit, cut):
    stream = io.BytesIO()
    np.save(stream, np.arange(18, dtype=np.float32))
    whole = bytearray(stream.getvalue())
    assert len(whole) == 200
    flipped = bytearray(whole)
    flipped[bit // 8] ^= 1 << bit % 8
    path = tmp_path_factory.mktemp("npy") / "a.npy"
    for data in (flipped, whole[:cut]):
        path.write_bytes(data)
        try:
            found = read_array(path, LogError)
        except LogError:
            continue
        assert found.nbytes <= os.path.getsize(path)


def test_rows_are_read_into_the_room_that_is_there(tmp_path):
    rows = np.arange(5, dtype=np.int64)
    path = saved(tmp_path / "a.npy", rows)
    room = np.full(7, -1)
    found = read_array(path, LogError, into=room)
    assert np.shares_memory(found, room)
    assert room.tolist() == [0, 1, 2, 3, 4, -1, -1]
    for other in (np.full(4, -1), np.full(7, -1, np.int32), np.full((7, 1), -1)):  # too short, another dtype, a table
        found = read_array(path, LogError, into=other)
        assert found.tolist() == rows.tolist()
        assert (other == -1).all()
