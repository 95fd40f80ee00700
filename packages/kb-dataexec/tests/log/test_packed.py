"""Packed rows of auxiliary tables: their bytes by hand, random rows back, damaged and forged files refused."""

import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dataexec_tables import log_with_tables
from hypothesis import given
from hypothesis import strategies as st

from kb_dataexec.log import packed
from kb_dataexec.log.packed import pack, unpack
from kb_dataexec.log.reader import read_log
from kb_dataexec.log.table_dtypes import TABLE_DTYPES
from kb_dataexec.log.writer import write_log
from kb_messages import LogError

PAIR = np.dtype([("wide", "<i8"), ("code", "|i1")])


def test_the_bytes_are_those_of_the_documentation():
    rows = np.array([(1, 5), (-1, 5), (2**40, 127), (0, -128)], PAIR)
    planes = b""
    differences = [1, -2, 2**40 + 1, -(2**40)]
    for byte in range(8):
        planes += bytes(struct.pack("<q", each)[byte] for each in differences)
    planes += bytes([5, 0, 122, 1])  # 127 and 1 more is -128, modulo 256
    data = pack(rows, "x")
    assert zlib.decompress(data[4:]) == planes
    assert int.from_bytes(data[:4], "little") == zlib.crc32(data[4:])
    assert unpack(data, PAIR, "x").tobytes() == rows.tobytes()


def test_the_code_of_the_readme_unpacks():
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (code,) = [each for each in re.findall(r"```python\n(.*?)```", readme, re.DOTALL) if "def unpack" in each]
    module: dict[str, Any] = {}
    exec(code, module)
    rows = log_with_tables().tables["commands"]
    columns = [(name, kind) for name, kind in rows.dtype.descr]
    found = module["unpack"](pack(rows, "x"), columns)
    assert {name: column.tolist() for name, column in found.items()} == {
        name: rows[name].tolist() for name in rows.dtype.names
    }


@given(st.sampled_from(sorted(TABLE_DTYPES)), st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_any_rows_come_back(name, n_rows, seed):
    dtype = TABLE_DTYPES[name]
    rows = np.random.default_rng(seed).integers(0, 256, n_rows * dtype.itemsize, np.uint8).view(dtype)
    found = unpack(pack(rows, "x"), dtype, "x")
    assert found.dtype == dtype
    assert found.tobytes() == rows.tobytes()


def test_commands_of_one_op_take_less_than_16_bytes():
    """Loads of eight PEs in turn: times grow by a step that varies, as where requests meet."""
    n, rng = 4096, np.random.default_rng(0)
    rows = np.zeros(n, TABLE_DTYPES["commands"])
    rows["command_seq"] = rows["first_op_id"] = np.arange(n)
    rows["pe"], rows["n_tiles"], rows["n_ops"] = np.arange(n) % 8, 1, 1
    rows["t_call_ps"] = np.arange(n) // 8 * 200_000
    for name, wait_ps in (("t_issued_ps", 4_000), ("t_submitted_ps", 4_000), ("t_decoded_ps", 12_000)):
        rows[name] = rows["t_call_ps"] + wait_ps
    rows["t_done_ps"] = rows["t_call_ps"] + rng.integers(50_000, 190_000, n)
    assert len(pack(rows, "x")) < 16 * n < rows.nbytes / 7


def test_a_cut_and_a_flipped_bit_are_refused():
    data = pack(log_with_tables().tables["commands"], "x")
    damaged = [data[:at] for at in range(len(data))]
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        damaged.append(bytes(flipped))
    for each in damaged:
        with pytest.raises(
            LogError, match=r"^x: got \d+ bytes that are no packed rows, needs rows of 125 bytes, packed$"
        ):
            unpack(each, TABLE_DTYPES["commands"], "x")


def signed(body):
    return zlib.crc32(body).to_bytes(4, "little") + body


def test_what_is_longer_than_its_limit_is_refused_unread(monkeypatch):
    monkeypatch.setattr(packed, "MOST_NBYTES", 90_000)
    assert len(unpack(signed(zlib.compress(bytes(89_991))), PAIR, "x")) == 9_999
    with pytest.raises(LogError, match=r"^x: got \d+ bytes that are no packed rows"):
        unpack(signed(zlib.compress(bytes(900_000))), PAIR, "x")
    with pytest.raises(LogError, match=r"^x: got 90000 bytes of rows in one chunk, needs less than 90000; append "):
        pack(np.zeros(10_000, PAIR), "x")


@pytest.mark.parametrize("body", [zlib.compress(bytes(10)), zlib.compress(bytes(9)) + b"x", b""])
def test_what_is_no_rows_is_refused(body):
    with pytest.raises(LogError, match=r"^x: got \d+ bytes that are no packed rows, needs rows of 9 bytes, packed$"):
        unpack(signed(body), PAIR, "x")


def test_a_link_and_a_damaged_file_of_a_log_are_named(tmp_path):
    write_log(tmp_path, log_with_tables())
    path = tmp_path / "kernels-000000.z"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(LogError, match=rf"^{path}: got \d+ bytes that are no packed rows"):
        read_log(tmp_path)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LogError, match=rf"^{path}: got a link, "):
        read_log(tmp_path)
