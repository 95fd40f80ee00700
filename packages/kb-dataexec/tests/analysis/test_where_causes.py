"""Where the time of one PE's program went, by hand: each cause of a wait, in logs without transfers."""

import pytest
from dataexec_timed_log import TimedLog, segments, totals

from kb_dataexec.analysis import path, where
from kb_dataexec.analysis.critical_path import walk as path_walk
from kb_messages import CallCause

BEGINS = (0, 4, 4, 4, 12, 12)
"""A command is called at 0, issued and taken at 4, decoded at 12."""
BEGINNING = [(0, 4, "pe_cpu", "issue", "submission"), (4, 12, "pe_scheduler", "decode", "dispatch")]


def one_command(end, *, starts=0):
    timed = TimedLog()
    timed.program(starts, end)
    timed.command(0, (*BEGINS, end))
    return timed


def launch_of(log):
    """The answer for the only launch of *log*, whose rows add up to its time and agree with its path."""
    found = where(log)
    (launch,) = found.launches
    assert found.unexplained_ps == 0
    expected = {}
    for start, end, *what in segments(path(log, 0)):
        ps, count = expected.get(tuple(what), (0, 0))
        expected[tuple(what)] = ps + end - start, count + 1
    assert totals(launch.rows) == expected
    assert sum(row.ps for row in launch.rows) == launch.end_ps - launch.start_ps
    return launch


def test_stages_of_a_tile_alone_follow_each_other():
    timed = one_command(70)
    timed.tile(0, 0, 0, ("dma_read", 12, 32), ("fetch", 32, 37), ("gemm", 37, 50), ("store", 50, 55))
    timed.op(4, 0, 0, "dma_write", 55, 55, 70)
    log = timed.log("transfers")
    assert segments(path(log, 0)) == [
        *BEGINNING,
        (12, 32, "pe_dma", "service", "data"),
        (32, 37, "pe_fetch_store", "fetch", "data"),
        (37, 50, "pe_gemm", "gemm", "data"),
        (50, 55, "pe_fetch_store", "store", "data"),
        (55, 70, "pe_dma", "service", "end"),
    ]
    found = path(log, 0)
    assert found.op_id.tolist() == [-1, -1, 0, 1, 2, 3, 4]
    assert {found.strings[number] for number in found.line.tolist()} == {"kernel.py:1"}
    assert {found.strings[number] for number in found.pe.tolist()} == {"pe0"}
    launch = launch_of(log)
    assert launch.busy == {"pe_cpu": 4, "pe_dma": 35, "pe_fetch_store": 10, "pe_gemm": 13, "pe_scheduler": 8}
    assert set(launch.hidden.values()) == {0}
    assert launch.ties == 0
    (view,) = launch.pes
    assert (view.pes, view.rows) == (["pe0"], launch.rows)


def two_tiles():
    """The block that the tiles wait for is GEMM: 25 for each, and a read takes 10."""
    timed = one_command(86)
    timed.tile(0, 0, 0, ("dma_read", 12, 22), ("fetch", 22, 24), ("gemm", 24, 49), ("store", 49, 51))
    timed.op(4, 0, 0, "dma_write", 51, 51, 61)
    timed.op(5, 0, 1, "dma_read", 12, 22, 32, channel=10)
    timed.op(6, 0, 1, "fetch", 32, 32, 34)
    timed.op(7, 0, 1, "gemm", 34, 49, 74, channel=15)
    timed.op(8, 0, 1, "store", 74, 74, 76)
    timed.op(9, 0, 1, "dma_write", 76, 76, 86)
    return timed.log("transfers")


