"""Execution piece by piece gives the values of the whole log so far, and executes nothing twice."""

from __future__ import annotations

import numpy as np
import pytest
from dataexec_gemm_log import HBM, REG, REGIONS, TCM, LogBuilder, move
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_dataexec.execute.executor import Executor
from kb_dataexec.execute.incremental import PartialExecution, Unfinished, UnfinishedError
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE, OPS_DTYPE
from kb_dataexec.log.tables import OpLog
from kb_dataexec.logfile import FolderLogWriter, MemoryLogWriter
from kb_dataexec.memory.store import MemoryStore, StoreError
from kb_messages import DType, OpKind, Rectangle, Role

BUFFER = 256
"""Bytes of the TCM that are tile buffers."""


def memory() -> MemoryStore:
    store = MemoryStore(REGIONS)
    store.write(HBM, 0, np.arange(64, dtype=np.int32))
    return store


class Recording:
    """A log of commands `HBM[target:] = HBM[source:] + 1`, each by way of a tile buffer and registers."""

    def __init__(self) -> None:
        self.builder = LogBuilder()
        self.given = 0, 0

    def command(self, seq: int, source: int, target: int, count: int) -> None:
        spots = [(HBM, 4 * source), (TCM, 0), (REG, 0), (REG, 512), (TCM, 128), (HBM, 4 * target)]
        last = len(spots) - 2
        for stage in range(last + 1):
            out = Role.OUT if stage == 2 else Role.DST
            read = Role.IN if stage == 2 else Role.SRC
            kind, params = (OpKind.MATH, '{"op":"add","scalars":[1]}') if stage == 2 else (OpKind.MEMORY, "")
            operands = [
                move(read, *spots[stage], 1, count, 0, DType.I32, release=int(stage > 0)),
                move(out, *spots[stage + 1], 1, count, 0, DType.I32),
            ]
            self.builder.add((seq, 0, stage), kind, "op", operands, params)

    def rows(self):
        return np.array(self.builder.ops, OPS_DTYPE), np.array(self.builder.operands, OPERAND_DTYPE)

    def new(self):
        """What was recorded since the last call."""
        ops, operands = self.rows()
        at, operand_at = self.given
        self.given = len(ops), len(operands)
        return ops[at:], operands[operand_at:]

    @property
    def strings(self) -> list[str]:
        return list(self.builder.writer._indices)


def wanted(start: int, count: int) -> Rectangle:
    return Rectangle.of_memory(HBM, 4 * start, 1, 4 * count, 4 * count)


spans = st.tuples(st.integers(0, 48), st.integers(0, 48), st.integers(1, 16))
steps = st.lists(st.tuples(spans, st.booleans(), st.integers(0, 48), st.integers(1, 16)), min_size=1, max_size=14)


@settings(max_examples=examples(60))
@given(steps)
def test_every_value_is_that_of_the_whole_log_so_far(given_steps):
    recording, execution = Recording(), PartialExecution(memory(), {TCM: BUFFER})
    for seq, (span, asks, start, count) in enumerate(given_steps):
        recording.command(seq, *span)
        if not asks:
            continue
        execution.add(*recording.new())
        got = execution.value(wanted(start, count), DType.I32, recording.strings)
        whole = Executor(OpLog(*recording.rows(), recording.strings), memory(), "tile").run()
        np.testing.assert_array_equal(got, whole.read(*wanted(start, count).in_memory, DType.I32))
        assert execution.n_executed + len(execution._ops) == len(recording.builder.ops)


def test_only_what_a_value_depends_on_is_executed():
    recording, execution = Recording(), PartialExecution(memory(), {TCM: BUFFER})
    for seq, (source, target) in enumerate([(0, 24), (0, 8), (8, 32)]):
        recording.command(seq, source, target, 4)
    execution.add(*recording.new())
    value = execution.value(wanted(32, 4), DType.I32, recording.strings)
    np.testing.assert_array_equal(value, [[2, 3, 4, 5]])
    assert execution.n_executed == 2 * 5
    assert set(execution._ops["command_seq"].tolist()) == {0}


def test_who_reads_bytes_that_are_overwritten_is_executed_first():
    recording, execution = Recording(), PartialExecution(memory(), {TCM: BUFFER})
    recording.command(0, 8, 40, 4)  # reads 8
    recording.command(1, 0, 8, 4)  # overwrites 8
    execution.add(*recording.new())
    np.testing.assert_array_equal(execution.value(wanted(8, 4), DType.I32, recording.strings), [[1, 2, 3, 4]])
    assert execution.n_executed == 2 * 5
    np.testing.assert_array_equal(execution.value(wanted(40, 4), DType.I32, recording.strings), [[9, 10, 11, 12]])


