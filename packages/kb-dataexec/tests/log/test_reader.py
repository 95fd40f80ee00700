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

from kb_dataexec.logfile import LogFolder, read_log, write_log
from kb_messages import LogError

LOG = GemmProblem(12, 12, 12, (4, 4, 4)).log()

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


def in_chunks(folder, log, n_ops):
    from kb_dataexec.logfile import FolderLogWriter

    writer = FolderLogWriter(folder)
    for text in log.strings:
        writer.intern(text)
    for low in range(0, log.n_ops, n_ops):
        ops = log.ops[low : low + n_ops]
        writer.append(ops, log.operands[np.isin(log.operands["op_id"], ops["op_id"])])
    return writer.close()


def test_chunks_come_one_by_one_and_make_up_the_log(tmp_path):
    in_chunks(tmp_path, LOG, 10)
    source = LogFolder(tmp_path)
    chunks = list(source.chunks())
    assert source.is_complete
    assert [chunk.n_ops for chunk in chunks] == [10] * (LOG.n_ops // 10) + [LOG.n_ops % 10] * (LOG.n_ops % 10 > 0)
    assert (np.concatenate([chunk.operands for chunk in chunks]) == LOG.operands).all()
    assert [record for chunk in chunks for record in chunk.records()] == list(LOG.records())


def test_the_digest_is_checked_when_all_chunks_are_read(tmp_path):
    summary = in_chunks(tmp_path, LOG, 10)
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
