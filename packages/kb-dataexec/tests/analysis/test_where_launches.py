"""Where the time of launches went, by hand: requests that wait for a memory, ways of launches, and logs with gaps."""

import re

import pytest
from dataexec_timed_log import TimedLog, segments, totals
from dataexec_written_log import expect

from kb_dataexec.analysis import path, paths, where
from kb_dataexec.analysis.critical_path import walk as path_walk
from kb_messages import CallCause, MessageKind


def two_reads(served=13, **second):
    """PE 1 asks the memory at 14, while that serves PE 0: from 13 to 21, 8 for the bytes, beside a latency of 7."""
    timed = TimedLog()
    for seq, (pe, begins, read) in enumerate((("pe0", 8, (8, 31)), ("pe1", 9, (9, 39)))):
        timed.program(0, read[1], pe=pe)
        timed.command(seq, (0, 4, 4, 4, begins, begins, read[1]), pe=pe, line=f"kernel.py:{seq + 1}")
        timed.op(seq, seq, 0, "dma_read", begins, *read)
    timed.transfer(0, 10, 13, served, 20, 28, latency=3)
    timed.transfer(1, 11, 14, 21, 28, 36, latency=3, **{"behind": 0} | second)
    return timed


END = [
    (21, 28, "hbm", "latency", "end"),
    (28, 36, "hbm", "bytes", "end"),
    (36, 39, "links", "response", "end"),
]


def test_the_launch_follows_a_request_to_the_one_before_it_and_the_pe_does_not():
    log = two_reads().log()
    found = path(log, 0)
    assert segments(found) == [
        (0, 4, "pe_cpu", "issue", "submission"),
        (4, 8, "pe_scheduler", "decode", "dispatch"),
        (8, 10, "pe_dma", "setup", "memory"),
        (10, 13, "links", "request", "memory"),
        (13, 21, "hbm", "bytes", "memory"),
        *END,
    ]
    assert [found.strings[number] for number in found.pe.tolist()] == ["pe0"] * 5 + ["pe1"] * 3
    assert [found.strings[number] for number in found.line.tolist()] == ["kernel.py:1"] * 5 + ["kernel.py:2"] * 3
    assert found.op_id.tolist() == [-1, -1, 0, 0, 0, 1, 1, 1]
    (launch,) = where(log).launches
    own = {view.pes[0]: totals(view.rows) for view in launch.pes}
    assert own["pe1"] == {
        ("pe_cpu", "issue", "submission"): (4, 1),
        ("pe_scheduler", "decode", "dispatch"): (5, 1),
        ("pe_dma", "setup", "end"): (2, 1),
        ("links", "request", "end"): (3, 1),
        ("hbm", "busy with others", "end"): (7, 1),
        ("hbm", "latency", "end"): (7, 1),
        ("hbm", "bytes", "end"): (8, 1),
        ("links", "response", "end"): (3, 1),
    }
    assert own["pe0"]["program", "waits for other PEs", "end"] == (8, 1)
    assert own["pe0"]["hbm", "bytes", "end"] == (8, 1)
    # Each read has 7 of latency and 8 of bytes; a wait is no work. The latency of the first read is hidden.
    assert launch.busy == {"hbm": 30, "links": 12, "pe_cpu": 8, "pe_dma": 4, "pe_scheduler": 9}
    assert launch.hidden == {"hbm": 7, "links": 6, "pe_cpu": 4, "pe_dma": 2, "pe_scheduler": 5}


@pytest.mark.parametrize("first", [{"behind": -1}, {"behind": 77}, {"served": -1}])
def test_a_wait_for_a_request_that_the_log_does_not_tell_of_is_busy_with_others(first):
    log = two_reads(**first).log()
    assert segments(path(log, 0)) == [
        (0, 4, "pe_cpu", "issue", "submission"),
        (4, 9, "pe_scheduler", "decode", "dispatch"),
        (9, 11, "pe_dma", "setup", "end"),
        (11, 14, "links", "request", "end"),
        (14, 21, "hbm", "busy with others", "end"),
        *END,
    ]
    (launch,) = where(log).launches
    assert launch.hidden["hbm"] == 30 - 15


