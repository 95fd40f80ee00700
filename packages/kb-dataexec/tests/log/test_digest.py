"""The digest of a log depends on what the log says, and not on how it was written."""

import os
import signal
import warnings

import pytest
from dataexec_gemm_log import GemmProblem
from dataexec_written_log import write_in_chunks
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_dataexec.log.digest import Digest
from kb_dataexec.log.reader import read_log
from kb_dataexec.log.tables import OpLog
from kb_dataexec.log.writer import FolderLogWriter, MemoryLogWriter, write_log

LOG = GemmProblem(12, 12, 12, (4, 4, 4)).log()
LOG.immediates = b"12345678"


@settings(max_examples=20)
@given(st.lists(st.integers(0, LOG.n_ops), max_size=6))
def test_the_digest_does_not_depend_on_chunks(cuts):
    assert write_in_chunks(MemoryLogWriter(), LOG, sorted(cuts)).digest == LOG.digest


@pytest.mark.parametrize("cuts", [[], [5, 50]])
def test_streaming_and_memory_agree(tmp_path, cuts):
    assert write_in_chunks(FolderLogWriter(tmp_path), LOG, cuts) == LOG.summary


def test_an_edited_log_can_be_written_with_its_new_digest(tmp_path):
    edited = OpLog(LOG.ops[1:], LOG.operands, LOG.strings, LOG.immediates)
    assert write_log(tmp_path, edited) == edited.summary
    assert read_log(tmp_path).n_ops == LOG.n_ops - 1


PIECE = bytes(1 << 17)
"""Large enough for the thread."""


def test_a_copy_of_the_process_goes_on_with_a_digest():
    def digest_of(more):
        running = Digest()
        running.feed("ops", PIECE)
        return more(running)

    def finished(running):
        running.feed("ops", PIECE)
        return running.hexdigest()

    def finished_in_a_copy(running):
        reads, writes = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads in the process
            child = os.fork()
        if not child:
            signal.alarm(60)  # nobody waits for a thread that is not there
            os.write(writes, finished(running).encode())
            os._exit(0)
        os.close(writes)
        with os.fdopen(reads) as told:
            found = told.read()
        os.waitpid(child, 0)
        return found

    assert digest_of(finished_in_a_copy) == digest_of(finished)
