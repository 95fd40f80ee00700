import numpy as np
import pytest
from dataexec_gemm_log import GemmProblem

from kb_dataexec.log.table_dtypes import OPS_DTYPE
from kb_dataexec.log.tables import OpLog
from kb_messages import DType, LogError, MemorySpace, Operand, OpKind, Role, WaitReason


@pytest.fixture
def log():
    return GemmProblem(4, 4, 8, (4, 4, 4)).log()


def test_a_record_shows_its_row_its_texts_and_its_operands(log):
    record = log.record(3)
    assert (record.op_id, record.kind, record.name, record.line) == (3, OpKind.GEMM, "gemm", "kernel.py:3")
    assert (record.t_start_ps, record.t_end_ps, record.waits_ps) == (3, 4, (0,) * 6)
    assert [operand.role for operand in record.operands] == [Role.A, Role.B, Role.OUT]
    assert record.operands[0] == Operand(
        role=Role.A,
        space=MemorySpace.REG,
        owner=record.operands[0].owner,
        offset=0,
        rows=4,
        row_nbytes=8,
        stride=8,
        dtype=DType.F16,
        release=True,
    )


def test_records_come_in_written_order(log):
    assert [record.op_id for record in log.records()] == list(range(log.n_ops))


def test_operands_are_found_wherever_their_rows_stand(log):
    shuffled = OpLog(log.ops, np.concatenate([log.operands[7:], log.operands[:7]]), log.strings)
    assert [r.op_id for r in shuffled.records() if not r.operands] == []
    assert shuffled.record(0).operands == log.record(0).operands


@pytest.mark.parametrize("what", ["ops", "operands", "strings", "immediates"])
def test_the_digest_covers_every_part(log, what):
    parts = {"ops": log.ops.copy(), "operands": log.operands.copy(), "strings": list(log.strings), "immediates": b"1"}
    before = OpLog(**parts).digest
    if what in ("ops", "operands"):
        parts[what]["op_id"][0] += 1
    else:
        parts[what] = ["other", *log.strings[1:]] if what == "strings" else b"2"
    assert OpLog(**parts).digest != before


@pytest.mark.parametrize(
    ("table", "column", "value", "needs"),
    [
        ("ops", "kind", 3, "0 to 2"),
        ("ops", "line", -1, "0 to 8"),
        ("ops", "params", 9, "0 to 8"),
        ("operands", "role", 7, "0 to 6"),
        ("operands", "space", 0, "1 to 5"),
        ("operands", "dtype", 14, "0 to 13"),
        ("operands", "release", 2, "0 to 1"),
    ],
)
def test_unknown_codes_are_errors(log, table, column, value, needs):
    getattr(log, table)[column][2] = value
    with pytest.raises(LogError) as caught:
        log.check("a.log")
    assert str(caught.value) == f"a.log: {table} row 2: got {column} {value}, needs {needs}"


@pytest.mark.parametrize(
    ("times", "bad"),
    [((5, 4, 6, 6), True), ((5, 6, 5, 6), True), ((5, 6, 7, 6), True), ((5, 5, 5, 5), False), ((0, 5, 6, 7), False)],
)
def test_times_that_fall_are_errors(log, times, bad):
    """A tile is offered, is served, and leaves, as lines of JSON have to say."""
    names = "t_ready_ps", "t_start_ps", "t_end_ps", "t_out_ps"
    for name, time_ps in zip(names, times, strict=True):
        log.ops[name][2] = time_ps
    if not bad:
        log.check("a.log")
        return
    with pytest.raises(LogError) as caught:
        log.check("a.log")
    assert str(caught.value) == (
        f"a.log: ops row 2: got the times {', '.join(map(str, times))}, "
        "needs t_ready_ps <= t_start_ps <= t_end_ps <= t_out_ps"
    )


@pytest.mark.parametrize("column", ["t_ready_ps", *(f"wait_{reason.name.lower()}_ps" for reason in WaitReason)])
def test_times_and_waits_below_0_are_errors(log, column):
    log.ops[column][2] = -1
    with pytest.raises(LogError) as caught:
        log.check("a.log")
    assert str(caught.value) == f"a.log: ops row 2: got {column} -1, needs 0 or more"


def test_the_first_row_with_a_wrong_time_is_told(log):
    log.ops["wait_channel_ps"][3] = log.ops["t_ready_ps"][1] = -1
    with pytest.raises(LogError, match=r"^a\.log: ops row 1: got t_ready_ps -1"):
        log.check("a.log")


def test_other_columns_are_an_error(log):
    with pytest.raises(LogError, match=r"^a\.log: ops: got columns \[\('op_id', '<i4'\)\], needs columns \["):
        OpLog(np.zeros(1, [("op_id", "<i4")]), log.operands, log.strings).check("a.log")


def test_an_empty_log_is_a_log():
    OpLog(np.zeros(0, OPS_DTYPE), GemmProblem(1, 1, 1, (1, 1, 1)).log().operands[:0], []).check("a.log")
