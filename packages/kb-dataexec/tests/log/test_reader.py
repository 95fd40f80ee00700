"""What is read from a folder: a log that was killed, a log chunk by chunk, and every kind of damage."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from dataexec_gemm_log import GemmProblem
from dataexec_written_log import expect, write_in_chunks

from kb_dataexec.log.reader import LargeLogError, LogFolder, read_log
from kb_dataexec.log.tables import OpLog
from kb_dataexec.log.writer import FolderLogWriter, write_log
from kb_messages import LogError

LOG = GemmProblem(12, 12, 12, (4, 4, 4)).log()
LOG.immediates = b"12345678"

ENDLESS = """
import sys
from pathlib import Path
import numpy as np
from kb_dataexec.logfile import OPERAND_DTYPE, OPS_DTYPE, FolderLogWriter

writer = FolderLogWriter(Path(sys.argv[1]))
chunk = 0
while True:
    ops, operands = np.zeros(100, OPS_DTYPE), np.zeros(200, OPERAND_DTYPE)
    ops["op_id"] = ops["command_seq"] = np.arange(100) + 100 * chunk
    operands["op_id"] = np.repeat(ops["op_id"], 2)
    operands["rows"] = operands["row_nbytes"] = 1
    operands["space"], operands["offset"] = 5, writer.immediate(chunk.to_bytes(8, "little"))
    for name in ("name", "component", "line", "params"):
        ops[name] = writer.intern(f"{name} {chunk} " + "x" * 500)
    writer.append(ops, operands)
    chunk += 1
