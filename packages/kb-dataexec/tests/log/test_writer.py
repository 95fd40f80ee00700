"""Writers of logs."""

import numpy as np
import pytest
from dataexec_gemm_log import GemmProblem
from dataexec_written_log import expect, write_in_chunks

from kb_dataexec.log.reader import read_log
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE
from kb_dataexec.log.writer import FolderLogWriter, MemoryLogWriter, write_log
from kb_messages import LogError

LOG = GemmProblem(12, 12, 12, (4, 4, 4)).log()
LOG.immediates = b"12345678"


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
