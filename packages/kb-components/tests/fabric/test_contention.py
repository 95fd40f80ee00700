"""Transfers that get in each other's way: links that catch up, and a memory between reads and writes. Times by hand.

Numbers of the round chip in picoseconds: a link takes 10 a byte, the crossbar 1000, the HBM 20 a byte and 30000. A
command takes 3000 and 4000, the set-up of a transfer 2000. An idle PE changes nothing (`PES`).
"""

import numpy as np
import pytest

from kb_dataexec import MemoryLogWriter
from kb_engine import Engine
from kb_messages import Rectangle

PES = pytest.mark.parametrize("pes", ["1", "2"])
SCOREBOARD = ("issue_ns: 3}", "issue_ns: 3, issue: scoreboard}")
DMA_LINK = '{from: "pe[*].pe_dma", to: "xbar[0]", bw_gbs: '
HBM_LINK = '{from: "xbar[0]", to: "hbm[0]", bw_gbs: '
DMA = "sip0.cube0.pe{}.pe_dma"


def pe_count(number):
    return "pe_layout: {count: 1}", f"pe_layout: {{count: {number}}}"


def dma_link(bw_gbs):
    return f"{DMA_LINK}100", f"{DMA_LINK}{bw_gbs}"


def transfers(topology, *wanted):
    """The end of each of *wanted*: (call at picosecond, `read` or `write`, PE, rectangle). It leaves 2000 later."""
    engine = Engine(topology)
    region = engine.topology.address_map.region_of_node("sip0.cube0.hbm0")
    ends = [0] * len(wanted)

    def done(number):
        ends[number] = engine.clock.now_ps

    def begin(number):
        at_ps, kind, pe, memory = wanted[number]
        path = engine.fabric.path(DMA.format(pe), region.owner)
        placed = Rectangle(region.base + memory.base, memory.rows, memory.row_nbytes, memory.stride)
        getattr(engine.fabric, kind)(path, placed, at_ps + 2000, done, number)

    for number, each in enumerate(wanted):
        engine.clock.call_at(each[0], begin, number)
    engine.clock.drain()
    return ends


def bytes_at(base, nbytes):
    return Rectangle(base, 1, nbytes, nbytes)


@PES
def test_a_read_that_arrives_while_a_write_comes_in_does_not_wait_for_all_of_it(simulate, pes):
    def kernel(tl, a, b, c):
        x = tl.load(a)
        float(x[0, 0])
        tl.store(c, x)
        tl.load(b)

    # Links to the DMA of 80 a byte. The first load is at the slice at 10000. Its first byte is at the link to the DMA
    # at 41000, where 512 x 80 = 40960 end at 81960. The store is issued at 84960 and taken until 88960: its bytes leave
    # from 90960 to 131920, and are at the slice 1000 later.
    loaded, first, last = 41000 + 40960, 91960, 131920 + 1000
    assert loaded == 81960
    # The load is issued at 87960 and taken until 92960, so it is at the slice at 95960, when 50 bytes of the store have
    # come. The slice is free, reads 128 bytes until 98520, and has the 512 bytes of the store by 98520 + 10240, before
    # the last one comes. The load's first byte is at the link to the DMA at 95960 + 31000.
    arrives = 92960 + 2000 + 1000
    assert first < arrives < last
    assert last > 98520 + 10240
    shapes = (16, 16, "f16"), (4, 16, "f16"), (16, 16, "f16")
    run = simulate(kernel, *shapes, changes=(SCOREBOARD, dma_link(12.5), pe_count(pes)))
    assert run.times(0, 0)[0][2] == loaded
    assert run.times(1, 0)[0] == (88960, 88960, last + 30000 + 1000, last + 31000)
    assert run.times(2, 0)[0] == (92960, 92960, arrives + 31000 + 128 * 80, arrives + 31000 + 128 * 80)


