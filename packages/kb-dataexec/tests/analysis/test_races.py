"""Races of programs: planted ones, those that atomics may put in order, and all against a comparison byte by byte."""

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from dataexec_gemm_log import HBM, TCM, LogBuilder, move
from dataexec_tables import table_of
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_dataexec.analysis import Element, Programs, RaceReport, RaceSearch, sanitize
from kb_dataexec.analysis.races import race_search
from kb_dataexec.analysis.races.message_order import MessageOrder
from kb_dataexec.log.table_dtypes import TABLE_DTYPES
from kb_messages import LOG_TABLES, CallCause, DType, OpKind, Role, SyncReason

READ, WRITE, ADD, EXCHANGE = "read", "write", "add", "exchange"
PES = 3


class RaceLog(LogBuilder):
    """A log of one launch, whose program n runs on PE n modulo PES, one program after the other on a PE."""

    def __init__(self, n_programs, launches=1):
        super().__init__()
        self.commands, self.n_programs, self.launches = [], n_programs, launches
        for pe in range(PES):
            self.writer.intern(f"pe{pe}")

    def act(self, program, what, line, offset, nbytes=4, rows=1, stride=None, owner=HBM, launch=0):
        """A command of *program* that reads, writes, adds to or exchanges a rectangle of memory."""
        seq, pe = len(self.commands), program % PES
        far = (owner, offset, rows, nbytes, stride or nbytes, DType.U8)
        near = (TCM, 0, rows, nbytes, nbytes, DType.U8)
        at = 1000 * (launch * self.n_programs + program) + 2 * len(
            [each for each in self.commands if each[0] == program]
        )
        options = {"component": f"pe{pe}.dma", "line": f"k.py:{line}", "span_ps": (at, at + 1)}
        if what in (READ, EXCHANGE):
            self.add((seq, 0, 0), OpKind.MEMORY, "dma_read", [move(Role.SRC, *far), move(Role.DST, *near)], **options)
        if what == WRITE:
            self.add((seq, 0, 0), OpKind.MEMORY, "dma_write", [move(Role.SRC, *near), move(Role.DST, *far)], **options)
        if what in (ADD, EXCHANGE):
            rows_of = [move(Role.IN, *far), move(Role.IN, *near), move(Role.OUT, *far)]
            self.add((seq, 0, 1), OpKind.MATH, "dma_write", rows_of, **options)
        self.commands.append((program, seq, pe, at))

    def log(self):
        commands = np.zeros(len(self.commands), TABLE_DTYPES["commands"])
        for row, (_, seq, pe, at) in zip(commands, self.commands, strict=True):
            row["command_seq"], row["pe"] = seq, pe
            for name in LOG_TABLES["commands"].ascending:
                row[name] = at
            row["after"] = CallCause.SUBMISSION
        kernels = np.zeros(self.n_programs * self.launches, TABLE_DTYPES["kernels"])
        for number, row in enumerate(kernels):
            row["launch"], row["pe"] = number // self.n_programs, number % self.n_programs % PES
            row["t_start_ps"], row["t_end_ps"] = 1000 * number, 1000 * number + 999
        log = super().log()
        log.tables = {"commands": commands, "kernels": kernels}
        self.log = lambda: log  # the writer writes once
        return log


def report_of(builder, thorough=False, **options):
    search, log = RaceSearch(thorough), builder.log()
    search.look(log)
    return search.report(log, **options)


def lines_of(found):
    return [(each.hazard.value, each.first.line, each.second.line) for each in found]


