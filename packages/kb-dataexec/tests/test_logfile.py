import json
import re

import numpy as np
import pytest
from dataexec_gemm_log import GemmProblem
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_dataexec.log.tables import OPERAND_DTYPE, OpLog
from kb_dataexec.logfile import FolderLogWriter, MemoryLogWriter, read_log, write_log
from kb_messages import LogError

LOG = GemmProblem(12, 12, 12, (4, 4, 4)).log()
LOG.immediates = b"12345678"


def write_in_chunks(writer, log, cuts):
    for text in log.strings:
        writer.intern(text)
    writer.immediate(log.immediates)
    for low, high in zip([0, *cuts], [*cuts, log.n_ops], strict=True):
        ops = log.ops[low:high]
        writer.append(ops, log.operands[np.isin(log.operands["op_id"], ops["op_id"])])
    return writer.close()


def expect(text):
    return pytest.raises(LogError, match=f"^{re.escape(str(text))}$")


@settings(max_examples=20)
@given(st.lists(st.integers(0, LOG.n_ops), max_size=6))
def test_the_digest_does_not_depend_on_chunks(cuts):
    assert write_in_chunks(MemoryLogWriter(), LOG, sorted(cuts)).digest == LOG.digest


@pytest.mark.parametrize("cuts", [[], [5, 50]])
def test_streaming_and_memory_agree(tmp_path, cuts):
    assert write_in_chunks(FolderLogWriter(tmp_path), LOG, cuts) == LOG.summary


def test_a_written_log_reads_back_equal(tmp_path):
    write_in_chunks(FolderLogWriter(tmp_path), LOG, [5, 50])
    log = read_log(tmp_path)
    assert (log.ops == LOG.ops).all()
    assert (log.operands == LOG.operands).all()
    assert (log.strings, log.immediates, log.digest) == (LOG.strings, LOG.immediates, LOG.digest)


def test_writing_is_deterministic(tmp_path):
    for name in ("a", "b"):
        write_in_chunks(FolderLogWriter(tmp_path / name), LOG, [7])
    a, b = ({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("a", "b"))
    assert a == b


def test_an_edited_log_can_be_written_with_its_new_digest(tmp_path):
    edited = OpLog(LOG.ops[1:], LOG.operands, LOG.strings, LOG.immediates)
    assert write_log(tmp_path, edited) == edited.summary
    assert read_log(tmp_path).n_ops == LOG.n_ops - 1


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


def test_strings_stand_once_and_immediates_are_aligned():
    writer = MemoryLogWriter()
    assert [writer.intern(text) for text in ("a", "b", "a")] == [0, 1, 0]
    assert [writer.immediate(data) for data in (b"123", b"4")] == [0, 8]
    log = writer.close()
    assert (log.strings, log.immediates) == (["a", "b"], b"123\0\0\0\0\x004\0\0\0\0\0\0\0")


def test_rows_of_other_columns_are_refused():
    with pytest.raises(LogError, match=r"^log chunk: ops: got columns "):
        MemoryLogWriter().append(np.zeros(1, OPERAND_DTYPE), np.zeros(1, OPERAND_DTYPE))


def test_a_log_is_not_overwritten(tmp_path):
    write_log(tmp_path, LOG)
    with expect(f"{tmp_path}: got a folder that holds a log, needs a new or empty folder"):
        FolderLogWriter(tmp_path)


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


def test_another_version_is_an_error(tmp_path):
    write_log(tmp_path, LOG)
    path = edit_manifest(tmp_path, version=2)
    with expect(f"{path}: got kernbench-oplog version 2, needs kernbench-oplog version 1"):
        read_log(tmp_path)


def test_a_manifest_that_is_no_json_is_an_error(tmp_path):
    write_log(tmp_path, LOG)
    (tmp_path / "manifest.json").write_text("[")
    with pytest.raises(LogError, match=r"manifest\.json: got no manifest \(.*\), needs a JSON object with format"):
        read_log(tmp_path)


def test_a_manifest_without_a_field_is_an_error(tmp_path):
    write_log(tmp_path, LOG)
    path = tmp_path / "manifest.json"
    path.write_text('{"format": "kernbench-oplog", "version": 1}')
    with expect(f"{path}: got no field chunks, needs all fields of the format"):
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
        ('"a"\n"b', "strings.jsonl: got a last line without end, needs one JSON string a line"),
        ('"a"\n7\n', "strings.jsonl:2: got a JSON int, needs a JSON string"),
        ("a\n", "strings.jsonl: got a line that is no JSON (Expecting value), needs one JSON string a line"),
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