"""


@pytest.fixture
def killed(tmp_path):
    """The folder of a writer that SIGKILL ended in the middle of its work."""
    writer = subprocess.Popen([sys.executable, "-c", ENDLESS, str(tmp_path)])
    deadline = time.monotonic() + 60
    while not (tmp_path / "ops-000012.npy").exists():
        assert writer.poll() is None, "the writer ended by itself"
        assert time.monotonic() < deadline, "the writer wrote nothing"
        time.sleep(0.005)
    os.kill(writer.pid, signal.SIGKILL)
    assert writer.wait() == -signal.SIGKILL
    return tmp_path


def test_a_writer_killed_in_the_middle_leaves_a_prefix_that_says_so(killed):
    log = read_log(killed, prefix=True)
    assert not log.is_complete
    assert log.n_ops >= 1300
    assert log.n_operands == 2 * log.n_ops
    for row in (0, log.n_ops // 2, log.n_ops - 1):
        chunk, record = row // 100, log.record(row)
        texts = (record.name, record.component, record.line, record.params)
        assert texts == tuple(f"{name} {chunk} {'x' * 500}" for name in ("name", "component", "line", "params"))
        offset = record.operands[0].offset
        assert int.from_bytes(log.immediates[offset : offset + 8], "little") == chunk


def test_a_killed_log_is_refused_unless_a_prefix_is_asked_for(killed):
    text = (
        f"{killed / 'manifest.json'}: got no such file, needs a closed log; read_log(folder, prefix=True) reads one "
        "that was cut off"
    )
    with pytest.raises(LogError, match=f"^{re.escape(text)}$"):
        read_log(killed)


def test_chunks_come_one_by_one_and_make_up_the_log(tmp_path):
    write_in_chunks(FolderLogWriter(tmp_path), LOG, range(10, LOG.n_ops, 10))
    source = LogFolder(tmp_path)
    chunks = list(source.chunks())
    assert source.is_complete
    assert [chunk.n_ops for chunk in chunks] == [10] * (LOG.n_ops // 10) + [LOG.n_ops % 10] * (LOG.n_ops % 10 > 0)
    assert (np.concatenate([chunk.operands for chunk in chunks]) == LOG.operands).all()
    assert [record for chunk in chunks for record in chunk.records()] == list(LOG.records())


def test_the_digest_is_checked_when_all_chunks_are_read(tmp_path):
    summary = write_in_chunks(FolderLogWriter(tmp_path), LOG, range(10, LOG.n_ops, 10))
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"digest": "0" * 64}))
    chunks = LogFolder(tmp_path).chunks()
    first = next(chunks)
    assert first.n_ops == 10
    text = f"{manifest}: digest: got {summary.digest} in the files, needs {'0' * 64}; the log was changed or is damaged"
    with pytest.raises(LogError, match=f"^{re.escape(text)}$"):
        list(chunks)


def test_a_log_without_chunks_reads_as_empty(tmp_path):
    write_log(tmp_path, LOG)
    for file in tmp_path.glob("*.npy"):
        file.unlink()
    (tmp_path / "manifest.json").unlink()
    log = read_log(tmp_path, prefix=True)
    assert (log.n_ops, log.n_operands, log.is_complete) == (0, 0, False)


def test_an_unclosed_log_reads_as_a_prefix(tmp_path):
    writer = FolderLogWriter(tmp_path)
    for text in LOG.strings:
        writer.intern(text)
    writer.append(LOG.ops[:10], LOG.operands[LOG.operands["op_id"] < 10])
    log = read_log(tmp_path, prefix=True)
    assert (log.n_ops, log.strings) == (10, LOG.strings)
    with expect(
        f"{tmp_path / 'manifest.json'}: got no such file, needs a closed log; read_log(folder, prefix=True) reads one "
        "that was cut off"
    ):
        read_log(tmp_path)
    writer.close()


def test_a_prefix_leaves_out_a_torn_chunk_and_a_torn_string(tmp_path):
    write_in_chunks(FolderLogWriter(tmp_path), LOG, [10])
    for name in ("manifest.json", "ops-000001.npy"):
        (tmp_path / name).unlink()
    with (tmp_path / "strings.jsonl").open("ab") as file:
        file.write(b'"to')
    log = read_log(tmp_path, prefix=True)
    assert (log.n_ops, log.strings) == (10, LOG.strings)


def test_a_closed_log_reads_whole_as_a_prefix_too(tmp_path):
    write_log(tmp_path, LOG)
    assert read_log(tmp_path, prefix=True).digest == LOG.digest


def edit_manifest(folder, **fields):
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    return path


@pytest.mark.parametrize(("field", "wrong"), [("ops", 1), ("operands", 2), ("strings", 3), ("immediate_nbytes", 4)])
def test_wrong_counts_are_errors(tmp_path, field, wrong):
    write_log(tmp_path, LOG)
    path = edit_manifest(tmp_path, **{field: wrong})
    found = {"ops": LOG.n_ops, "operands": LOG.n_operands, "strings": len(LOG.strings), "immediate_nbytes": 8}
    with expect(f"{path}: {field}: got {found[field]} in the files, needs {wrong}; the log was changed or is damaged"):
        read_log(tmp_path)


def test_a_changed_row_breaks_the_digest(tmp_path):
    write_log(tmp_path, LOG)
    operands = LOG.operands.copy()
    operands["offset"][0] += 64
    np.save(tmp_path / "operands-000000.npy", operands)
    with pytest.raises(LogError, match=r"manifest\.json: digest: got [0-9a-f]{64} in the files, needs [0-9a-f]{64};"):
        read_log(tmp_path)


@pytest.mark.parametrize("version", [0, 5])
def test_another_version_is_an_error(tmp_path, version):
    write_log(tmp_path, LOG)
    path = edit_manifest(tmp_path, version=version)
    with expect(f"{path}: got 'kernbench-oplog' version {version}, needs 'kernbench-oplog' version 1 to 4"):
        read_log(tmp_path)


def test_a_manifest_that_is_no_json_is_an_error(tmp_path):
    write_log(tmp_path, LOG)
    (tmp_path / "manifest.json").write_text("[")
    with pytest.raises(LogError, match=r"manifest\.json: got no JSON \(.*\), needs JSON in UTF-8$"):
        read_log(tmp_path)


def test_a_manifest_without_a_field_is_an_error(tmp_path):
    write_log(tmp_path, LOG)
    path = tmp_path / "manifest.json"
    path.write_text('{"format": "kernbench-oplog", "version": 1}')
    with expect(f"{path}: got JSON of another form (Object missing required field `chunks`), needs JSON that kb wrote"):
        read_log(tmp_path)


def test_a_missing_chunk_is_an_error(tmp_path):
    write_in_chunks(FolderLogWriter(tmp_path), LOG, [5])
    (tmp_path / "ops-000001.npy").unlink()
    with expect(f"{tmp_path / 'ops-000001.npy'}: got no such file, needs 2 chunks"):
        read_log(tmp_path)


def test_a_chunk_that_is_no_array_is_an_error(tmp_path):
    write_log(tmp_path, LOG)
    (tmp_path / "ops-000000.npy").write_bytes(b"x" * 100)
    with pytest.raises(LogError, match=r"ops-000000\.npy: got no array \(.*\), needs a \.npy file$"):
        read_log(tmp_path)


def test_a_chunk_of_other_columns_is_an_error(tmp_path):
    write_log(tmp_path, LOG)
    np.save(tmp_path / "ops-000000.npy", np.zeros(3))
    with pytest.raises(LogError, match=r"ops-000000\.npy: got columns \[\('', '<f8'\)\], needs columns "):
        read_log(tmp_path)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('"a"\n"b', "strings.jsonl: got a last line without a line break, needs one JSON string a line"),
        (
            '"a"\n7\n',
            "strings.jsonl:2: got JSON of another form (Expected `str`, got `int`), needs JSON that kb wrote",
        ),
        ("a\n", "strings.jsonl:1: got no JSON (Expecting value: line 1 column 1 (char 0)), needs JSON in UTF-8"),
    ],
)
def test_damaged_strings_are_errors(tmp_path, text, error):
    write_log(tmp_path, LOG)
    (tmp_path / "strings.jsonl").write_text(text)
    with expect(f"{tmp_path}/{error}"):
        read_log(tmp_path)


def test_a_row_that_names_no_string_is_an_error(tmp_path):
    ops = LOG.ops.copy()
    ops["name"][3] = 99
    write_log(tmp_path, OpLog(ops, LOG.operands, LOG.strings))
    with expect(f"{tmp_path}: ops row 3: got name 99, needs 0 to {len(LOG.strings) - 1}"):
        read_log(tmp_path)


@pytest.mark.parametrize("is_closed", [True, False])
def test_late_operands_are_those_of_the_log_and_read_once(tmp_path, is_closed):
    write_in_chunks(FolderLogWriter(tmp_path), LOG, [3, 10])
    if not is_closed:
        (tmp_path / "manifest.json").unlink()
    log, whole = LogFolder(tmp_path, prefix=True).whole(lazy_operands=True), read_log(tmp_path, prefix=True)
    assert (log.ops == whole.ops).all()
    assert (log.operands == whole.operands).all()
    assert log.digest == whole.digest
    assert log.operands is log.operands


def test_each_chunk_is_looked_at_with_its_operands(tmp_path):
    write_in_chunks(FolderLogWriter(tmp_path), LOG, [3, 10])
    seen = []
    LogFolder(tmp_path).whole(lazy_operands=True, look=seen.append)
    assert [each.n_ops for each in seen] == [3, 7, LOG.n_ops - 10]
    assert (np.concatenate([each.operands for each in seen]) == LOG.operands).all()


def test_late_operands_are_checked_at_once_and_when_they_are_read(tmp_path):
    write_in_chunks(FolderLogWriter(tmp_path), LOG, [3, 10])
    log = LogFolder(tmp_path).whole(lazy_operands=True)
    path = tmp_path / "operands-000000.npy"
    rows = np.load(path)
    rows["offset"][0] += 4
    np.save(path, rows)
    with pytest.raises(LogError, match="other operands than when the log was opened, needs the same ones"):
        _ = log.operands
    with pytest.raises(LogError, match="the log was changed or is damaged"):
        LogFolder(tmp_path).whole(lazy_operands=True)
    path.unlink()
    with pytest.raises(LogError, match="no such file"):
        _ = log.operands


def test_rows_beyond_half_of_the_memory_are_refused_before_they_are_read(tmp_path, monkeypatch):
    write_log(tmp_path, LOG)
    ops, operands = ((tmp_path / f"{name}-000000.npy").stat().st_size for name in ("ops", "operands"))

    for lazy_operands, needed in ((False, ops + operands), (True, ops)):
        read = []
        monkeypatch.setattr("kb_dataexec.log.reader._memory_nbytes", lambda half=needed - 1: 2 * half)
        with pytest.raises(LargeLogError, match=r"GiB of rows or more, needs at most half of the [0-9.]+ GiB of this"):
            LogFolder(tmp_path).whole(lazy_operands, read.append)
        assert not read
        monkeypatch.setattr("kb_dataexec.log.reader._memory_nbytes", lambda half=needed: 2 * half)
        assert LogFolder(tmp_path).whole(lazy_operands).n_ops == LOG.n_ops