def test_what_is_passed_over_again_and_again_is_executed():
    recording, execution = Recording(), PartialExecution(memory(), {TCM: BUFFER})
    recording.command(0, 0, 8, 4)
    execution.add(*recording.new())
    left = []
    for _ in range(5):
        execution.value(wanted(48, 4), DType.I32, recording.strings)
        left.append(len(execution._ops))
    assert left == [5, 5, 5, 5, 0]


def test_a_value_that_needs_an_unfinished_command_is_refused():
    recording, execution = Recording(), PartialExecution(memory(), {TCM: BUFFER})
    recording.command(0, 0, 8, 4)
    recording.command(2, 16, 24, 4)
    execution.add(*recording.new())
    unfinished = [Unfinished(1, [wanted(8, 4)], [wanted(16, 2)])]
    for _ in range(8):  # more often than anything is passed over
        with pytest.raises(UnfinishedError) as caught:
            execution.value(wanted(24, 4), DType.I32, recording.strings, unfinished)
        assert caught.value.command_seqs == [1]
    value = execution.value(wanted(8, 4), DType.I32, recording.strings, unfinished)
    np.testing.assert_array_equal(value, [[1, 2, 3, 4]])


def test_records_of_an_unfinished_command_wait_for_the_rest():
    recording, execution = Recording(), PartialExecution(memory(), {TCM: BUFFER})
    recording.command(0, 0, 8, 4)
    ops, operands = recording.new()
    execution.add(ops[:2], operands[:4])
    unfinished = [Unfinished(0, [wanted(0, 4)], [wanted(8, 4)])]
    for _ in range(8):  # more often than anything is passed over
        execution.value(wanted(48, 4), DType.I32, recording.strings, unfinished)
    assert execution.n_executed == 0
    execution.add(ops[2:], operands[4:])
    np.testing.assert_array_equal(execution.value(wanted(8, 4), DType.I32, recording.strings), [[1, 2, 3, 4]])


def test_bytes_that_nobody_wrote_are_an_error_that_names_the_op():
    recording, execution = Recording(), PartialExecution(memory(), {TCM: BUFFER})
    recording.command(0, 100, 8, 4)
    execution.add(*recording.new())
    with pytest.raises(StoreError, match=r"^op 0 \(op, pe0, kernel\.py:3\): hbm \+ 0x190"):
        execution.value(wanted(8, 4), DType.I32, recording.strings)


def test_both_writers_give_back_what_was_written(tmp_path):
    recording = Recording()
    recording.command(0, 0, 8, 4)
    ops, operands = recording.rows()
    for writer in (MemoryLogWriter(), FolderLogWriter(tmp_path)):
        writer.immediate(b"0123456789")
        writer.append(ops[:2], operands[:4])
        writer.append(ops[2:], operands[4:])
        writer.intern("text")
        assert [len(each) for each, _ in writer.written_chunks(0)] == [2, 3]
        ((last, its_operands),) = writer.written_chunks(1)
        np.testing.assert_array_equal(last, ops[2:])
        np.testing.assert_array_equal(its_operands, operands[4:])
        assert writer.written_immediates(8) == b"89" + bytes(6)
        assert writer.strings == ["text"]
        writer.abort()


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("looks_between", [False, True])
def test_the_slot_of_a_message_is_released_after_its_readers_and_before_the_next_message(is_lost, looks_between):
    """Commands 0 and 2 send by one slot, at 60; 1 and 3 copy from there to 8 and 16. Command 2 may be lost."""
    recording, execution = Recording(), PartialExecution(memory(), {TCM: BUFFER})
    recording.command(0, 0, 60, 4)
    recording.command(1, 60, 8, 4)
    if not is_lost:
        recording.command(2, 4, 60, 4)
    recording.command(3, 60, 16, 4)
    execution.add(*recording.new())
    execution.release(np.array([[2, HBM, 60 * 4, 16], [4, HBM, 60 * 4, 16]]))
    if looks_between:
        np.testing.assert_array_equal(execution.value(wanted(8, 4), DType.I32, recording.strings), [[2, 3, 4, 5]])
    if is_lost:
        with pytest.raises(StoreError, match="were released"):
            execution.value(wanted(16, 4), DType.I32, recording.strings)
    else:
        np.testing.assert_array_equal(execution.value(wanted(16, 4), DType.I32, recording.strings), [[6, 7, 8, 9]])
        np.testing.assert_array_equal(execution.value(wanted(8, 4), DType.I32, recording.strings), [[2, 3, 4, 5]])
