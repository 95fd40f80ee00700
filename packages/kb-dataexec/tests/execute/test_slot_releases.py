"""Slots of messages that come free: their bytes are gone, so a message that is missing is an error for its reader."""

import json

import numpy as np
import pytest
from dataexec_gemm_log import HBM, REGIONS, TCM, LogBuilder, move
from dataexec_log_lines import line_of

from kb_dataexec import Executor, MemoryStore, OpLog, StoreError
from kb_dataexec.execute.executor import Look
from kb_dataexec.log.table_dtypes import TABLE_DTYPES
from kb_dataexec.verify.op_check import debug
from kb_messages import DType, LogError, OpKind, Rectangle, Role

SLOT, COLS = 4096, 16
IN, OUT = 0, 1024
MODES = [("tile", 64), ("fused", 2)]


def copy(builder, seq, source, target, line, pe):
    """A command that copies COLS elements of f32, in two records of half as many."""
    for half in range(2):
        at = half * COLS // 2 * 4
        rows = [
            move(role, owner, offset + at, 1, COLS // 2, COLS * 2, DType.F32)
            for role, (owner, offset) in ((Role.SRC, source), (Role.DST, target))
        ]
        builder.add((seq, half, 0), OpKind.MEMORY, "dma_write", rows, component=f"{pe}.dma", line=line)


def log_of(left_out=(), free_seqs=(2, 5)):
    """PE 0 sends what lies at IN, and then the next 64 bytes, by one slot; PE 1 copies each to OUT in turn.

    The commands *left_out* have no records, as if a chip had lost them. Command 4 copies OUT, so it is no reader.
    """
    builder = LogBuilder()
    for text in ("pe1", "tag 0", "k.py:9"):
        builder.writer.intern(text)
    made = [
        (0, (HBM, IN), (TCM, SLOT), "k.py:4", "pe0"),
        (1, (TCM, SLOT), (HBM, OUT), "k.py:9", "pe1"),
        (2, (HBM, IN + 64), (TCM, SLOT), "k.py:4", "pe0"),
        (3, (TCM, SLOT), (HBM, OUT + 64), "k.py:9", "pe1"),
        (4, (HBM, OUT), (HBM, OUT + 128), "k.py:9", "pe1"),
    ]
    for command in made:
        if command[0] not in left_out:
            copy(builder, *command)
    log = builder.log()
    sends = np.zeros(2, TABLE_DTYPES["sends"])
    sends["dst"], sends["tag"], sends["line_taken"] = 0, 1, 2
    sends["command_seq"], sends["take_seq"], sends["free_seq"] = [0, 2], [1, 3], free_seqs
    log.tables = {"sends": sends}
    return log


def memory():
    store = MemoryStore(REGIONS)
    store.write_tensor(HBM, IN, np.arange(2 * COLS, dtype=np.float32).reshape(1, -1))
    return store


def error_of(log, mode, fuse_from=2):
    with pytest.raises(StoreError) as caught:
        Executor(log, memory(), mode, fuse_from=fuse_from).run()
    return str(caught.value)


@pytest.mark.parametrize(("mode", "fuse_from"), MODES)
def test_values_pass_through_one_slot_and_its_bytes_are_gone_at_the_end(mode, fuse_from):
    done = []
    store = Executor(log_of(), memory(), mode, fuse_from=fuse_from).run(lambda *at: done.append(at))
    assert store.read(HBM, OUT, 1, 128, 128, DType.F32)[0].tolist() == [*range(2 * COLS)]
    assert done[-1] == (10, 10)
    with pytest.raises(StoreError, match="were released"):
        store.read(TCM, SLOT, 1, 64, 64, DType.F32)


def test_a_slot_that_is_not_given_back_keeps_its_bytes():
    store = Executor(log_of(free_seqs=(2, -1)), memory(), "tile").run()
    assert store.read(TCM, SLOT, 1, 64, 64, DType.F32)[0].tolist() == [*range(COLS, 2 * COLS)]


@pytest.mark.parametrize(("mode", "fuse_from"), MODES)
def test_a_message_that_is_missing_is_an_error_that_names_it(mode, fuse_from):
    text = error_of(log_of(left_out=(2,)), mode, fuse_from)
    assert text == (
        "op 4 (dma_write, pe1.dma, k.py:9): tcm + 0x1000 (address 0x3000000001000): got a read of 1 x 8 f32 whose "
        "bytes from 0x1000 on were released, needs initialised bytes; last written by op 0 (dma_write, pe0.dma, "
        "k.py:4), a message whose slot came free since; missing: the message of command 2 to pe1, tag 0, received at "
        "k.py:9"
    )


@pytest.mark.parametrize(("mode", "fuse_from"), MODES)
def test_without_the_release_the_reader_gets_the_message_before(mode, fuse_from):
    log = log_of(left_out=(2,), free_seqs=(-1, -1))
    store = Executor(log, memory(), mode, fuse_from=fuse_from).run()
    assert store.read(HBM, OUT + 64, 1, 64, 64, DType.F32)[0].tolist() == [*range(COLS)]


def test_a_half_that_is_missing_is_an_error_too():
    log = log_of()
    lost = log.ops["op_id"][log.ops["command_seq"] == 2][1]
    tables = [table[table["op_id"] != lost] for table in (log.ops, log.operands)]
    log = OpLog(*tables, log.strings, is_complete=False, tables=log.tables)
    for mode, fuse_from in MODES:
        assert "missing: the message of k.py:4 on pe0 to pe1, tag 0" in error_of(log, mode, fuse_from)


def test_debug_mode_releases_too():
    assert debug(log_of(), memory()).n_ops == 10
    with pytest.raises(StoreError, match="missing: the message of command 2"):
        debug(log_of(left_out=(2,)), memory())


def test_a_look_at_the_command_of_the_release_still_sees_the_message():
    look = Look(2, Rectangle.of_memory(TCM, SLOT, 1, 64, 64), DType.F32)
    _, (seen,) = Executor(log_of(free_seqs=(2, 5)), memory(), "tile").run_and_look([look])
    assert seen[0].tolist() == [*range(COLS)]


def test_a_release_before_the_message_is_refused():
    with pytest.raises(
        LogError, match="op log: sends: got free_seq 2 of the message of command 2, needs the number of a later"
    ):
        Executor(log_of(free_seqs=(2, 2)), memory(), "tile").run()


def test_the_log_of_another_simulator_as_lines_of_json_releases_slots(tmp_path, invoke):
    memory().save(tmp_path / "memory")
    for left_out in ((), (2,)):
        log = log_of(left_out)
        rows = [dict(zip(TABLE_DTYPES["sends"].names, row, strict=True)) for row in log.tables["sends"].tolist()]
        texts = [row | {name: log.strings[row[name]] for name in ("dst", "tag", "line_taken")} for row in rows]
        lines = [*map(line_of, log.records()), *(json.dumps({"table": "sends", **row}) for row in texts)]
        (tmp_path / "log.jsonl").write_text("\n".join(lines) + "\n")
        code, out, err = invoke("run", tmp_path / "log.jsonl", "--memory", tmp_path / "memory", "--prefix")
        assert code == (1 if left_out else 0)
        assert ("missing: the message of command 2 to pe1, tag 0" in out + err) is bool(left_out)