def test_a_race_names_both_programs_the_element_and_the_lines():
    builder = RaceLog(8)
    for program in range(8):
        builder.act(program, READ, 5, 64 * program, 64)
        builder.act(program, WRITE, 7, 1024 + 60 * program, 64)
    found = report_of(builder, names=lambda launch, owner, offset: Element(tensor="y", index=(offset - 1024,)))
    (race,) = found.races
    assert (race.hazard.value, race.first.program.ids, race.second.program.ids) == ("write race", (0,), (1,))
    assert (race.element, race.offset, race.count, race.pes) == (Element(tensor="y", index=(60,)), 1024 + 60, 8, 3)
    assert str(race) == (
        "write race: k.py:7 (dma_write, program 1, pe1.dma) overwrites from 1.002 ns on what k.py:7 (dma_write, "
        "program 0, pe0.dma) writes until 0.003 ns, at y[60], sip0.die0.hbm0 + 0x43c; 8 programs on 3 PEs take part; "
        "nothing puts these two programs in order: let one of them do both, launch twice, or send a message or a "
        "signal, where the language has them"
    )
    assert sanitize(builder.log())[0].hazard == race.hazard


def test_programs_of_one_pe_race_too():
    builder = RaceLog(4)
    builder.act(0, WRITE, 5, 0)
    builder.act(3, READ, 7, 0)  # on the PE of program 0, and behind it
    (race,) = report_of(builder, grids=[(2, 2)]).races
    assert lines_of([race]) == [("read race", "k.py:5", "k.py:7")]
    assert (str(race.first.program), str(race.second.program)) == ("program (0, 0) on pe0", "program (1, 1) on pe0")


def test_programs_without_a_grid_have_the_order_of_their_pes():
    builder = RaceLog(3)
    builder.act(0, WRITE, 5, 0)
    builder.act(2, WRITE, 5, 0)
    (race,) = report_of(builder, grids=[("pe2", "pe1", "pe0")]).races
    assert [str(each.program) for each in (race.first, race.second)] == ["program 2 on pe0", "program 0 on pe2"]
    (race,) = report_of(builder).races
    assert [str(each.program) for each in (race.first, race.second)] == ["pe0", "pe2"]


def test_launches_and_one_program_are_in_order():
    builder = RaceLog(2, launches=2)
    for launch in range(2):
        builder.act(0, WRITE, 5, 0, launch=launch)
    for _ in range(2):
        builder.act(1, WRITE, 6, 64)
    assert report_of(builder).races == []


