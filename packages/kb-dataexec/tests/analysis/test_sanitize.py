import msgspec
from dataexec_gemm_log import HBM, TCM, GemmProblem, LogBuilder, move
from dataexec_math_log import SoftmaxProblem

from kb_dataexec.analysis.hazards import Hazard
from kb_dataexec.analysis.sanitize import sanitize
from kb_messages import DType, OpKind, Role


def add(builder, command, line, span, target, source=None, component="sip0.cube0.pe0.pe_dma"):
    """A row of 8 bytes copied from (owner, offset) to another, in the picoseconds of *span*."""
    sides = [(Role.SRC, source or (TCM, 512)), (Role.DST, target)]
    rows = [move(role, *at, 1, 8, 8, DType.U8) for role, at in sides]
    builder.add((command, 0, 0), OpKind.MEMORY, "copy", rows, component=component, line=line, span_ps=span)


def missing_wait():
    """Line 7 reads from 1500 what line 5 writes until 4000."""
    builder = LogBuilder()
    add(builder, 0, "k.py:5", (1000, 4000), (HBM, 64))
    add(builder, 1, "k.py:7", (1500, 2500), (TCM, 0), source=(HBM, 68))
    return builder.log()


def test_a_finding_names_both_lines_their_times_and_the_byte():
    (found,) = sanitize(missing_wait())
    assert (found.hazard, found.done_ps, found.early_ps) == (Hazard.READ_TOO_EARLY, 4000, 4000 - 1500)
    assert (found.first.line, found.first.op_id, found.first.t_start_ps, found.first.t_end_ps) == (
        "k.py:5", 0, 1000, 4000,
    )  # fmt: skip
    assert (found.second.line, found.second.op_id) == ("k.py:7", 1)
    assert (found.where, found.offset, found.count, found.pes) == ("sip0.die0.hbm0", 68, 1, 1)
    assert str(found) == (
        "missing wait: k.py:7 (copy, sip0.cube0.pe0.pe_dma) reads from 1.500 ns on what k.py:5 (copy, "
        "sip0.cube0.pe0.pe_dma) writes until 4.000 ns, at sip0.die0.hbm0 + 0x44; let k.py:7 wait for k.py:5"
    )


def test_memories_have_the_names_they_are_given():
    (found,) = sanitize(missing_wait(), memories={HBM: "sip0.cube0.hbm0"})
    assert (found.where, found.offset) == ("sip0.cube0.hbm0", 68)


def test_a_finding_is_json():
    (found,) = msgspec.to_builtins(sanitize(missing_wait()))
    assert found["hazard"] == "missing wait"
    assert found["first"]["line"] == "k.py:5"
    assert found["early_ps"] == 2500


def test_pairs_of_two_lines_are_one_finding_with_the_worst_of_them():
    builder = LogBuilder()
    for number, start in enumerate((900, 700, 800)):  # each pair on a PE and in bytes of its own
        pe = f"sip0.cube0.pe{number}.pe_dma"
        add(builder, 2 * number, "k.py:5", (0, 1000), (HBM, 64 * number), component=pe)
        add(builder, 2 * number + 1, "k.py:7", (start, 1000), (HBM, 64 * number + 1024), (HBM, 64 * number), pe)
    (found,) = sanitize(builder.log())
    assert (found.count, found.pes, found.early_ps, found.second.component) == (3, 3, 300, "sip0.cube0.pe1.pe_dma")
    assert "; 3 such pairs on 3 PEs, this one the worst; " in str(found)


def test_findings_come_in_the_order_of_commands():
    builder = LogBuilder()
    add(builder, 0, "k.py:9", (0, 100), (HBM, 0))
    add(builder, 1, "k.py:1", (50, 60), (HBM, 0))
    add(builder, 2, "k.py:5", (55, 70), (HBM, 64), source=(HBM, 0))
    found = sanitize(builder.log())
    assert [(each.hazard.value, each.first.line, each.second.line) for each in found] == [
        ("written out of order", "k.py:9", "k.py:1"),
        ("missing wait", "k.py:1", "k.py:5"),
    ]


def test_a_line_that_does_not_wait_for_itself_is_told_so():
    builder = LogBuilder()
    add(builder, 0, "k.py:5", (0, 100), (HBM, 0))
    add(builder, 1, "k.py:5", (50, 150), (HBM, 0))
    (found,) = sanitize(builder.log())
    assert str(found).endswith("; let k.py:5 wait for what it issued before")


def test_a_race_says_that_waiting_for_a_handle_is_no_way_out():
    builder = LogBuilder()
    add(builder, 0, "k.py:5", (0, 100), (HBM, 0))
    add(builder, 1, "k.py:5", (5000, 5100), (HBM, 4), component="sip0.cube0.pe1.pe_dma")
    log = builder.log()
    (found,) = sanitize(log)
    assert (found.hazard, found.early_ps) == (Hazard.WRITE_RACE, 0)
    assert str(found) == (
        "write race: k.py:5 (copy, sip0.cube0.pe1.pe_dma) overwrites from 5.000 ns on what k.py:5 (copy, "
        "sip0.cube0.pe0.pe_dma) writes until 0.100 ns, at sip0.die0.hbm0 + 0x4; nothing puts these two PEs in order: "
        "let one of them do both, launch twice, or send a message or a signal, where the language has them"
    )
    assert sanitize(log, [(0, 100), (4000, 5100)]) == []


def test_the_byte_told_is_one_that_somebody_writes():
    builder = LogBuilder()
    add(builder, 0, "k.py:5", (0, 100), (TCM, 64), source=(HBM, 0))
    add(builder, 1, "k.py:6", (50, 90), (TCM, 68), source=(HBM, 0))  # both read HBM, and both write TCM
    (found,) = sanitize(builder.log())
    assert (found.where, found.offset) == ("sip0.die0.tcm0", 68)


def test_logs_of_one_record_at_a_time_are_clean():
    for problem in (GemmProblem(20, 12, 24, (8, 8, 8)), SoftmaxProblem(8, 16, 4)):
        assert sanitize(problem.log()) == []
