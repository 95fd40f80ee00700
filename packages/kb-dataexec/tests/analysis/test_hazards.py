from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from dataexec_gemm_log import HBM, LogBuilder, move
from dataexec_tables import table_of
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_dataexec.analysis.dependencies import dependencies_in
from kb_dataexec.analysis.hazards import HOST, Hazard, hazards, pe_of
from kb_dataexec.log.schedule import Schedule
from kb_messages import DType, LogError, OpKind, Role

WINDOWS = [(0, 12), (12, 24)]

operands = st.tuples(
    st.sampled_from([Role.SRC, Role.DST]),
    st.integers(0, 12),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(4, 6),
    st.integers(0, 1),
)
records = st.tuples(
    st.integers(0, 1),
    st.sampled_from(["pe0.dma", "pe0.gemm", "pe1.dma", HOST]),
    st.integers(0, 20),
    st.integers(0, 6),
    st.lists(operands, min_size=1, max_size=2),
)
logs = st.lists(records, max_size=9)


def build(made):
    """(schedule, facts): a record is (steps of command_seq, component, start, length, operands)."""
    builder, facts, command = LogBuilder(), [], 0
    for number, (step, component, start, length, touched) in enumerate(made):
        command += step
        rows = [
            move(role, HBM, offset, n, cols, stride, DType.U8, release * (role is Role.SRC))
            for role, offset, n, cols, stride, release in touched
        ]
        span = (start, start + length)
        builder.add((command, number, 0), OpKind.MEMORY, "copy", rows, component=component, span_ps=span)
        reads, writes = set(), set()
        for role, offset, n, cols, stride, release in touched:
            held = {offset + row * stride + at for row in range(n) for at in range(cols)}
            (reads if role is Role.SRC else writes).update(held)
            writes |= held if role is Role.SRC and release else set()
        facts.append((command, component, *span, reads, writes))
    if not made:
        builder.add((0, 0, 0), OpKind.MEMORY, "copy", [])
        facts.append((0, "pe0.dma", 0, 1, set(), set()))
    return Schedule(builder.log()), facts


def follows(facts):
    """(earlier, later) -> (reads, writes): by every byte that one of them writes and nobody in between does."""
    found = {}
    for one, (*_, reads, writes) in enumerate(facts):
        between = set()
        for two, (*_, later_reads, later_writes) in enumerate(facts[one + 1 :], start=one + 1):
            raw, waw, war = writes & later_reads, writes & later_writes, reads & later_writes
            if (raw | waw | war) - between:
                found[one, two] = bool(raw - between), bool(waw - between)
            between |= later_writes
    return found


def expected(facts, windows):
    """Hazards by definition, pair by pair."""
    found = {}
    for (one, two), (reads, writes) in follows(facts).items():
        command, component, _, end, *_ = facts[one]
        later_command, later_component, start, later_end, *_ = facts[two]
        launch, later_launch = (sum(stop < at for _, stop in windows) for at in (end, later_end))
        pes = {pe_of(component), pe_of(later_component)}
        done = max(each[3] for each in facts if each[0] == command) if reads and command != later_command else end
        if len(pes) == 2 and HOST not in pes and launch == later_launch:
            kind = Hazard.WRITE_RACE if writes else Hazard.READ_RACE if reads else Hazard.OVERWRITE_RACE
        elif done > start:
            early = (Hazard.READ_TOO_EARLY, Hazard.WRITTEN_OUT_OF_ORDER, Hazard.OVERWRITTEN_TOO_EARLY)
            kind = early[0] if reads else early[1] if writes else early[2]
        else:
            continue
        found[one, two] = kind, done, done - start
    return found


@settings(max_examples=examples(300))
@given(logs, st.sampled_from([[], WINDOWS]))
def test_hazards_are_those_of_the_definition_pair_by_pair(made, windows):
    schedule, facts = build(made)
    found = hazards(schedule, dependencies_in(schedule), windows)
    rows = zip(*(column.tolist() for column in found[:-1]), strict=True)
    got = {(one, two): (list(Hazard)[code], done, early) for one, two, code, done, early in rows}
    assert got == expected(facts, windows)


@settings(max_examples=examples(300))
@given(logs)
def test_where_nothing_is_found_any_two_records_that_share_a_byte_are_in_order(made):
    schedule, facts = build(made)
    if len(hazards(schedule, dependencies_in(schedule), WINDOWS).first):
        return
    for (_, _, _, end, reads, writes), (_, _, start, _, later_reads, later_writes) in combinations(facts, 2):
        if writes & (later_reads | later_writes) or reads & later_writes:
            assert end <= start


def pair(first, second, windows=()):
    """The hazards between two records: (command_seq, component, (start, end), role) of one byte each."""
    builder = LogBuilder()
    for number, (command, component, span, role) in enumerate((first, second)):
        row = move(role, HBM, 0, 1, 1, 1, DType.U8)
        builder.add((command, number, 0), OpKind.MEMORY, "copy", [row], component=component, span_ps=span)
    schedule = Schedule(builder.log())
    found = hazards(schedule, dependencies_in(schedule), windows)
    return [list(Hazard)[code] for code in found.code.tolist()]


WRITE, READ = Role.DST, Role.SRC


