"""Rows of the op log's table `transfers`, by hand. Numbers of the round chip are those of test_contention.py.

Every run of `simulate` also checks that the parts of each DMA service add up to it (`components_trace_laws`).
"""

import numpy as np
import pytest
from components_two_cubes import HOST

from kb_components.memory.hbm.fixed import HbmFixed
from kb_dataexec import MemoryLogWriter
from kb_dataexec.analysis import all_transfers, service_parts
from kb_engine import Engine, Host
from kb_engine.block import SingleChannelMemory

HBM = "sip0.cube0.hbm0"
F16 = (16, 16, "f16")
TWO_PES = ("pe_layout: {count: 1}", "pe_layout: {count: 2}")
SCOREBOARD = ("issue_ns: 3}", "issue_ns: 3, issue: scoreboard}")
SLOW_LINKS = ('{from: "pe[*].pe_dma", to: "xbar[0]", bw_gbs: 100', '{from: "pe[*].pe_dma", to: "xbar[0]", bw_gbs: 12.5')


def rows(log, table=None):
    """(op, memory, sent, arrived, served, first, last, latency, shared, behind), ascending by op."""
    found = [row.tolist() for row in (log.table("transfers") if table is None else table)]
    return sorted((op_id, log.strings[memory], *more) for op_id, memory, *more in found)


def parts(log):
    """The parts of each service that are not 0, by op."""
    found = service_parts(log, all_transfers(log))
    names = found.dtype.names[1:]
    return {row["op_id"].item(): {name[:-3]: row[name].item() for name in names if row[name]} for row in found}


def test_a_read_that_meets_nobody_has_a_row_and_the_next_of_its_kind_has_none(simulate):
    def kernel(tl, a, b):
        tl.load(a)
        tl.load(b)

    log = simulate(kernel, F16, F16).log
    first = (0, HBM, 9000, 10000, 10000, 40000, 50240, 1000, 0, -1)
    assert rows(log) == [first]
    second = (1, HBM, *[51240 + each for each in first[2:7]], 1000, 0, -1)
    assert rows(log, all_transfers(log)) == [first, second]
    told = {"setup": 2000, "request": 1000, "memory_latency": 30000, "memory_bytes": 10240, "response": 1000}
    assert parts(log) == {0: told, 1: told}


def test_a_memory_that_changes_what_its_base_does_is_asked_about_each_read(simulate, monkeypatch):
    def slow(self, t_ps, memory, last_byte_ps, write):
        first, last = SingleChannelMemory.reserve(self, t_ps, memory, last_byte_ps, write)
        return first + 7000, last + 7000

    monkeypatch.setattr(HbmFixed, "reserve", slow)
    later = (0, HBM, 9000, 10000, 10000, 47000, 57240, 1000, 0, -1)
    assert rows(simulate(lambda tl, a: tl.load(a), F16).log) == [later]
    monkeypatch.setattr(HbmFixed, "held_ps", lambda self, memory, write: None)
    assert rows(simulate(lambda tl, a: tl.load(a), F16).log) == [(*later[:4], -1, *later[5:])]


def test_a_read_at_a_busy_memory_is_behind_the_one_before_it(simulate):
    log = simulate(lambda tl, a: tl.load(a), F16, changes=(TWO_PES,), pes=(0, 1)).log
    assert rows(log) == [
        (0, HBM, 9000, 10000, 10000, 40000, 50240, 1000, 0, -1),
        (1, HBM, 9000, 10000, 20240, 50240, 60480, 1000, 0, 0),
    ]
    assert parts(log)[1]["wait"] == 10240


def test_a_write_whose_bytes_come_more_slowly_than_the_memory_takes_them_waits_for_its_last_byte(simulate):
    def kernel(tl, a, b, c):
        x = tl.load(a)
        float(x[0, 0])
        tl.store(c, x)
        tl.load(b)

    log = simulate(kernel, F16, (4, 16, "f16"), F16, changes=(SCOREBOARD, SLOW_LINKS, TWO_PES)).log
    assert rows(log) == [
        (0, HBM, 9000, 10000, 10000, 40000, 50240, 1000, 0, -1),
        (1, HBM, 90960, 132920, 132920, 132920, 162920, 1000, 0, -1),
        (2, HBM, 94960, 95960, 95960, 125960, 128520, 1000, 0, -1),
    ]
    ends = {"setup": 2000, "request": 1000, "memory_latency": 30000, "response": 1000}
    assert parts(log) == {number: ends | {"links_bytes": nbytes * 80} for number, nbytes in enumerate((512, 512, 128))}