@PES
def test_a_read_that_waits_for_its_page_leaves_the_memory_to_a_write(chip_host, mmu, pes):
    def kernel(tl, a, b, c):
        x = tl.load(a)
        float(x[0, 0])
        z = tl.load(b[0:8])
        tl.store(c, x)
        float(z[0, 0])

    # A walk of 2 x 100000 and 1000 for the lookup. The first load ends at 51240. The second is issued at 54240, taken
    # until 58240, and leaves at 58240 + 2000 + 201000: it is at the slice at 262240.
    walked = 58240 + 2000 + 201000 + 1000
    # The store is issued at 57240, taken until 62240, and is at the slice from 65240 on: done at 75480.
    stored = 62240 + 3000 + 512 * 20
    changes = (*mmu, ("level_ns: 10}", "level_ns: 100}"), SCOREBOARD, pe_count(pes))
    host = chip_host(*changes, writer=MemoryLogWriter())
    a, b, c = (
        host.tensor(name, np.zeros((rows, 32), np.float16), "f16") for name, rows in (("a", 8), ("b", 64), ("c", 8))
    )
    host.launch(kernel, a, host.map(b, pes=[0]), c, pes=[0])
    ends = [(record.name, record.t_start_ps, record.t_end_ps) for record in host.engine.close_log().records()]
    assert sorted(ends, key=lambda each: each[1]) == [
        ("dma_read", 7000, 51240),
        ("dma_read", 58240, walked + 512 * 20 + 31000),
        ("dma_write", 62240, stored + 31000),
    ]


FOUR_BEHIND_A_TRUNK = (
    (
        "impl: builtin.hbm_fixed, count: 1, memory: {space: hbm, size: 1 MiB}, bw_gbs: 50",
        "impl: builtin.hbm_fixed, count: 4, memory: {space: hbm, size: 1 MiB}, bw_gbs: 100",
    ),
    (
        "impl: builtin.xbar, count: 1, overhead_ns: 1}",
        (
            "impl: builtin.xbar, count: 2, overhead_ns: 1}\n"
            "    bridge: {kind: bridge, impl: builtin.transit, overhead_ns: 3}"
        ),
    ),
    (
        f"    - {HBM_LINK}100, length_mm: 0}}\n",
        (
            '    - {from: "xbar[1]", to: "hbm[*]", bw_gbs: 100, length_mm: 0}\n'
            '    - {from: "xbar[*]", to: bridge, bw_gbs: 200, length_mm: 0}\n'
        ),
    ),
    pe_count(4),
)
"""Four PEs and four slices of 10 a byte, on two sides of a trunk of 5 a byte and 1000 + 3000 + 1000."""


def test_a_flow_that_catches_up_keeps_to_the_link_into_its_dma(simulate):
    def kernel(tl, a):
        first = 96 * tl.program_id()
        tl.load(a[first : first + (64 if first else 96)])

    # All requests are at their slices at 14000, and first bytes at the trunk at 14000 + 30000 + 1000 = 45000. They come
    # at 10 a byte and leave at a quarter of the trunk, 20 a byte. PEs 1 to 3 have sent their 4096 bytes after 81920.
    shared = 45000 + 4096 * 20
    # By then all 6144 bytes of PE 0 have come (45000 + 61440), and 4096 have left. The trunk has room for the other
    # 2048 at 5 a byte. The link into the DMA takes 10. Behind the trunk are the bridge and a crossbar: 4000.
    assert shared > 45000 + 61440
    run = simulate(kernel, (384, 32, "f16", (4, 1)), pes=(0, 1, 2, 3), changes=FOUR_BEHIND_A_TRUNK)
    ends = [run.launch.pe_end_ps[f"sip0.cube0.pe{number}"] for number in range(4)]
    assert ends == [shared + 4000 + 2048 * 10, *[shared + 4000] * 3]


@pytest.fixture(scope="module")
def write_and_read(chip):
    """Ends of a write of 4096 bytes by PE 0 from 0 on, and of a read of 128 bytes by PE 1, called at *read_at*."""

    def run(link_gbs, read_at=None):
        wanted = [(0, "write", 0, bytes_at(0, 4096))]
        if read_at is not None:
            wanted.append((read_at, "read", 1, bytes_at(8192, 128)))
        return transfers(chip(pe_count(2), dma_link(link_gbs)), *wanted)

    return run


def test_a_read_between_the_bytes_of_a_slow_write_does_not_delay_it(write_and_read):
    # The write's bytes come at 25 each from 3000 to 105400, and the slice takes 20 each: it waits for the last one. The
    # acknowledgement takes 30000 + 1000.
    assert write_and_read(40) == [105400 + 31000]
    # The read is at the slice at 53000. The slice has done what came, reads until 55560, and has the other 2096 bytes
    # by 55560 + 2096 x 20 = 97480, before the last one comes.
    read = 53000 + 31000 + 128 * 25  # 25 a byte over the link into the DMA
    assert write_and_read(40, read_at=50000) == [105400 + 31000, read]


