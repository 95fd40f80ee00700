"""The auxiliary tables of the op log, by hand. Chip and arithmetic are those of test_pipeline.py.

Every run of `simulate` also compares the tables with the trace (`components_trace_laws.check_tables`).
"""

import numpy as np
import pytest
from components_trace_laws import rows_of
from components_two_cubes import HOST

from kb_dataexec import MemoryLogWriter
from kb_engine import Engine, Host
from kb_messages import CallCause, MessageKind

READ, FETCH, GEMM = 44240, 6120, 46000
BOTH = 2 * READ
SCOREBOARD = (("issue_ns: 3}", "issue_ns: 3, issue: scoreboard}"),)
ONE_BUFFER = ("input_kib: 64", "input_kib: 1")
F16 = (16, 16, "f16")
ONE_TILE = (16, 16, 16)
TIMES = ("t_call_ps", "t_issued_ps", "t_submitted_ps", "t_taken_ps", "t_decoded_ps", "t_fed_ps", "t_done_ps")
START, SUBMISSION, COMPLETION = CallCause.START, CallCause.SUBMISSION, CallCause.COMPLETION


def commands(log):
    return rows_of(log, "commands")


def times(log):
    return [tuple(row[name] for name in TIMES) for row in commands(log)]


def causes(log):
    return [(row["after"], row["after_seq"]) for row in commands(log)]


def operands(log):
    return [(row["operand_seq"], row["operand_ps"]) for row in commands(log)]


def two_loads(tl, a, b):
    x, y = tl.load(a), tl.load(b)
    assert x.place.address != y.place.address


def test_one_load_is_called_issued_taken_decoded_fed_and_done(simulate):
    def kernel(tl, a):
        tl.load(a)

    log = simulate(kernel, F16).log
    (row,) = commands(log)
    texts = {name: log.strings[row.pop(name)] for name in ("pe", "line", "name")}
    line = kernel.__code__.co_firstlineno + 1
    assert texts == {"pe": "sip0.cube0.pe0", "line": f"test_run_tables.py:{line}", "name": "transfer"}
    assert row == {
        "command_seq": 0, "n_tiles": 1, "first_op_id": 0, "n_ops": 1,
        "t_call_ps": 0, "t_issued_ps": 3000, "t_submitted_ps": 3000, "t_taken_ps": 3000, "t_decoded_ps": 7000,
        "t_fed_ps": 7000, "t_done_ps": 7000 + READ,
        "after": START, "after_seq": -1, "operand_seq": -1, "operand_ps": 0,
    }  # fmt: skip
    assert [len(log.table(name)) for name in ("dispatches", "kernels", "messages")] == [0, 1, 0]


def test_a_blocking_call_follows_the_completion_of_the_one_before(simulate):
    log = simulate(two_loads, F16, F16).log
    first = (0, 3000, 3000, 3000, 7000, 7000, 51240)
    assert times(log) == [first, tuple(51240 + each for each in first)]
    assert causes(log) == [(START, -1), (COMPLETION, 0)]


def test_a_scoreboards_calls_follow_submissions_and_its_commands_operands(simulate):
    def kernel(tl, a, b, c):
        tl.store(c, tl.dot(tl.load(a), tl.load(b)))

    log = simulate(kernel, F16, F16, (16, 16, "f32"), changes=SCOREBOARD).log
    dot = 95480 + 4000 + FETCH + GEMM + FETCH  # the result is 1024 bytes, as both operands are
    store = dot + 4000 + 2000 + 1000 + 1024 * 20 + 30000 + 1000
    assert times(log) == [
        (0, 3000, 3000, 3000, 7000, 7000, 51240),
        (3000, 6000, 6000, 7000, 11000, 11000, 95480),
        (6000, 95480, 95480, 95480, 99480, 99480, dot),
        (95480, dot, dot, dot, dot + 4000, dot + 4000, store),
    ]
    assert causes(log) == [(START, -1), (SUBMISSION, 0), (SUBMISSION, 1), (SUBMISSION, 2)]
    # The dot waits for load 0 until 51240, and then for load 1.
    assert operands(log) == [(-1, 0), (-1, 0), (1, 95480 - 9000), (2, dot - 98480)]