def test_work_behind_the_path_is_hidden():
    launch = launch_of(two_tiles())
    assert segments(path(two_tiles(), 0)) == [
        *BEGINNING,
        (12, 22, "pe_dma", "service", "data"),
        (22, 24, "pe_fetch_store", "fetch", "data"),
        (24, 49, "pe_gemm", "gemm", "throughput"),
        (49, 74, "pe_gemm", "gemm", "data"),
        (74, 76, "pe_fetch_store", "store", "data"),
        (76, 86, "pe_dma", "service", "end"),
    ]
    assert launch.busy == {"pe_cpu": 4, "pe_dma": 40, "pe_fetch_store": 8, "pe_gemm": 50, "pe_scheduler": 8}
    # Hidden: the second read, the second fetch, the first store and the first write.
    assert launch.hidden == {"pe_cpu": 0, "pe_dma": 20, "pe_fetch_store": 4, "pe_gemm": 0, "pe_scheduler": 0}


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_a_path_is_the_same_however_many_events_are_looked_at_at_once(length, monkeypatch):
    expected = segments(path(two_tiles(), 0)), where(two_tiles())
    monkeypatch.setattr(path_walk, "_CHUNK", length)
    assert (segments(path(two_tiles(), 0)), where(two_tiles())) == expected


def test_a_full_queue_is_the_work_of_the_tile_that_made_room():
    """Tile 2 cannot leave its read at 42: the queue of GEMM has room when tile 0 leaves that, at 62."""
    timed = one_command(172)
    timed.tile(0, 0, 0, ("dma_read", 12, 22), ("gemm", 22, 62))
    timed.op(2, 0, 1, "dma_read", 12, 22, 32, channel=10)
    timed.op(3, 0, 1, "gemm", 32, 62, 102, channel=30)
    timed.op(4, 0, 2, "dma_read", 12, 32, 42, out=62, channel=20)
    timed.op(5, 0, 2, "gemm", 62, 102, 142, channel=40)
    timed.op(6, 0, 3, "dma_read", 12, 62, 72, channel=50)
    timed.op(7, 0, 3, "math", 72, 72, 172)
    log = timed.log("transfers")
    assert segments(path(log, 0)) == [
        *BEGINNING,
        (12, 22, "pe_dma", "service", "data"),
        (22, 62, "pe_gemm", "gemm", "queue_full"),
        (62, 72, "pe_dma", "service", "data"),
        (72, 172, "pe_math", "math", "end"),
    ]
    launch_of(log)


@pytest.mark.parametrize(
    ("gate", "waiting", "opens"),
    [("compute_slot", "math", "gemm"), ("tcm_port", "fetch", "store"), ("register_file", "fetch", "gemm")],
)
def test_a_gate_is_opened_by_the_service_that_ends_then(gate, waiting, opens):
    timed = one_command(60)
    timed.op(0, 0, 0, opens, 12, 12, 40)
    timed.op(1, 0, 1, waiting, 12, 40, 60, **{gate: 28})
    log = timed.log("transfers")
    block = {"gemm": "pe_gemm", "math": "pe_math"}
    assert segments(path(log, 0)) == [
        *BEGINNING,
        (12, 40, block.get(opens, "pe_fetch_store"), opens, gate),
        (40, 60, block.get(waiting, "pe_fetch_store"), waiting, "end"),
    ]
    assert launch_of(log).ties == 0


def test_of_two_that_open_a_gate_at_once_the_first_counts_and_the_tie_is_told():
    timed = one_command(60)
    timed.op(0, 0, 0, "math", 12, 15, 40)
    timed.op(1, 0, 1, "gemm", 12, 12, 40)
    timed.op(2, 0, 2, "store", 12, 40, 60, register_file=28)
    log = timed.log("transfers")
    assert segments(path(log, 0))[-2:] == [
        (15, 40, "pe_math", "math", "register_file"),
        (40, 60, "pe_fetch_store", "store", "end"),
    ]
    (launch,) = where(log).launches
    assert launch.ties == 1