def test_a_wait_behind_a_write_whose_row_tells_of_a_later_part_is_busy_with_others():
    """The write held the memory until 33 and, after the read, from 41 to 45; its row tells of the latter alone."""
    timed = TimedLog()
    for seq, (pe, name, begins, end) in enumerate((("pe0", "dma_write", 8, 55), ("pe1", "dma_read", 9, 60))):
        timed.program(0, end, pe=pe)
        timed.command(seq, (0, 4, 4, 4, begins, begins, end), pe=pe)
        timed.op(seq, seq, 0, name, begins, begins, end)
    timed.transfer(0, 10, 38, 41, 45, 52, latency=3, behind=1)
    timed.transfer(1, 11, 14, 33, 40, 57, latency=3, behind=0)
    assert segments(path(timed.log(), 0))[-4:] == [
        (14, 33, "hbm", "busy with others", "end"),
        (33, 40, "hbm", "latency", "end"),
        (40, 57, "hbm", "bytes", "end"),
        (57, 60, "links", "response", "end"),
    ]


def test_a_service_without_a_row_has_the_parts_of_an_equal_one_and_its_own_set_up():
    """The first read takes 21 without a set-up. The second one has no row and takes 2 longer, which are its set-up."""
    timed = TimedLog()
    timed.program(0, 63)
    timed.command(0, (0, 4, 4, 4, 10, 10, 31))
    timed.command(1, (31, 32, 32, 32, 40, 40, 63), after=CallCause.COMPLETION, after_seq=0)
    timed.op(0, 0, 0, "dma_read", 10, 10, 31)
    timed.op(1, 1, 0, "dma_read", 40, 40, 63)
    timed.transfer(0, 10, 13, 13, 20, 28, latency=3)
    assert segments(path(timed.log(), 0))[-5:] == [
        (40, 42, "pe_dma", "setup", "end"),
        (42, 45, "links", "request", "end"),
        (45, 52, "hbm", "latency", "end"),
        (52, 60, "hbm", "bytes", "end"),
        (60, 63, "links", "response", "end"),
    ]


def test_bytes_that_hold_a_memory_for_longer_than_they_are_counted_there_are_work():
    """The links of PE 0 are slower than the memory: its bytes are 15 of the links, and none of the memory."""
    timed = TimedLog()
    for seq, (pe, begins, read) in enumerate((("pe0", 8, (8, 38)), ("pe1", 9, (9, 39)))):
        timed.program(0, read[1], pe=pe)
        timed.command(seq, (0, 4, 4, 4, begins, begins, read[1]), pe=pe)
        timed.op(seq, seq, 0, "dma_read", begins, *read)
    timed.transfer(0, 10, 13, 13, 20, 28, latency=3)
    timed.transfer(1, 11, 14, 21, 28, 36, latency=3, behind=0)
    (launch,) = where(timed.log()).launches
    # Of the memory: 8 on the path while PE 1 waits, 7 of latency for each, 8 of PE 1. Of the links: 3, 15, 3 and 3, 3.
    assert (launch.busy["hbm"], launch.busy["links"]) == (8 + 2 * 7 + 8, 27)
    assert (launch.hidden["hbm"], launch.hidden["links"]) == (7, 27 - 6)