def test_tiles_side_by_side_are_apart_and_one_column_more_is_a_race(monkeypatch):
    monkeypatch.setattr(race_search, "_FEW_CONTESTED", 0)
    monkeypatch.setattr(race_search, "_RECORDS_FOR_ONE", 7)  # none for six accesses, so that a proof has to do
    for width, hazards in ((8, []), (9, [("write race", "k.py:5", "k.py:5")])):
        builder = RaceLog(6)
        for program in range(6):  # 2 x 3 tiles of 4 rows in a matrix of 24 bytes a row
            builder.act(program, WRITE, 5, program // 3 * 96 + program % 3 * 8, width, 4, 24)
        found = report_of(builder)
        assert (bool(found.left_out), lines_of(report_of(builder, thorough=True).races)) == (bool(hazards), hazards)


@pytest.mark.parametrize("what", [ADD, EXCHANGE])
def test_atomics_do_not_race_with_each_other(what):
    builder = RaceLog(5)
    for program in range(5):
        builder.act(program, what, 5, 0)
    assert report_of(builder) == report_of(builder, thorough=True)
    assert (report_of(builder).races, report_of(builder).notes) == ([], [])


def test_a_store_beside_atomics_is_a_race_and_a_load_of_the_sum_too():
    builder = RaceLog(3)
    builder.act(0, WRITE, 4, 0, 64)
    for program in range(3):
        builder.act(program, ADD, 5, 0, 64)
    builder.act(2, READ, 6, 0, 64)
    assert lines_of(report_of(builder).races) == [
        ("write race", "k.py:4", "k.py:5"),
        ("read race", "k.py:4", "k.py:6"),
        ("read race", "k.py:5", "k.py:6"),
    ]


def locked(programs, builder=None):
    """Each program takes a lock, adds to one element, and gives the lock back by an atomic."""
    builder = builder or RaceLog(len(programs) + 1)
    for program in programs:
        builder.act(program, EXCHANGE, 4, 512)
        builder.act(program, READ, 5, 0)
        builder.act(program, WRITE, 6, 0)
        builder.act(program, EXCHANGE, 7, 512)
    return builder


def test_a_lock_is_not_decided_and_a_program_without_it_races():
    found = report_of(locked([0, 1, 2]))
    assert found.races == []
    assert found.undecided == (
        "races not decided: k.py:5 and k.py:6 at sip0.die0.hbm0 + 0x0, k.py:6 at sip0.die0.hbm0 + 0x0; atomics or "
        "polls may put these accesses in order"
    )
    builder = locked([0, 1, 2])
    builder.act(3, WRITE, 9, 0)
    assert lines_of(report_of(builder).races) == [
        ("overwrite race", "k.py:5", "k.py:9"),
        ("write race", "k.py:6", "k.py:9"),
    ]


def test_the_last_program_that_counts_up_is_not_decided():
    builder = RaceLog(3)
    for program in range(3):
        builder.act(program, WRITE, 5, 64 * program, 64)
        builder.act(program, EXCHANGE, 6, 512)
    builder.act(2, READ, 7, 0, 192)
    found = report_of(builder)
    assert (found.races, "k.py:5 and k.py:7 at" in found.undecided) == ([], True)


def test_an_atomic_without_a_use_of_its_value_orders_nothing():
    builder = RaceLog(2)
    for program in range(2):
        builder.act(program, ADD, 5, 512)
        builder.act(program, WRITE, 6, 0)
    assert lines_of(report_of(builder).races) == [("write race", "k.py:6", "k.py:6")]


def test_a_flag_that_is_polled_by_loads_is_not_decided():
    builder = RaceLog(2)
    builder.act(0, WRITE, 5, 0, 64)
    builder.act(0, WRITE, 6, 512)
    for _ in range(3):
        builder.act(1, READ, 7, 512)
    builder.act(1, READ, 8, 0, 64)
    found = report_of(builder)
    assert (found.races, "k.py:5 and k.py:8" in found.undecided) == ([], True)


def test_the_tcm_of_another_pe_is_shared_and_ones_own_is_not():
    for others, lines in (((), []), ((1,), [("write race", "k.py:5", "k.py:5")])):
        builder = RaceLog(4)
        for program in (0, 3, *others):  # programs 0 and 3 run on one PE
            builder.act(program, WRITE, 5, 64, owner=TCM)
        for memories in ({}, {TCM: "pe0.tcm"}):
            assert lines_of(report_of(builder, memories=memories).races) == lines


def test_too_many_accesses_are_left_out_by_their_number(monkeypatch):
    monkeypatch.setattr(race_search, "_FEW_CONTESTED", 3)
    builder = RaceLog(4)
    for program in range(4):
        builder.act(program, WRITE, 5, 0)
    found = report_of(builder)
    assert found.races == []
    assert found.notes == ["races were not looked for: 4 accesses of 4 programs lie close together; --sanitize looks"]
    assert len(report_of(builder, thorough=True).races) == 1


def test_a_record_of_many_rectangles_allows_as_many_more(monkeypatch):
    monkeypatch.setattr(race_search, "_FEW_CONTESTED", 3)
    builder = RaceLog(2)
    near = move(Role.SRC, TCM, 0, 1, 4, 4, DType.U8)
    for program in range(2):  # each program scatters three elements, of which one meets one of the other program
        pieces = [move(Role.DST, HBM, at, 1, 4, 4, DType.U8) for at in (16 * program, 16, 64 + 16 * program)]
        scattered = [row for piece in pieces for row in (near, piece)]
        options = {"component": f"pe{program}.dma", "line": "k.py:5"}
        builder.add((program, 0, 0), OpKind.MEMORY, "dma_write", scattered, **options)
        builder.commands.append((program, program, program, 1000 * program))
    assert lines_of(report_of(builder).races) == [("write race", "k.py:5", "k.py:5")]


def test_a_log_without_programs_says_that_nothing_was_looked_for():
    log = RaceLog(2).log()
    log.tables = {}
    search = RaceSearch()
    search.look(log)
    assert search.report(log).notes == ["races were not looked for: no table of programs; --sanitize looks"]


def test_a_chunk_whose_tables_come_with_a_later_chunk_hides_no_programs():
    log = RaceLog(2).log()
    search = RaceSearch()
    early = RaceLog(2).log()
    early.tables = {}
    search.look(early)
    search.look(log)
    assert search.has_programs


def test_a_call_in_the_picosecond_of_the_next_begin_belongs_to_the_program_before():
    builder = RaceLog(4)
    for program in (0, 0, 3, 3):
        builder.act(program, READ, 5, 0)
    log = builder.log()
    log.tables["commands"]["t_call_ps"] = [0, 3000, 3000, 3000]  # the kernel of program 3 begins at 3000 on PE 0
    log.tables["kernels"]["t_end_ps"][0] = 3500
    log.tables["commands"]["after"] = [CallCause.START, CallCause.SUBMISSION, CallCause.START, CallCause.SUBMISSION]
    assert Programs.of(log).of_commands(np.arange(4)).tolist() == [0, 0, 3, 3]


PE_NUMBERS = {f"pe{pe}": pe for pe in range(PES)}


def synced(builder, seen, signals):
    """The log of *builder*, one program a PE, with a signal (from, to) before command *at* for each of *signals*.

    Returns the log, and which accesses of *seen* are in order.
    """
    log = builder.log()
    rows = [(n, src, dst, n % 3, 1, 10 * n, 10 * n, 10 * n + 1, 0, at) for n, (src, dst, at) in enumerate(signals)]
    waits = [(dst, 0, SyncReason.SIGNAL, 0, 10 * n + 1, n, at) for n, (_, dst, at) in enumerate(signals)]
    log.tables["signals"] = table_of("signals", rows)
    log.tables["waits"] = table_of("waits", waits)
    order = MessageOrder(log.tables, log.strings, PE_NUMBERS, lambda seqs: seqs)
    seqs = np.arange(len(seen))
    pes = np.array([each.program for each in seen], np.int64)
    first, second = np.triu_indices(len(seen), 1)
    ordered = order.ordered(pes[first], seqs[first], pes[second], seqs[second])
    return log, set(zip(first[ordered].tolist(), second[ordered].tolist(), strict=True))


accesses = st.tuples(
    st.integers(0, 4),
    st.sampled_from([READ, WRITE, ADD]),
    st.integers(1, 3),
    st.integers(0, 40),
    st.integers(1, 6),
    st.integers(1, 3),
    st.sampled_from([8, 11]),
)


@settings(max_examples=examples(150))
@given(st.lists(accesses, max_size=10))
def test_lines_that_race_are_those_of_a_comparison_byte_by_byte(made):
    builder, seen = RaceLog(5), []
    for program, what, line, offset, nbytes, rows, stride in sorted(made, key=lambda each: each[0]):
        builder.act(program, what, line, offset, nbytes, rows, stride)
        touched = {offset + row * stride + at for row in range(rows) for at in range(nbytes)}
        seen.append(SimpleNamespace(program=program, what=what, line=line, touched=touched))
    expected = set()
    for one, two in combinations(seen, 2):
        both = {one.what, two.what}
        if one.program != two.program and one.touched & two.touched and both not in ({READ}, {ADD}):
            expected.add((READ in both, *sorted((f"k.py:{one.line}", f"k.py:{two.line}"))))
    # A load of the sum of atomics is decided, because the atomics bring no value; small loads of it may be polls.
    found = report_of(builder, thorough=True)
    pairs = {(each.hazard != "write race", *sorted((each.first.line, each.second.line))) for each in found.races}
    assert pairs <= expected
    if not found.undecided:
        assert pairs == expected


waits = st.tuples(st.integers(0, PES - 1), st.integers(0, PES - 1), st.integers(0, 12))


@settings(max_examples=examples(150))
@given(st.lists(accesses, max_size=12), st.lists(waits, max_size=6))
def test_lines_that_race_beside_signals_are_those_of_pairs_in_no_order(made, signalled):
    builder, seen = RaceLog(PES), []
    for program, what, line, offset, nbytes, rows, stride in made:
        builder.act(program % PES, what, line, offset, nbytes, rows, stride)
        touched = {offset + row * stride + at for row in range(rows) for at in range(nbytes)}
        seen.append(SimpleNamespace(program=program % PES, what=what, line=line, touched=touched))
    if not seen:
        return
    signals = sorted((each for each in signalled if each[0] != each[1]), key=lambda each: each[2])
    log, in_order = synced(builder, seen, signals)
    expected = set()
    for (at, one), (number, two) in combinations(enumerate(seen), 2):
        both = {one.what, two.what}
        meet = one.program != two.program and one.touched & two.touched and both not in ({READ}, {ADD})
        if meet and (at, number) not in in_order:
            expected.add((READ in both, *sorted((f"k.py:{one.line}", f"k.py:{two.line}"))))
    search = RaceSearch(thorough=True)
    search.look(log)
    found = search.report(log)
    pairs = {(each.hazard != "write race", *sorted((each.first.line, each.second.line))) for each in found.races}
    assert pairs <= expected
    if not found.undecided:
        assert pairs == expected


def slot_log(reads):
    """The log of two messages from program 0 to 1 in one slot, with *reads* of it: (program, line, before command)."""
    builder, at = RaceLog(3), {}
    made = [(0, WRITE, 5), (1, READ, 6), (1, READ, 7), (0, WRITE, 5), (1, READ, 6)]
    for number, (program, what, line) in enumerate(made):
        for other, other_line, before in reads:
            if before == number:
                builder.act(other, READ, other_line, 512, 16, owner=TCM)
        at[number] = len(builder.commands)
        builder.act(program, what, line, 512, 16, owner=TCM)
    log = builder.log()
    sends = np.zeros(2, TABLE_DTYPES["sends"])
    sends["dst"], sends["nbytes"] = 1, 16
    sends["command_seq"], sends["take_seq"], sends["free_seq"] = [0, at[3]], [1, at[3] + 1], [at[2] + 1, at[4] + 1]
    for name in LOG_TABLES["sends"].ascending:
        sends[name] = [10, 20]
    log.tables["sends"] = sends
    return log


def races_in_slots(log, whole=True):
    search = RaceSearch()
    search.look(log)
    return search.report(log if whole else None, memories={TCM: "pe1.tcm"})


def test_accesses_to_the_slot_of_a_message_are_in_order_without_a_comparison(monkeypatch):
    monkeypatch.setattr(race_search, "_FEW_CONTESTED", 0)
    assert races_in_slots(slot_log([])) == RaceReport(races=[])


@pytest.mark.parametrize(
    ("read", "line"),
    [((2, 9, 1), ("read race", "k.py:5", "k.py:9")), ((1, 9, 3), ("overwrite race", "k.py:9", "k.py:5"))],
)
def test_a_read_of_the_slot_of_a_message_by_others_or_after_its_release_is_a_race(read, line):
    assert line in lines_of(races_in_slots(slot_log([read])).races)
    assert all("k.py:9" in found for found in map(str, races_in_slots(slot_log([read])).races))


@pytest.mark.parametrize(
    ("program", "line", "delta_ps", "hazards"),
    [(1, 9, 0, []), (1, 9, 1, ["overwrite race"]), (2, 9, 0, ["overwrite race"])],
)
def test_what_the_receiver_did_with_the_bytes_before_they_were_a_slot_is_in_order(program, line, delta_ps, hazards):
    """The access ends when the message begins to fill the slot, *delta_ps* later; or another program makes it."""
    log = slot_log([(program, line, 0)])
    log.tables["sends"]["command_seq"][0], log.tables["sends"]["take_seq"][0] = 1, 2
    fill = np.flatnonzero(log.ops["command_seq"] == 1)[0]
    log.ops["t_end_ps"][log.ops["command_seq"] == 0] = log.ops["t_start_ps"][fill] + delta_ps
    assert [each.hazard for each in races_in_slots(log).races] == hazards


def test_a_log_that_is_read_in_parts_needs_no_look_at_the_slots_of_messages():
    log = slot_log([])
    assert races_in_slots(log, whole=False) == RaceReport(races=[])
    del log.tables["sends"]
    assert races_in_slots(log, whole=False).left_out