def test_a_composite_that_is_waited_for_lets_the_next_call_go_by_its_completion(simulate):
    def kernel(tl, a, b, c):
        tl.composite("gemm", a, b, out=c, tile=ONE_TILE)
        tl.wait(tl.composite("gemm", a, b, out=c, tile=ONE_TILE))
        tl.composite("gemm", a, b, out=c, tile=ONE_TILE)

    log = simulate(kernel, F16, F16, F16).log
    rows = commands(log)
    assert causes(log) == [(START, -1), (SUBMISSION, 0), (COMPLETION, 1)]
    assert [(row["n_tiles"], row["first_op_id"], row["n_ops"]) for row in rows] == [(1, 0, 6), (1, 6, 6), (1, 12, 6)]
    assert [row["t_fed_ps"] for row in rows[:2]] == [7000, 11000]  # submitted at 6000, taken at 7000


def test_commands_wait_for_room_in_the_submission_queue(simulate):
    def kernel(tl, a, b, c):
        for _ in range(4):
            tl.composite("gemm", a, b, out=c, tile=ONE_TILE)

    slow = (("submission_depth: 8", "submission_depth: 1"), ("command_ns: 4", "command_ns: 10"))
    log = simulate(kernel, F16, F16, F16, changes=slow).log
    assert [each[1:4] for each in times(log)] == [
        (3000, 3000, 3000), (6000, 6000, 13000), (9000, 13000, 23000), (16000, 23000, 33000),
    ]  # fmt: skip


def four_tiles(tl, a, b, c):
    tl.composite("gemm", a, b, out=c, tile=ONE_TILE)


FOUR_TILES = (64, 16, "f16"), F16, (64, 16, "f16")


def test_a_tile_that_waits_for_its_buffer_has_a_row(simulate):
    # 1 KiB holds the A and B of one tile, so each tile has its buffer when the one before is read and fetched.
    log = simulate(four_tiles, *FOUR_TILES, changes=(ONE_BUFFER,)).log
    step = BOTH + FETCH
    assert log.table("dispatches").tolist() == [
        (6 * tile, 7000 + (tile - 1) * step, 7000 + tile * step) for tile in (1, 2, 3)
    ]
    assert len(simulate(four_tiles, *FOUR_TILES).log.table("dispatches")) == 0


def test_a_tile_that_waits_for_the_fetches_before_it_has_a_row(simulate):
    def kernel(tl, a, b, c, d):
        x, y = tl.load(a[0:16, 0:16]), tl.load(b)
        tl.composite("gemm", a, b, out=c, tile=ONE_TILE)
        tl.composite("gemm", x, y, out=d, tile=ONE_TILE)

    log = simulate(kernel, (32, 16, "f16"), F16, (32, 16, "f16"), F16).log
    # Command 3 is fed at 113480, and the second tile of command 2 is fetched until 292560. Ops 0 and 1 are the loads,
    # 2 to 13 the two tiles of command 2.
    assert log.table("dispatches").tolist() == [(14, 292560, 292560)]


def test_eight_pes_that_contend_for_one_slice_wait_for_their_own_buffers(simulate):
    changes = (ONE_BUFFER, ("pe_layout: {count: 1}", "pe_layout: {count: 8}"))
    log = simulate(four_tiles, *FOUR_TILES, changes=changes, pes=tuple(range(8))).log
    rows, ops = log.table("dispatches"), {record.op_id: record for record in log.records()}
    assert len(rows) == 8 * 3
    for op_id, in_order, claimed in rows.tolist():
        before, own = ops[op_id - 6], ops[op_id]  # the same stage of the tile before and of this one
        assert (in_order, claimed) == (before.t_ready_ps, own.t_ready_ps)
        assert own.component == before.component
    kernels = rows_of(log, "kernels")
    assert sorted(log.strings[row["pe"]] for row in kernels) == [f"sip0.cube0.pe{number}" for number in range(8)]
    ends = {row["pe"]: row["t_done_ps"] for row in commands(log)}
    assert {row["pe"]: row["t_end_ps"] for row in kernels} == ends