def test_a_read_behind_a_write_follows_the_bytes_of_the_write_over_its_links():
    """Of the write, 12 are bytes on links and 8 bytes at the memory, from 25 to 33, while the read waits from 14 on."""
    timed = TimedLog()
    for seq, (pe, name, begins, end) in enumerate((("pe0", "dma_write", 8, 55), ("pe1", "dma_read", 9, 60))):
        timed.program(0, end, pe=pe)
        timed.command(seq, (0, 4, 4, 4, begins, begins, end), pe=pe)
        timed.op(seq, seq, 0, name, begins, begins, end)
    timed.transfer(0, 10, 25, 25, 33, 52, latency=3)
    timed.transfer(1, 11, 14, 33, 40, 57, latency=3, behind=0)
    log = timed.log()
    assert segments(path(log, 0)) == [
        (0, 4, "pe_cpu", "issue", "submission"),
        (4, 8, "pe_scheduler", "decode", "dispatch"),
        (8, 10, "pe_dma", "setup", "memory"),
        (10, 13, "links", "request", "memory"),
        (13, 25, "links", "bytes", "memory"),
        (25, 33, "hbm", "bytes", "memory"),
        (33, 40, "hbm", "latency", "end"),
        (40, 57, "hbm", "bytes", "end"),
        (57, 60, "links", "response", "end"),
    ]
    (launch,) = where(log).launches
    # Of the links: 3 and 12 and 3 of the write, 3 and 3 of the read. On the path: 3, 12 and 3.
    assert (launch.busy["links"], launch.hidden["links"]) == (24, 6)
    # Of the memory: 8 and 19 of the write, 7 and 17 of the read. The latency of the write is hidden.
    assert (launch.busy["hbm"], launch.hidden["hbm"]) == (51, 19)


def test_without_the_table_of_transfers_a_service_is_one_piece():
    log = two_reads().log("transfers")
    assert segments(path(log, 0))[-1] == (9, 39, "pe_dma", "service", "end")
    assert where(log).missing == ["transfers"]


def test_without_the_table_of_commands_the_time_between_start_and_end_is_unknown():
    log = two_reads().log("commands")
    found = where(log)
    assert segments(path(log, 0)) == [(0, 39, "unknown", "unknown", "")]
    assert (found.unexplained_ps, found.missing) == (39, ["commands"])
    (launch,) = found.launches
    assert launch.busy == {"unknown": 39}
    own = [[(row.block, row.via, row.ps) for row in view.rows] for view in launch.pes]
    assert own == [[("unknown", "", 31), ("program", "end", 8)], [("unknown", "", 39)]]


@pytest.mark.parametrize("without", [(), ("commands",), ("transfers",)])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 7])
def test_the_pes_are_told_apart_however_many_events_are_looked_at_at_once(without, length, monkeypatch):
    expected = where(two_reads().log(*without))
    monkeypatch.setattr(path_walk, "_CHUNK", length)
    assert where(two_reads().log(*without)) == expected


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 8, 100])
def test_nothing_of_one_pes_path_goes_over_to_the_next(length, monkeypatch):
    """PE 0 starts up until after the end of PE 1, whose program ends 5 after its command, for no reason in the log."""
    monkeypatch.setattr(path_walk, "_CHUNK", length)
    timed = TimedLog()
    for seq, (pe, start, end, done) in enumerate((("pe0", 50, 64, 64), ("pe1", 0, 40, 35), ("pe2", 0, 70, 70))):
        timed.program(start, end, pe=pe)
        timed.command(seq, (start, start + 4, start + 4, start + 4, start + 12, start + 12, done), pe=pe)
        timed.op(seq, seq, 0, "math", start + 12, start + 12, done)
    (launch,) = where(timed.log("transfers")).launches
    own = {view.pes[0]: totals(view.rows) for view in launch.pes}
    work = {("pe_cpu", "issue", "submission"): (4, 1), ("pe_scheduler", "decode", "dispatch"): (8, 1)}
    late, waits = ("pe_cpu", "startup", "start"), ("program", "waits for other PEs", "end")
    assert own["pe0"] == {late: (50, 1), **work, ("pe_math", "math", "end"): (2, 1), waits: (6, 1)}
    assert own["pe1"] == {("unknown", "unknown", ""): (40, 1), waits: (30, 1)}
    assert own["pe2"] == {**work, ("pe_math", "math", "end"): (58, 1)}


def test_without_programs_there_are_no_launches():
    log = two_reads().log("kernels")
    found = where(log)
    assert (found.launches, found.missing) == ([], ["kernels"])
    with expect(
        "op log: got no table kernels, needs the kernels of the run; "
        "logs of version 1 and logs from elsewhere may be without it; kb run writes one"
    ):
        paths(log)