def test_a_read_waits_for_the_bytes_that_came_before_it_and_delays_the_others(write_and_read):
    # The write's bytes come at 10 each from 3000 on, and the slice takes 20 each, until 3000 + 81920.
    assert write_and_read(100) == [84920 + 31000]
    # The read is at the slice at 22250, after 1925 bytes: 30 bursts of 64 and a part of one. The slice has done the
    # bursts at 3000 + 1920 x 20 = 41400, reads 128 bytes until 43960, and has the other 2176 by 43960 + 43520.
    assert write_and_read(100, read_at=19250) == [84920 + 2560 + 31000, 43960 + 31000]


@pytest.mark.parametrize("link_gbs", [16, 40, 50, 64, 100])
def test_a_read_delays_a_write_by_no_more_than_its_own_service_and_a_burst(write_and_read, link_gbs):
    # A burst of 64 that has come in part when the read comes is served after the read.
    (alone,) = write_and_read(link_gbs)
    delays = {write_and_read(link_gbs, read_at)[0] - alone for read_at in range(0, 120000, 7001)}
    assert min(delays) == 0
    assert max(delays) <= (128 + 64) * 20


BANKED = (
    (
        "impl: builtin.hbm_fixed, count: 1, memory: {space: hbm, size: 1 MiB}, bw_gbs: 50, latency_ns: 30}",
        (
            "impl: builtin.hbm_banked, count: 1, memory: {space: hbm, size: 1 MiB}, clock_mhz: 500, rl_cycles: 7,\n"
            "      wl_cycles: 2, tccd_s_cycles: 1, tccd_l_cycles: 2, trtw_cycles: 7, trcd_ns: 14, trp_ns: 14,\n"
            "      tras_ns: 34, trrd_s_ns: 4, trrd_l_ns: 6, tfaw_ns: 30, trtp_ns: 6, twr_ns: 16, twtr_s_ns: 6,\n"
            "      twtr_l_ns: 8, trefi_ns: 0, trfc_ns: 0, latency_ns: 10, mapping: 1PC-5R-1BG-2B-5C-1BG}"
        ),
    ),
    pe_count(2),
)
"""Two pseudo-channels of 512 KiB, in cycles of 2000. Rows of one bank are 16 KiB apart."""
CHANNEL, ROW = 1 << 19, 1 << 14


def test_a_read_of_a_busy_bank_does_not_hold_the_reads_of_another_pseudo_channel(chip):
    # PE 0 reads a burst of each of eight rows of one bank, from the edge of the clock at 4000 on. Rows open 24 cycles
    # (tRAS + tRP) apart. The first byte is out after tRCD + RL = 14 cycles and 10000, the last after 7 x 24 + 15.
    slow = 0, "read", 0, Rectangle(0, 8, 32, ROW)
    slow_end = 4000 + (7 * 24 + 15) * 2000 + 10000 + 1000
    # PE 1's burst is asked for at the edge at 104000: the last byte is out 15 cycles and 10000 later, and meets 256
    # bytes of PE 0 that take 338000 to come.
    fast = 100000, "read", 1, bytes_at(CHANNEL, 32)
    fast_end = 104000 + 15 * 2000 + 10000 + 1000
    topology = chip(*BANKED)
    assert transfers(topology, slow) == [slow_end]
    assert transfers(topology, fast) == [fast_end]
    assert transfers(topology, slow, fast) == [slow_end, fast_end]


def test_reads_of_two_pseudo_channels_share_the_link_out_of_the_memory(chip):
    # A link of 50 a byte. 32 bursts of both bank groups in turn: columns at cycles 7, 9, 10, .., 39, so the bytes come
    # from cycle 14 to 47, 1024 in 66000: too many for half of the link, 100 a byte.
    both = [(0, "read", pe, bytes_at(pe * CHANNEL, 1024)) for pe in range(2)]
    first_byte = 4000 + 14 * 2000 + 10000
    topology = chip(*BANKED, (f"{HBM_LINK}100", f"{HBM_LINK}20"))
    assert transfers(topology, both[0]) == [4000 + 47 * 2000 + 10000 + 1000]
    assert transfers(topology, *both) == [first_byte + 1024 * 100 + 1000] * 2
