"""A log whose rows are made late is the log that would have been there at once."""

import pickle
from threading import Barrier, Thread
from time import sleep

import numpy as np
import pytest

from kb_dataexec import MemoryLogWriter
from kb_dataexec.log import OPERAND_DTYPE, OPS_DTYPE, LazyOpLog
from kb_messages import LogError


def writer_with(n_rows: int) -> MemoryLogWriter:
    writer = MemoryLogWriter()
    writer.intern("text")
    writer.append(np.zeros(n_rows, OPS_DTYPE), np.zeros(0, OPERAND_DTYPE))
    return writer


def late(n_late: int) -> tuple[LazyOpLog, list[int]]:
    writer, calls = writer_with(2), []

    def finish():
        calls.append(1)
        writer.append(np.zeros(n_late, OPS_DTYPE), np.zeros(0, OPERAND_DTYPE))

    log = writer.close_lazy(finish)
    assert isinstance(log, LazyOpLog)
    return log, calls


def test_rows_are_made_once_when_somebody_asks():
    log, calls = late(3)
    assert calls == []
    assert (log.n_ops, log.strings, len(log.ops), calls) == (5, ["text"], 5, [1])
    assert log.digest == writer_with(5).close().digest
    log.settle()
    assert calls == [1]


def test_a_late_log_is_copied_with_its_rows():
    log, _ = late(1)
    copied = pickle.loads(pickle.dumps(log))
    assert (copied.n_ops, copied.digest) == (3, writer_with(3).close().digest)


def test_a_missing_attribute_is_missing():
    log, _ = late(1)
    assert not hasattr(log, "no_such_attribute")


def test_threads_that_look_at_once_get_the_same_rows():
    writer, together, found = writer_with(2), Barrier(4), []

    def finish():
        sleep(0.05)
        writer.append(np.zeros(1, OPS_DTYPE), np.zeros(0, OPERAND_DTYPE))

    log = writer.close_lazy(finish)

    def look():
        together.wait()
        found.append((log.strings, log.n_ops))

    threads = [Thread(target=look) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [(["text"], 3)] * 4


def test_a_log_that_could_not_be_made_says_so_at_every_look():
    def finish():
        raise OverflowError("a time beyond 64 bits")

    log = writer_with(1).close_lazy(finish)
    with pytest.raises(OverflowError):
        _ = log.ops
    for _ in range(2):
        with pytest.raises(LogError) as caught:
            _ = log.strings
        assert str(caught.value) == (
            "op log: got rows that could not be made when they were first asked for, needs all rows; run it again"
        )