def test_a_log_that_was_cut_off_before_a_program_ended_has_no_launches():
    timed = TimedLog()
    timed.command(0, (0, 4, 4, 4, 8, 8, 31))
    timed.op(0, 0, 0, "dma_read", 8, 8, 31)
    timed.transfer(0, 10, 13, 13, 20, 28, latency=3)
    log = timed.log()
    assert where(log).launches == []
    with pytest.raises(Exception, match=re.escape("launch 0, needs one of the launches of the log (none)")):
        path(log, 0)


def two_launches():
    """Launch 0 is called at 0, and launch 1 at 100. Each goes over an io_cpu to a PE, whose command takes 8."""
    timed = TimedLog()
    for launch, (base, took) in enumerate(((0, 30), (100, 50))):
        end = base + 25 + took
        timed.program(base + 25, end, launch=launch, called=base)
        for src, dst, sent, arrived in (("host", "io_cpu", 10, 15), ("io_cpu", "pe0.pe_cpu", 17, 20)):
            timed.message(launch, src, dst, base + sent, base + arrived)
        for src, dst, sent, arrived in (("pe0.pe_cpu", "io_cpu", 0, 3), ("io_cpu", "host", 5, 9)):
            timed.message(launch, src, dst, end + sent, end + arrived, MessageKind.RESPONSE)
        timed.command(launch, (base + 25, end - 9, end - 9, end - 9, end - 8, end - 8, end))
        timed.op(launch, launch, 0, "math", end - 8, end - 8, end)
    return timed.log("transfers")


def test_the_way_of_each_launch_is_told_hop_by_hop():
    log = two_launches()
    for launch, (base, end) in enumerate(((0, 55), (100, 175))):
        assert segments(path(log, launch)) == [
            (base, base + 10, "host", "call", "launch"),
            (base + 10, base + 15, "links", "request", "launch"),
            (base + 15, base + 17, "io_cpu", "dispatch", "launch"),
            (base + 17, base + 20, "links", "request", "launch"),
            (base + 20, base + 25, "pe_cpu", "barrier", "launch"),
            (base + 25, end - 9, "pe_cpu", "issue", "submission"),
            (end - 9, end - 8, "pe_scheduler", "decode", "dispatch"),
            (end - 8, end, "pe_math", "math", "end"),
            (end, end + 3, "links", "response", "answer"),
            (end + 3, end + 5, "io_cpu", "answer", "answer"),
            (end + 5, end + 9, "links", "response", "answer"),
        ]
    assert [segments(each) for each in paths(log)] == [segments(path(log, launch)) for launch in (0, 1)]
    first, second = where(log).launches
    assert (first.start_ps, first.kernels_start_ps, first.kernels_end_ps, first.end_ps) == (0, 25, 55, 64)
    assert (second.start_ps, second.kernels_start_ps, second.kernels_end_ps, second.end_ps) == (100, 125, 175, 184)
    # Each launch has its own work only: issue and barrier of pe_cpu, requests and responses of links.
    assert first.busy == {"host": 10, "io_cpu": 4, "links": 15, "pe_cpu": 26, "pe_math": 8, "pe_scheduler": 1}
    assert second.busy == first.busy | {"pe_cpu": 46}
    assert set((first.hidden | second.hidden).values()) == {0}


def test_pes_with_equal_rows_are_one_entry_and_two_that_end_together_are_a_tie():
    timed = TimedLog()
    for number, (pe, line) in enumerate((("pe0", 1), ("pe1", 1), ("pe2", 2))):
        timed.program(0, 30, pe=pe)
        timed.command(number, (0, 4, 4, 4, 12, 12, 30), pe=pe, line=f"kernel.py:{line}")
        timed.op(number, number, 0, "math", 12, 12, 30)
    (launch,) = where(timed.log("transfers")).launches
    assert [view.pes for view in launch.pes] == [["pe0", "pe1"], ["pe2"]]
    assert {row.line for row in launch.pes[1].rows} == {"kernel.py:2"}
    assert launch.ties == 1