@pytest.mark.parametrize(
    ("in_order", "claimed", "via"), [(12, 40, "tile_buffer"), (40, 40, "fetch_order"), (30, 40, "tile_buffer")]
)
def test_a_tile_that_waited_for_fetches_or_for_its_buffers(in_order, claimed, via):
    timed = one_command(60)
    timed.tile(0, 0, 0, ("dma_read", 12, 30), ("fetch", 30, 40))
    timed.op(2, 0, 1, "dma_read", 40, 40, 60)
    timed.dispatch(2, in_order, claimed)
    log = timed.log("transfers")
    assert segments(path(log, 0)) == [
        *BEGINNING,
        (12, 30, "pe_dma", "service", "data"),
        (30, 40, "pe_fetch_store", "fetch", via),
        (40, 60, "pe_dma", "service", "end"),
    ]
    launch_of(log)


def test_a_tile_that_waited_for_math_without_a_fetch_to_have_registers():
    timed = one_command(60)
    timed.op(0, 0, 0, "math", 12, 12, 40)
    timed.op(1, 0, 1, "fetch", 40, 40, 60)
    timed.dispatch(1, 40, 40)
    log = timed.log("transfers")
    assert segments(path(log, 0)) == [
        *BEGINNING,
        (12, 40, "pe_math", "math", "fetch_order"),
        (40, 60, "pe_fetch_store", "fetch", "end"),
    ]
    launch_of(log)


def test_a_transfer_that_is_done_early_leaves_after_the_one_before_it():
    timed = one_command(60)
    timed.op(0, 0, 0, "dma_read", 12, 12, 42)
    timed.op(1, 0, 0, "fetch", 42, 42, 44)
    timed.op(2, 0, 1, "dma_read", 12, 14, 30, out=42, channel=2)
    timed.op(3, 0, 1, "math", 42, 42, 60)
    log = timed.log("transfers")
    assert segments(path(log, 0)) == [
        *BEGINNING,
        (12, 42, "pe_dma", "service", "transfer_order"),
        (42, 60, "pe_math", "math", "end"),
    ]
    launch_of(log)


def test_a_transfer_begins_when_the_one_before_it_is_set_up():
    timed = one_command(60)
    timed.op(0, 0, 0, "dma_read", 12, 12, 30)
    timed.op(1, 0, 1, "dma_read", 12, 14, 60, channel=2)
    log = timed.log("transfers")
    found = path(log, 0)
    assert segments(found) == [
        *BEGINNING,
        (12, 14, "pe_dma", "service", "throughput"),
        (14, 60, "pe_dma", "service", "end"),
    ]
    assert found.op_id.tolist()[-2:] == [0, 1]
    assert launch_of(log).hidden["pe_dma"] == 16


@pytest.mark.parametrize("came", [18, 14], ids=["later", "with it"])
def test_a_transfer_does_not_wait_for_a_later_one_that_leaves_at_once(came):
    """The set-up of the first transfer lasts until 20. The third one moves nothing, and is recorded first."""
    timed = one_command(60)
    timed.op(2, 0, 2, "dma_read", came, 20, 20, channel=20 - came)
    timed.op(0, 0, 0, "dma_read", 12, 12, 50)
    timed.op(1, 0, 1, "dma_read", 14, 20, 60, channel=6)
    log = timed.log("transfers")
    assert segments(path(log, 0)) == [
        *BEGINNING,
        (12, 20, "pe_dma", "service", "throughput"),
        (20, 60, "pe_dma", "service", "end"),
    ]
    launch_of(log)


def test_of_two_that_free_a_buffer_at_once_the_first_counts_and_the_tie_is_told():
    timed = one_command(60)
    timed.op(0, 0, 0, "fetch", 12, 12, 40)
    timed.op(1, 0, 1, "dma_write", 12, 12, 40)
    timed.op(2, 0, 2, "dma_read", 40, 40, 60)
    timed.dispatch(2, 12, 40)
    log = timed.log("transfers")
    assert segments(path(log, 0))[-2:] == [
        (12, 40, "pe_fetch_store", "fetch", "tile_buffer"),
        (40, 60, "pe_dma", "service", "end"),
    ]
    (launch,) = where(log).launches
    assert launch.ties == 1