@pytest.mark.parametrize("strided", [False, True])
def test_a_write_in_parts_has_the_times_of_its_last_part(simulate, strided):
    def kernel(tl, a, b, c):
        if tl.program_id() == 0:
            tl.store(c[0:4, 0:64] if strided else c, tl.load(a))
        else:
            tl.load(b)
            tl.load(b)

    # Both load at once. PE 0 stores from 60240 on: its bytes are at the slice from 61240, at 10 each. PE 1's first load
    # ends at 53800, and its second is at the slice at 63800, when 255 bytes of the store have come: three bursts of 64.
    # The slice has them at 61240 + 3840 = 65080, reads 128 bytes until 67640, and has the other 320, of which the
    # first came at 63160, at 74040.
    # A strided store has four rows of 128 bytes, so the rest is half a row and two rows.
    shapes = ((4, 64, "f16"), (4, 16, "f16"), (4, 128, "f16")) if strided else (F16, (4, 16, "f16"), F16)
    log = simulate(kernel, *shapes, changes=(TWO_PES,), pes=(0, 1)).log
    assert rows(log) == [
        (0, HBM, 9000, 10000, 10000, 40000, 50240, 1000, 0, -1),
        (1, HBM, 9000, 10000, 20240, 50240, 52800, 1000, 0, 0),
        (2, HBM, 60240, 63160, 67640, 74040, 104040, 1000, 0, 3),
        (3, HBM, 62800, 63800, 65080, 95080, 97640, 1000, 0, 2),
    ]
    assert parts(log)[2] == {
        "setup": 2000, "request": 1000, "links_bytes": 1920, "wait": 4480, "memory_bytes": 6400,
        "memory_latency": 30000, "response": 1000,
    }  # fmt: skip


def test_reads_that_share_a_link_say_how_long(simulate, two_halves):
    # PEs 2 and 3 read 512 bytes of slice 0 over the bridge, 40 a byte. Requests pass two crossbars and the bridge.
    run = simulate(
        lambda tl, a: tl.load(a[16 * (tl.program_id() % 2) : 16 * (tl.program_id() % 2) + 16]),
        (64, 16, "f16", (2, 1)),
        changes=two_halves,
        pes=(2, 3),
    )
    shared = all_transfers(run.log)
    of = {op_id: row for op_id, *row in rows(run.log, shared)}
    ends = {record.op_id: record.t_end_ps for record in run.records.values()}
    assert [row[1:4] for row in of.values()] == [[9000, 14000, 14000], [9000, 14000, 24240]]
    # First bytes are at the crossbar at 44000 and 54240, and 1000 later at the bridge's link, which the second shares
    # from then on: 40 a byte alone until 55240, then 80. The first has sent 256 bytes alone, and has 256 left.
    first_end = 55240 + 256 * 80 + 4000
    assert ends == {0: first_end, 1: 55240 + 256 * 80 + 256 * 40 + 4000}
    assert [row[7] for row in of.values()] == [256 * 40, ends[1] - (54240 + 512 * 40 + 5000)]


def test_a_memory_that_does_not_say_when_it_begins_is_one_part(simulate):
    banked = (
        "impl: builtin.hbm_fixed, count: 1, memory: {space: hbm, size: 1 MiB}, bw_gbs: 50, latency_ns: 30}",
        (
            "impl: builtin.hbm_banked, count: 1, memory: {space: hbm, size: 1 MiB}, clock_mhz: 500, rl_cycles: 7,\n"
            "      wl_cycles: 2, tccd_s_cycles: 1, tccd_l_cycles: 2, trtw_cycles: 7, trcd_ns: 14, trp_ns: 14,\n"
            "      tras_ns: 34, trrd_s_ns: 4, trrd_l_ns: 6, tfaw_ns: 30, trtp_ns: 6, twr_ns: 16, twtr_s_ns: 6,\n"
            "      twtr_l_ns: 8, trefi_ns: 0, trfc_ns: 0, latency_ns: 10, mapping: 1PC-5R-1BG-2B-5C-1BG}"
        ),
    )
    log = simulate(lambda tl, a, c: tl.store(c, tl.load(a)), F16, F16, changes=(banked,)).log
    assert [(row[0], row[4], row[9]) for row in rows(log)] == [(0, -1, -1), (1, -1, -1)]
    found = parts(log)
    assert [found[op]["request"] for op in (0, 1)] == [1000, 1000]
    assert all(found[op]["service"] > 10000 and "wait" not in found[op] for op in (0, 1))