def test_two_launches_have_a_row_each_for_every_program(chip_host):
    writer = MemoryLogWriter()
    host = chip_host(*SCOREBOARD, writer=writer)
    a, b = (host.tensor(name, np.zeros((16, 16), np.float16), "f16") for name in "ab")
    for _ in range(2):
        host.launch(two_loads, a, b)
    log = host.engine.close_log()
    assert log.table("kernels").tolist() == [(0, 0, 0, 0, 0, 95480), (1, 0, 95480, 95480, 95480, 190960)]
    assert causes(log) == [(START, -1), (SUBMISSION, 0), (START, -1), (SUBMISSION, 2)]
    assert len(log.table("messages")) == 0  # there is no host that sends any


def test_a_launch_is_followed_hop_by_hop_from_the_host_to_the_pes_and_back(chip):
    """The way of test_launch_path.py: 23000 from the host to io_cpu, 10000 and 15000 on to the m_cpus, 2000 to PEs."""
    writer = MemoryLogWriter()
    host = Host(Engine(chip(*HOST), writer))
    host.launch(lambda tl: None)
    log = host.engine.close_log()
    io_cpu, m_cpus = "sip0.io0.io_cpu", [f"sip0.cube{cube}.m_cpu" for cube in (0, 1)]
    pes = [[f"sip0.cube{cube}.pe{pe}.pe_cpu" for pe in (0, 1)] for cube in (0, 1)]
    there = [("host", io_cpu, 100000, 123000)]
    there += [(io_cpu, m_cpus[cube], 133000, 143000 + 5000 * cube) for cube in (0, 1)]
    there += [(m_cpus[cube], pe, 150000 + 5000 * cube, 152000 + 5000 * cube) for cube in (0, 1) for pe in pes[cube]]
    back = [(pe, m_cpus[cube], 157000, 159000) for cube in (0, 1) for pe in pes[cube]]
    back += [(m_cpus[cube], io_cpu, 159000, 169000 + 5000 * cube) for cube in (0, 1)]
    back += [(io_cpu, "host", 174000, 197000)]
    found = [(*map(log.strings.__getitem__, row[1:3]), *row[4:]) for row in log.table("messages").tolist()]
    kinds = log.table("messages")["message"]
    assert sorted(each for each, kind in zip(found, kinds, strict=True) if kind == MessageKind.REQUEST) == sorted(there)
    assert sorted(each for each, kind in zip(found, kinds, strict=True) if kind == MessageKind.RESPONSE) == sorted(back)
    assert [each[3] for each in found] == sorted(each[3] for each in found)
    assert {row[2:] for row in log.table("kernels").tolist()} == {(0, 157000, 157000, 157000)}


def test_messages_about_pages_are_no_messages_of_a_launch(chip, mmu):
    writer = MemoryLogWriter()
    host = Host(Engine(chip(*HOST, *mmu), writer))
    host.map(host.tensor("a", np.zeros((16, 128), np.float16), "f16"), pes=[0])
    assert host.engine.clock.now_ps > 0
    host.launch(lambda tl: None, pes=[0])
    log = host.engine.close_log()
    assert {row[0] for row in log.table("messages").tolist()} == {0}
    assert len(log.table("messages")) == 6


@pytest.mark.parametrize("writer", [None, MemoryLogWriter()])
def test_nothing_is_told_without_a_log(chip, writer):
    engine = Engine(chip(*HOST), writer)
    scheduler = engine.pes["sip0.cube0.pe0"].scheduler
    assert (scheduler.on_tile_waited is None) == (scheduler.context.directory.on_message is None) == (writer is None)
