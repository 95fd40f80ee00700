"""A log folder whose manifest, strings or tables were damaged or forged is refused in one sentence."""

import json
import os

import numpy as np
import pytest
from dataexec_gemm_log import GemmProblem

from kb_dataexec.log.reader import LogFolder, read_log
from kb_dataexec.log.tables import OpLog
from kb_dataexec.log.writer import write_log
from kb_messages import LogError

LOG = GemmProblem(8, 8, 8, (4, 4, 4)).log()
STRANGE = (None, True, False, -1, 1 << 63, 1 << 70, 1.5, -0.0, "x", "\0", [], {}, "9" * 5000)
RAW = (b"NaN", b"1e999", b"9" * 5000, b"[" * 60_000, b'"\xff"', b"", b'{"a": 1, "a": 2}')


@pytest.fixture
def log(tmp_path):
    write_log(tmp_path, LOG)
    return tmp_path


def refused(folder):
    with pytest.raises(LogError) as caught:
        read_log(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("field", ["format", "version", "chunks", "ops", "operands", "strings", "digest"])
def test_a_value_of_another_type_in_the_manifest_is_refused(log, field):
    path = log / "manifest.json"
    right = json.loads(path.read_text())
    for value in STRANGE:
        path.write_text(json.dumps(right | {field: value}))
        assert str(path) in refused(log)
    for raw in RAW:
        path.write_bytes(json.dumps(right | {field: "MARK"}).encode().replace(b'"MARK"', raw))
        assert str(path) in refused(log)
    path.write_text(json.dumps({key: value for key, value in right.items() if key != field}))
    assert str(path) in refused(log)


@pytest.mark.parametrize("raw", RAW)
def test_a_string_that_is_no_json_is_refused(log, raw):
    (log / "strings.jsonl").write_bytes(raw + b"\n")
    assert f"{log / 'strings.jsonl'}:1: got " in refused(log)


@pytest.mark.parametrize("name", ["manifest.json", "strings.jsonl", "immediates.bin", "ops-000000.npy"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "device"])
def test_a_file_that_is_no_regular_one_is_refused(log, name, kind):
    path = log / name
    path.rename(log / "elsewhere")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "device" else log / "elsewhere")
    got = {"pipe": "a pipe", "folder": "a folder", "link": "a link", "device": "a link"}[kind]
    assert f"{path}: got {got}, needs " in refused(log)


def test_a_table_of_another_rank_or_of_2_to_the_60_rows_is_refused(log):
    path = log / "ops-000000.npy"
    np.save(path, LOG.ops.reshape(2, -1))
    assert "needs one of 1 dimensions" in refused(log)
    header = f"{{'descr': {LOG.ops.dtype.descr}, 'fortran_order': False, 'shape': ({1 << 60},), }}\n".encode()
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    assert "got 0 bytes of data, needs the " in refused(log)


@pytest.mark.parametrize(
    ("column", "value"),
    [("rows", 1 << 60), ("rows", 0), ("rows", -1), ("row_nbytes", 0), ("stride", -1), ("stride", 1 << 62),
     ("offset", -1), ("offset", (1 << 63) - 1)],
)  # fmt: skip
def test_a_rectangle_that_no_memory_holds_is_refused(tmp_path, column, value):
    operands = LOG.operands.copy()
    operands[column][5] = value
    write_log(tmp_path, OpLog(LOG.ops, operands, LOG.strings))
    assert f"{tmp_path}: operands row 5: got " in refused(tmp_path)


def test_a_cut_at_any_length_and_a_flipped_bit_are_noticed(log):
    rng = np.random.default_rng(0)
    for path in sorted(log.iterdir()):
        whole = path.read_bytes()
        for at in rng.integers(0, max(1, len(whole)), 40).tolist():
            flipped = bytearray(whole)
            if flipped:
                flipped[at] ^= 1 << at % 8
            for data in (whole[:at], bytes(flipped)):
                path.write_bytes(data)
                if data != whole and not (path.name == "manifest.json" and data.split() == whole.split()):
                    refused(log)
        path.write_bytes(whole)
    assert read_log(log).digest == LOG.digest


def test_the_strings_of_a_prefix_may_not_be_a_pipe(log):
    (log / "manifest.json").unlink()
    (log / "strings.jsonl").unlink()
    os.mkfifo(log / "strings.jsonl")
    with pytest.raises(LogError):
        list(LogFolder(log, prefix=True).chunks())