@pytest.mark.parametrize("ports", ["shared", "separate"])
def test_a_write_waits_for_reads_at_a_shared_port_alone(chip_host, noc, ports):
    writer = MemoryLogWriter()
    changes = (*noc, TWO_PES, ("bw_gbs: 80, latency_ns: 10}", f"bw_gbs: 8, latency_ns: 10, ports: {ports}}}"))
    host = chip_host(*changes, writer=writer)
    a, b = (host.tensor(name, np.zeros((16, 16), np.float16), "f16", memory="sram") for name in "ab")
    x = host.tensor("x", np.zeros((16, 16), np.float16), "f16")

    def kernel(tl, x, a, b):
        if tl.program_id() == 0:
            tl.store(b, tl.load(x))
        else:
            tl.load(a)
            tl.load(a)

    host.launch(kernel, x, a, b)
    log = host.engine.close_log()
    names = {record.op_id: record.name for record in log.records()}
    ((write,),) = [[row for row in rows(log, all_transfers(log)) if names[row[0]] == "dma_write"]]
    # 512 bytes are 64000 at a port. The first read of PE 1 holds it from 12000 to 76000; the store's first byte is
    # there at 63240, and the second load at 110000 or later.
    assert write[4:6] == ((76000, 140000) if ports == "shared" else (63240, 127240))
    assert names.get(write[9]) == ("dma_read" if ports == "shared" else None)


def test_writes_are_behind_writes_where_they_have_a_port(chip_host, noc):
    changes = (
        *noc,
        ("pe_layout: {count: 1}", "pe_layout: {count: 3}"),
        ("bw_gbs: 80, latency_ns: 10}", "bw_gbs: 8, latency_ns: 10, ports: separate}"),
    )
    host = chip_host(*changes, writer=MemoryLogWriter())
    x = host.tensor("x", np.zeros((16, 16), np.float16), "f16")
    a, *b = (host.tensor(name, np.zeros((16, 16), np.float16), "f16", memory="sram") for name in "abc")

    def kernel(tl, x, a, b):
        value = tl.load(x)
        if tl.program_id() < 2:
            tl.store(b[tl.program_id()], value)
        else:
            tl.load(a)

    host.launch(kernel, x, a, b)
    log = host.engine.close_log()
    names = {record.op_id: record.name for record in log.records()}
    first, second = [row for row in rows(log, all_transfers(log)) if names[row[0]] == "dma_write"]
    # The first store's bytes come from 63240 on, at 25 each. At 73480 the second one's come too: 409 are there, of
    # which the port has 384 at 63240 + 48000 = 111240. Then each comes at 50. The first has all at 78600, and 64 of the
    # second are there, which the port has at 119240, behind them the other 128 of the first at 135240, and then the
    # second's 448. PE 2's load, at 83720, cuts these in two, which follow each other without a pause.
    assert (first[3:6], first[9]) == ((72840, 119240, 135240), second[0])
    assert (second[4:6], second[9]) == ((135240, 191240), first[0])


def test_transfers_of_the_host_have_no_rows(chip):
    host = Host(Engine(chip(*HOST), MemoryLogWriter()))
    host.launch(lambda tl, a: tl.load(a), host.tensor("a", np.zeros((16, 16), np.float16), "f16"), pes=[0])
    host.read(host.tensor("b", np.zeros((16, 16), np.float16), "f16"))
    log = host.engine.close_log()
    assert {row[0] for row in rows(log)} == {record.op_id for record in log.records() if record.name == "dma_read"}