def test_commands_feed_one_after_the_other():
    """Command 1 is decoded at 20 and feeds its tile at 30, when the last tile of command 0 has room in its queue."""
    timed = TimedLog()
    timed.program(0, 70)
    timed.command(0, (0, 4, 4, 4, 12, 12, 50))
    timed.command(1, (4, 8, 8, 12, 20, 30, 70), after=CallCause.SUBMISSION, after_seq=0)
    timed.op(0, 0, 0, "dma_read", 12, 12, 30)
    timed.op(1, 0, 1, "dma_read", 30, 30, 50)
    timed.op(2, 1, 0, "math", 30, 30, 70)
    log = timed.log("transfers")
    assert segments(path(log, 0)) == [
        *BEGINNING,
        (12, 30, "pe_dma", "service", "queue_full"),
        (30, 70, "pe_math", "math", "end"),
    ]


def test_of_commands_that_begin_at_once_the_one_whose_tile_came_first_was_fed_first():
    """The second write is called before the math, and PE_SCHEDULER takes both at 8: the math first. At 40, when a write
    has left, the math comes at once, and the second write waits for room until 80."""
    timed = TimedLog()
    timed.program(0, 130)
    timed.command(0, (0, 4, 4, 4, 4, 4, 80))
    timed.command(1, (4, 8, 8, 8, 8, 40, 120), after=CallCause.SUBMISSION, after_seq=0)
    timed.command(2, (4, 8, 8, 8, 8, 40, 130), after=CallCause.SUBMISSION, after_seq=0)
    timed.op(0, 0, 0, "dma_write", 4, 4, 40)
    timed.op(1, 0, 1, "dma_write", 40, 40, 80)
    timed.op(2, 1, 0, "dma_write", 80, 80, 120)
    timed.op(3, 2, 0, "math", 40, 40, 130)
    log = timed.log("transfers")
    assert segments(path(log, 0)) == [
        (0, 4, "pe_cpu", "issue", "submission"),
        (4, 40, "pe_dma", "service", "queue_full"),
        (40, 130, "pe_math", "math", "end"),
    ]
    launch_of(log)


def test_a_command_waits_for_its_operand():
    """Command 3 is issued at 48, when command 2 is done."""
    timed = TimedLog()
    timed.program(0, 100)
    timed.command(0, (0, 4, 4, 4, 12, 12, 22), line="kernel.py:1")
    timed.command(1, (4, 8, 8, 12, 20, 20, 30), line="kernel.py:2", after=CallCause.SUBMISSION, after_seq=0)
    timed.command(2, (8, 11, 12, 20, 28, 28, 48), line="kernel.py:3", after=CallCause.SUBMISSION, after_seq=1)
    times = (12, 48, 48, 48, 56, 56, 100)
    timed.command(3, times, line="kernel.py:4", after=CallCause.SUBMISSION, after_seq=2, operand_seq=2, operand_ps=33)
    for seq, start, end in ((0, 12, 22), (1, 22, 30), (2, 30, 48), (3, 56, 100)):
        timed.op(seq, seq, 0, "math", max(start - 2, 12) if seq in (1, 2) else start, start, end)
    log = timed.log("transfers")
    found = path(log, 0)
    lines = [found.strings[number] for number in found.line.tolist()]
    assert [(*each, line[-1]) for each, line in zip(segments(found), lines, strict=True)] == [
        (0, 4, "pe_cpu", "issue", "submission", "1"),
        (4, 12, "pe_scheduler", "decode", "dispatch", "1"),
        (12, 22, "pe_math", "math", "throughput", "1"),
        (22, 30, "pe_math", "math", "throughput", "2"),
        (30, 48, "pe_math", "math", "operand", "3"),
        (48, 56, "pe_scheduler", "decode", "dispatch", "4"),
        (56, 100, "pe_math", "math", "end", "4"),
    ]


