"""Auxiliary tables of a log: in memory, in a folder, in a log that was cut off, and in one of version 1."""

import json
import re
import shutil
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from dataexec_tables import ROWS, log_with_tables
from dataexec_written_log import expect

from kb_dataexec.log.packed import pack
from kb_dataexec.log.reader import LogFolder, read_log
from kb_dataexec.log.tables import OpLog
from kb_dataexec.log.writer import FolderLogWriter, MemoryLogWriter, write_log
from kb_messages import LOG_TABLES, OPTIONAL_TABLES, LogError

LOG = log_with_tables()
NAMES = list(LOG_TABLES)
OF_EVERY_LOG = [name for name in NAMES if name not in OPTIONAL_TABLES]


def digest_of(log, version):
    """The digest as README.md says it, of a log without parts for the tables in version 1."""
    tables = [log.tables[name].tobytes() if name in log.tables else b"" for name in NAMES if version > 1]
    n_always = len(OF_EVERY_LOG)
    late = [table for table in tables[n_always:] if table]
    strings = "".join(f"{json.dumps(text)}\n" for text in log.strings).encode()
    parts = [log.ops.tobytes(), log.operands.tobytes(), *tables[:n_always], strings, log.immediates, *late]
    lines = [f"kernbench-oplog {version}", *(sha256(part).hexdigest() for part in parts), ""]
    return sha256("\n".join(lines).encode()).hexdigest()


def same_tables(one, other):
    assert list(one) == list(other)
    return all(one[name].tobytes() == other[name].tobytes() for name in one)