@pytest.mark.parametrize(
    ("roles", "hazard"),
    [
        ((WRITE, READ), Hazard.READ_TOO_EARLY),
        ((READ, WRITE), Hazard.OVERWRITTEN_TOO_EARLY),
        ((WRITE, WRITE), Hazard.WRITTEN_OUT_OF_ORDER),
        ((READ, READ), None),
    ],
)
@pytest.mark.parametrize(
    ("later", "is_early"),
    # The first runs from 100 to 200: the second may begin at 200, and not a picosecond before.
    [((199, 250), True), ((200, 250), False), ((0, 50), True), ((100, 100), True), ((200, 200), False)],
)
def test_a_record_begins_when_what_it_follows_has_ended(roles, hazard, later, is_early):
    found = pair((0, "pe0.dma", (100, 200), roles[0]), (1, "pe0.gemm", later, roles[1]))
    assert found == ([hazard] if is_early and hazard else [])


@pytest.mark.parametrize(
    ("roles", "hazard"),
    [
        ((WRITE, READ), Hazard.READ_RACE),
        ((READ, WRITE), Hazard.OVERWRITE_RACE),
        ((WRITE, WRITE), Hazard.WRITE_RACE),
    ],
)
@pytest.mark.parametrize("later", [(150, 160), (900, 950)])
def test_two_pes_of_a_launch_race_whatever_the_times(roles, hazard, later):
    first, second = (0, "pe0.dma", (100, 200), roles[0]), (1, "pe1.dma", later, roles[1])
    assert pair(first, second) == pair(first, second, [(0, 1000)]) == [hazard]


def test_two_launches_are_in_order():
    first, second = (0, "pe0.dma", (100, 200), WRITE), (1, "pe1.dma", (200, 300), WRITE)
    assert pair(first, second, [(0, 200), (200, 300)]) == []
    assert pair(first, second, [(200, 300), (0, 199)]) == [Hazard.WRITE_RACE]


def test_a_record_that_takes_no_time_at_a_launch_s_end_belongs_to_it():
    first, second = (0, "pe0.dma", (200, 200), WRITE), (1, "pe1.dma", (200, 300), WRITE)
    assert pair(first, second, [(0, 200), (200, 300)]) == []


def test_the_host_races_with_nobody_but_may_be_early():
    assert pair((0, "pe0.dma", (100, 200), WRITE), (1, HOST, (200, 200), WRITE)) == []
    assert pair((0, HOST, (50, 50), WRITE), (1, "pe0.dma", (50, 200), READ)) == []
    assert pair((0, "pe0.dma", (100, 200), READ), (1, HOST, (150, 150), WRITE)) == [Hazard.OVERWRITTEN_TOO_EARLY]


def test_launches_that_overlap_are_refused():
    record = (0, "pe0.dma", (0, 10), WRITE)
    with pytest.raises(LogError, match=r"^launches: got one from 90 to 200 ps, needs it to begin at 100 ps or later$"):
        pair(record, record, [(90, 200), (0, 100)])


def two_tiles(read_at, read_command=1):
    """Command 0 writes byte 0 from 0 to 10 and byte 1 from 10 to 20; then byte 0 is read."""
    builder = LogBuilder()
    for tile in (0, 1):
        row = move(WRITE, HBM, tile, 1, 1, 1, DType.U8)
        builder.add((0, tile, 0), OpKind.MEMORY, "dma_write", [row], span_ps=(10 * tile, 10 * tile + 10))
    row = move(READ, HBM, 0, 1, 1, 1, DType.U8)
    builder.add((read_command, 2, 0), OpKind.MEMORY, "dma_read", [row], span_ps=(read_at, read_at + 5))
    schedule = Schedule(builder.log())
    return hazards(schedule, dependencies_in(schedule))


def test_a_reader_waits_for_all_of_the_command_that_produces():
    found = two_tiles(read_at=15)
    assert (found.done_ps.tolist(), found.early_ps.tolist()) == ([20], [5])
    assert len(two_tiles(read_at=20).first) == 0


def test_within_a_command_a_reader_waits_for_what_it_reads_alone():
    assert len(two_tiles(read_at=10, read_command=0).first) == 0
    assert two_tiles(read_at=9, read_command=0).early_ps.tolist() == [1]


def test_an_empty_log_has_no_hazards():
    schedule = Schedule(LogBuilder().log())
    assert Counter(hazards(schedule, dependencies_in(schedule)).code.tolist()) == Counter()
    assert np.array_equal(hazards(schedule, dependencies_in(schedule), WINDOWS).pe, [])


@pytest.mark.parametrize(("begins_ps", "early_ps"), [(500, None), (499, 1), (100, 400)])
def test_a_receiver_may_read_a_message_from_the_doorbell_on(begins_ps, early_ps):
    """The send command ends with its acknowledgement at 900 ps, and the doorbell rang at 500 ps."""
    builder = LogBuilder()
    for text in ("pe1", "tag 0", "k.py:9"):
        builder.writer.intern(text)
    for number, (role, span) in enumerate([(Role.DST, (0, 900)), (Role.SRC, (begins_ps, 1000))]):
        row = move(role, HBM, 0, 1, 16, 16, DType.U8)
        builder.add((number, 0, 0), OpKind.MEMORY, "dma", [row], component=f"pe{number}.dma", span_ps=span)
    log = builder.log()
    log.tables = {"sends": table_of("sends", [(0, 0, 1, 0, 16, 0, 500, 500, 1000, 1000, 2, 1, 2)])}
    schedule = Schedule(log)
    found = hazards(schedule, dependencies_in(schedule))
    missing = [] if early_ps is None else [(0, 1, list(Hazard).index(Hazard.READ_TOO_EARLY), early_ps)]
    assert list(zip(found.first, found.second, found.code, found.early_ps, strict=True)) == missing
    del log.tables["sends"]
    schedule = Schedule(log)
    (code,) = hazards(schedule, dependencies_in(schedule)).code
    assert code == list(Hazard).index(Hazard.READ_RACE)