def test_a_decoder_that_is_busy_and_a_kernel_that_waits_for_a_command():
    timed = TimedLog()
    timed.program(0, 80)
    timed.command(0, (0, 4, 4, 4, 12, 12, 20))
    timed.command(1, (4, 8, 8, 12, 20, 20, 40), after=CallCause.SUBMISSION, after_seq=0)
    timed.command(2, (40, 44, 44, 44, 52, 52, 80), after=CallCause.COMPLETION, after_seq=1)
    for seq, start, end in ((0, 12, 20), (1, 20, 40), (2, 52, 80)):
        timed.op(seq, seq, 0, ("gemm", "math", "gemm")[seq], start, start, end)
    log = timed.log("transfers")
    assert segments(path(log, 0)) == [
        *BEGINNING[:1],
        (4, 12, "pe_scheduler", "decode", "submission_queue"),
        (12, 20, "pe_scheduler", "decode", "dispatch"),
        (20, 40, "pe_math", "math", "program"),
        (40, 44, "pe_cpu", "issue", "submission"),
        (44, 52, "pe_scheduler", "decode", "dispatch"),
        (52, 80, "pe_gemm", "gemm", "end"),
    ]
    launch = launch_of(log)
    assert launch.hidden["pe_gemm"] == 8
    assert launch.hidden["pe_cpu"] == 4  # the issue of the second command, behind the decoding of the first one


def test_a_submission_waits_for_room_in_the_queue():
    """Command 2 is issued at 11 and submitted at 12, when command 1 is taken. Then the kernel makes its last call."""
    timed = TimedLog()
    timed.program(0, 90)
    timed.command(0, (0, 4, 4, 4, 12, 12, 20))
    timed.command(1, (4, 8, 8, 12, 20, 20, 30), after=CallCause.SUBMISSION, after_seq=0)
    timed.command(2, (8, 11, 12, 20, 28, 28, 40), after=CallCause.SUBMISSION, after_seq=1)
    timed.command(3, (12, 32, 32, 32, 40, 40, 90), after=CallCause.SUBMISSION, after_seq=2)
    for seq, start, end in ((0, 12, 20), (1, 20, 30), (2, 30, 40), (3, 40, 90)):
        timed.op(seq, seq, 0, "math", (12, 20, 28, 40)[seq], start, end)
    log = timed.log("transfers")
    assert segments(path(log, 0)) == [
        (0, 4, "pe_cpu", "issue", "submission"),
        (4, 12, "pe_scheduler", "decode", "submission_queue"),
        (12, 32, "pe_cpu", "issue", "submission"),
        (32, 40, "pe_scheduler", "decode", "dispatch"),
        (40, 90, "pe_math", "math", "end"),
    ]
    launch_of(log)


def test_programs_of_one_pe_follow_each_other():
    """PE_CPU begins a program in 20; its command ends 60 later. A program without a command ends when it has begun."""
    timed = TimedLog()
    timed.program(0, 60)
    timed.program(24, 44)
    timed.program(44, 124)
    timed.command(0, (20, 24, 24, 24, 32, 32, 60))
    timed.command(1, (64, 68, 68, 68, 76, 76, 124))
    timed.op(0, 0, 0, "math", 32, 32, 60)
    timed.op(1, 1, 0, "math", 76, 76, 124)
    log = timed.log("transfers")
    assert segments(path(log, 0)) == [
        (0, 20, "pe_cpu", "program", "program"),
        (20, 24, "pe_cpu", "issue", "submission"),
        (24, 44, "pe_cpu", "program", "program"),
        (44, 64, "pe_cpu", "program", "program"),
        (64, 68, "pe_cpu", "issue", "submission"),
        (68, 76, "pe_scheduler", "decode", "dispatch"),
        (76, 124, "pe_math", "math", "end"),
    ]
    assert launch_of(log).busy == {"pe_cpu": 68, "pe_math": 76, "pe_scheduler": 16}