def append_all(writer, at=0):
    """Write LOG in three chunks; the rows of the tables come with chunk number *at*, or one by one."""
    for text in LOG.strings:
        writer.intern(text)
    writer.immediate(LOG.immediates)
    third = -(-LOG.n_ops // 3)
    for chunk in range(3):
        ops = LOG.ops[chunk * third : (chunk + 1) * third]
        tables = {name: rows[0:0] for name, rows in LOG.tables.items()} if chunk == 0 else {}
        if at is None:
            tables |= {name: rows[chunk : chunk + 1] for name, rows in LOG.tables.items()}
        elif at == chunk:
            tables = LOG.tables
        writer.append(ops, LOG.operands[np.isin(LOG.operands["op_id"], ops["op_id"])], tables)
    return writer.close()


def test_the_digest_is_that_of_the_documented_lines():
    assert LOG.digest == digest_of(LOG, 2)
    without = OpLog(LOG.ops, LOG.operands, LOG.strings, LOG.immediates)
    assert without.digest == digest_of(without, 2) != LOG.digest


@pytest.mark.parametrize("at", [0, 2, None])
def test_tables_come_back_however_they_were_cut_into_chunks(tmp_path, at):
    summary = append_all(FolderLogWriter(tmp_path), at)
    assert summary.n_rows == {name: len(rows) for name, rows in ROWS.items()}
    log = read_log(tmp_path)
    assert same_tables(log.tables, LOG.tables)
    assert (log.missing, log.digest) == ((), LOG.digest)
    assert summary.digest == LOG.digest == append_all(MemoryLogWriter(), at).digest
    files = {path.name for path in tmp_path.glob("commands-*")}
    assert files == {0: {"commands-000000.z"}, 2: {"commands-000000.z", "commands-000002.z"}}.get(
        at, {"commands-000000.z", "commands-000001.z"}
    )


def test_a_table_without_rows_is_not_a_table_that_was_left_out(tmp_path):
    tables = {"kernels": LOG.tables["kernels"][:0]}
    write_log(tmp_path, OpLog(LOG.ops, LOG.operands, LOG.strings, tables=tables))
    log = read_log(tmp_path)
    assert len(log.table("kernels")) == 0
    assert log.missing == tuple(name for name in OF_EVERY_LOG if name != "kernels") == LogFolder(tmp_path).missing
    with expect(
        "op log: got no table commands, needs the commands of the run; "
        "logs of version 1 and logs from elsewhere may be without it; kb run writes one"
    ):
        log.table("commands")


def test_a_log_of_version_1_opens_and_names_what_it_cannot_tell(tmp_path):
    old = OpLog(LOG.ops, LOG.operands, LOG.strings, LOG.immediates)
    write_log(tmp_path, old)
    path = tmp_path / "manifest.json"
    manifest = json.loads(path.read_text()) | {"version": 1, "digest": digest_of(old, 1)}
    path.write_text(json.dumps(manifest))
    log = read_log(tmp_path)
    assert (log.version, log.missing, log.digest) == (1, tuple(OF_EVERY_LOG), manifest["digest"])
    assert log.ops.tobytes() == LOG.ops.tobytes()
    with pytest.raises(LogError, match=r"^op log: got no table dispatches, needs the dispatches of the run; "):
        log.table("dispatches")
    new = tmp_path / "new"
    assert write_log(new, log).digest == digest_of(old, 2) == read_log(new).digest


def test_a_log_of_version_2_opens_whole_and_cut_off(tmp_path):
    """The folder beside this file was written by the last release of version 2, whose auxiliary tables were `.npy`.

    Its commands state 13 ops, of which the log has 6. So it is read with one command of 6 ops.
    """
    shutil.copytree(Path(__file__).with_name("version_2"), tmp_path / "log")
    with pytest.raises(LogError, match="got no row of 7 of the ops 0 to 12, the first of them op 6,"):
        read_log(tmp_path / "log")
    wanted, path = log_with_tables(4, OPTIONAL_TABLES), tmp_path / "log" / "manifest.json"
    wanted.tables["commands"] = wanted.tables["commands"][:1].copy()
    wanted.tables["commands"]["n_ops"] = wanted.n_ops
    np.save(tmp_path / "log" / "commands-000000.npy", wanted.tables["commands"])
    path.write_text(json.dumps(json.loads(path.read_text()) | {"commands": 1, "digest": digest_of(wanted, 2)}))
    log = read_log(tmp_path / "log")
    assert (log.version, log.missing) == (2, ())
    assert same_tables(log.tables, wanted.tables)
    assert log.digest == wanted.digest == digest_of(wanted, 2)
    written = write_log(tmp_path / "new", log)
    assert json.loads((tmp_path / "new" / "manifest.json").read_text())["version"] == 3
    assert written.digest == log.digest == read_log(tmp_path / "new").digest
    (tmp_path / "log" / "manifest.json").unlink()
    prefix = read_log(tmp_path / "log", prefix=True)
    assert (prefix.version, prefix.is_complete) == (2, False)
    assert same_tables(prefix.tables, wanted.tables)


@pytest.mark.parametrize("name", NAMES)
def test_a_row_that_is_changed_lost_or_hidden_is_seen(tmp_path, name):
    write_log(tmp_path, LOG)
    path, manifest = tmp_path / f"{name}-000000.z", tmp_path / "manifest.json"
    whole, told = path.read_bytes(), manifest.read_text()
    rows = LOG.tables[name].copy()
    column = rows.dtype.names[0]
    rows[column][0] += 1
    path.write_bytes(pack(rows, ""))
    with pytest.raises(LogError, match=r"manifest\.json: digest: got "):
        read_log(tmp_path)
    path.unlink()
    with pytest.raises(LogError, match=rf"manifest\.json: {name}: got 0 in the files, needs {len(rows)};"):
        read_log(tmp_path)
    path.write_bytes(whole)
    manifest.write_text(json.dumps({key: value for key, value in json.loads(told).items() if key != name}))
    with pytest.raises(LogError, match=r"manifest\.json: digest: got "):
        read_log(tmp_path)
    manifest.write_text(told.replace('"version": 3', '"version": 1'))
    with pytest.raises(LogError, match=r"manifest\.json: digest: got "):
        read_log(tmp_path)
    manifest.write_text(told)
    assert same_tables(read_log(tmp_path).tables, LOG.tables)


def test_a_log_that_was_cut_off_has_the_tables_that_it_began(tmp_path):
    writer = FolderLogWriter(tmp_path)
    for text in LOG.strings:
        writer.intern(text)
    writer.append(LOG.ops, LOG.operands, {"kernels": LOG.tables["kernels"][:0], "commands": LOG.tables["commands"]})
    writer.abort()
    log = read_log(tmp_path, prefix=True)
    assert {name: len(rows) for name, rows in log.tables.items()} == {"commands": 2, "kernels": 0}
    assert not log.is_complete


@pytest.mark.parametrize(
    ("table", "row", "column", "value", "needs"),
    [
        ("commands", 1, "pe", 99, f"0 to {len(LOG.strings) - 1}"),
        ("commands", 0, "after", 7, "0 to 6"),
        ("commands", 1, "n_ops", -2, "-1 or more"),
        ("commands", 1, "t_submitted_ps", 89, "a time that is not before the times in front of it"),
        ("commands", 1, "t_done_ps", 94, "a time that is not before the times in front of it"),
        ("dispatches", 0, "t_claimed_ps", 19, "a time that is not before the times in front of it"),
        ("transfers", 1, "t_last_ps", 49, "a time that is not before the times in front of it"),
        ("transfers", 1, "shared_ps", -2, "-1 or more"),
        ("kernels", 0, "t_target_ps", -5, "-1 or more"),
        ("messages", 1, "message", 2, "0 to 1"),
        ("messages", 1, "dst", -1, f"0 to {len(LOG.strings) - 1}"),
        ("sends", 0, "nbytes", -2, "-1 or more"),
        ("sends", 0, "t_freed_ps", 97, "a time that is not before the times in front of it"),
        ("signals", 1, "flag", 99, f"0 to {len(LOG.strings) - 1}"),
        ("waits", 0, "reason", 6, "0 to 5"),
        ("calls", 0, "call_kind", 7, "0 to 6"),
        ("calls", 0, "t_end_ps", 0, "a time that is not before the times in front of it"),
        ("waits", 1, "to_ps", 79, "a time that is not before the times in front of it"),
    ],
)
def test_a_row_that_cannot_be_is_named(table, row, column, value, needs):
    log = log_with_tables()
    log.check("a.log")
    log.tables[table][column][row] = value
    with expect(f"a.log: {table} row {row}: got {column} {value}, needs {needs}"):
        log.check("a.log")


def test_other_columns_and_unknown_tables_are_refused():
    writer = MemoryLogWriter()
    with pytest.raises(LogError, match=re.escape("log chunk: kernels: got columns [('a', '<i8')], needs columns [(")):
        writer.append(LOG.ops, LOG.operands, {"kernels": np.zeros(1, [("a", "<i8")])})
    with expect(f"log chunk: queues: got an unknown table, needs one of {', '.join(NAMES)}"):
        writer.append(LOG.ops, LOG.operands, {"queues": LOG.tables["kernels"]})
