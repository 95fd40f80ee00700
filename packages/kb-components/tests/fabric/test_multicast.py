"""Reads of the same bytes that one read of the memory answers, by hand.

A byte takes 20 ps at the memory, 10 on links and 40 over the bridge. The memory takes 30 ns, a crossbar half 1 ns and
the bridge 3 ns.
"""

import numpy as np
import pytest

from kb_dataexec import Executor, MemoryLogWriter
from kb_dataexec.analysis import all_transfers, service_parts
from kb_engine import Engine, read_tensor
from kb_messages import Rectangle, TopologyError

MULTICAST = ("wire_ps_per_mm: 0", "wire_ps_per_mm: 0\nmulticast: {receivers: 8}")
PAIRS = ("wire_ps_per_mm: 0", "wire_ps_per_mm: 0\nmulticast: {receivers: 2}")
SEVERAL = (("queue_depth: 4, setup_ns: 2", "queue_depth: 4, setup_ns: 2, outstanding: 4"),)
SLOW_ENDS = (
    ('{from: "pe[2:4].pe_dma", to: "xbar[1]", bw_gbs: 100', '{from: "pe[2:4].pe_dma", to: "xbar[1]", bw_gbs: 12.5'),
)
FAR_ENDS = (
    (
        '{from: "pe[2:4].pe_dma", to: "xbar[1]", bw_gbs: 100, length_mm: 0}',
        '{from: "pe[2:4].pe_dma", to: "xbar[1]", bw_gbs: 100, length_mm: 100}',
    ),
    ("wire_ps_per_mm: 0", "wire_ps_per_mm: 7"),
)
HBM, PE = "sip0.cube0.hbm{}", "sip0.cube0.pe{}.pe_dma"
N = 1000


def ends_of(topology, transfers):
    """The ends of *transfers*, (PE, slice, bytes, start, whether it writes, first byte), and the engine."""
    engine = Engine(topology)
    fabric, ends_ps = engine.fabric, {}
    for number, (pe, unit, nbytes, start_ps, writes, first) in enumerate(transfers):
        region = engine.topology.address_map.region_of_node(HBM.format(unit))
        path, memory = fabric.path(PE.format(pe), region.owner), Rectangle(region.base + first, 1, nbytes, nbytes)
        move = fabric.write if writes else fabric.read

        def begin(each):
            move, path, memory, start_ps, number = each
            move(path, memory, start_ps, lambda done: ends_ps.update({done: engine.clock.now}), number)

        engine.clock.call_at(start_ps, begin, (move, path, memory, start_ps, number))
    engine.clock.drain()
    return [ends_ps[number] for number in range(len(transfers))], engine


def reads(*pes, start_ps=0):
    return [(pe, 0, N, start_ps, False, 0) for pe in pes]


def bytes_on(engine):
    return {(link.link.src[11:], link.link.dst[11:]): link.nbytes for link in engine.fabric.links if link.nbytes}


@pytest.mark.parametrize("more", [(), SEVERAL])
def test_one_answer_goes_over_the_tree_and_over_each_link_once(chip, more, two_halves):
    # PE 0 asks first: the first byte leaves at 31 ns. The others ask at 5 ns, over the bridge, which takes 40 ns.
    found, engine = ends_of(chip(MULTICAST, *two_halves, *more), reads(0, 2, 3))
    assert found == [31_000 + N * 20 + 1000, 32_000 + N * 40 + 4000, 76_000]
    assert bytes_on(engine) == dict.fromkeys(
        [
            ("hbm0", "xbar0"),
            ("xbar0", "pe0.pe_dma"),
            ("xbar0", "bridge"),
            ("bridge", "xbar1"),
            ("xbar1", "pe2.pe_dma"),
            ("xbar1", "pe3.pe_dma"),
        ],
        N,
    )
    assert engine.components[HBM.format(0)].read_nbytes == N
    link = engine.fabric.link("sip0.cube0.xbar0", "sip0.cube0.bridge")
    assert link.busy_ps == N * 40


@pytest.mark.parametrize("more", [(), SEVERAL])
@pytest.mark.parametrize(("changes", "there_ps"), [((), 96_000), (SLOW_ENDS, 116_000), (FAR_ENDS, 96_700)])
def test_another_flow_holds_up_the_branches_behind_its_link(chip, changes, there_ps, more, two_halves):
    # From 32 ns on, the bridge gives each of the two flows half. The write's 500 bytes are through at 72 ns, and the
    # other 500 of the reads at 92 ns, 4 ns before the links to PE 2 and 3. Links of 80 ps a byte have 500 bytes left at
    # 76 ns, and links of 100 mm take 0.7 ns more.
    write = (1, 1, N // 2, 31_000, True, 0)
    found, _ = ends_of(chip(MULTICAST, *two_halves, *changes, *more), [*reads(0, 2, 3), write])
    assert found[:3] == [52_000, there_ps, there_ps]


@pytest.mark.parametrize(("late_ps", "end_ps"), [(26_000, 76_000), (26_001, 26_001 + 5000 + 35_000 + N * 40)])
def test_a_request_joins_up_to_the_picosecond_of_the_first_byte(chip, late_ps, end_ps, two_halves):
    found, engine = ends_of(chip(MULTICAST, *two_halves), [*reads(0), *reads(2, start_ps=late_ps)])
    assert found == [52_000, end_ps if late_ps == 26_000 else max(end_ps, 101_001)]
    assert engine.components[HBM.format(0)].read_nbytes == N * (1 if late_ps == 26_000 else 2)


def test_other_bytes_and_more_receivers_are_reads_of_their_own(chip, two_halves):
    shifted = (2, 0, N, 0, False, 64)
    assert ends_of(chip(MULTICAST, *two_halves), [*reads(0), shifted])[1].components[HBM.format(0)].read_nbytes == 2 * N
    _, engine = ends_of(chip(PAIRS, *two_halves), reads(0, 1, 2, 3))
    assert engine.components[HBM.format(0)].read_nbytes == 2 * N
    assert bytes_on(engine)["bridge", "xbar1"] == N
    _, engine = ends_of(chip(PAIRS, *two_halves, *SEVERAL), reads(0, 0))
    assert engine.components[HBM.format(0)].read_nbytes == 2 * N


def test_no_read_joins_one_from_before_a_write_to_its_bytes(chip, two_halves):
    # The write is there at 2 ns, between the requests of PE 0 and PE 2.
    for first, n_reads in ((999, 2), (1000, 1)):
        write = (1, 0, 50, 500, True, first)
        _, engine = ends_of(chip(MULTICAST, *two_halves), [*reads(0, 2), write])
        assert engine.components[HBM.format(0)].read_nbytes == n_reads * N


def test_requests_that_wait_at_a_busy_memory_are_served_as_one(chip, two_halves):
    # The memory is busy until 21 ns with other bytes. Both requests are there by 5 ns.
    found, _ = ends_of(chip(MULTICAST, *two_halves), [(1, 0, N, 0, False, 4096), *reads(0, 2)])
    assert found == [52_000, 72_000, 52_000 + N * 40 + 4000]


REORDERED = (
    ("impl: builtin.hbm_fixed", "impl: builtin.hbm_reordered"),
    (
        "bw_gbs: 50, latency_ns: 30}",
        (
            "mapping: 8R-2BG-2B-3C, clock_mhz: 450, rl_cycles: 7, wl_cycles: 2, tccd_s_cycles: 1, tccd_l_cycles: 2, "
            "trtw_cycles: 7, trcd_ns: 14, trp_ns: 14, tras_ns: 34, trrd_s_ns: 4, trrd_l_ns: 6, tfaw_ns: 30, "
            "trtp_ns: 6, twr_ns: 16, twtr_s_ns: 6, twtr_l_ns: 8, trefi_ns: 0, trfc_ns: 260, latency_ns: 80}"
        ),
    ),
)
INTERLEAVED = (("wire_ps_per_mm: 0", "wire_ps_per_mm: 0\nhbm_interleave_nbytes: 64"),)


@pytest.mark.parametrize("more", [(), REORDERED, INTERLEAVED, SEVERAL])
@pytest.mark.parametrize("columns", [37, slice(0, 37, 2)])
def test_each_reader_has_its_row_its_parts_and_the_right_bytes(chip_host, more, columns, two_halves):
    def kernel(tl, a, b):
        rows = a.shape[0] // tl.num_programs()
        mine = slice(tl.program_id() * rows, (tl.program_id() + 1) * rows)
        shared = slice(0, rows), columns if isinstance(columns, slice) else slice(0, columns)
        tl.store(b[mine], tl.load(a[(mine, shared[1])]) + tl.load(a[shared]))

    host = chip_host(MULTICAST, *two_halves, *more, writer=MemoryLogWriter())
    data = np.random.default_rng(1).integers(0, 50, (28, 37), dtype=np.int8)
    picked = data[:, columns] if isinstance(columns, slice) else data
    a, b = host.tensor("a", data, "i8"), host.empty("b", picked.shape, "i8")
    host.launch(kernel, a, b, pes="all")
    log = host.engine.close_log()
    memory = Executor(log, host.engine.initial_memory, "fused").run()
    assert (read_tensor(memory, b) == picked + np.tile(picked[:7], (4, 1))).all()
    rows = all_transfers(log)
    parts = service_parts(log, rows)
    assert len(rows) == 12
    assert all((parts[name] >= 0).all() for name in parts.dtype.names)
    ends = bytes_on(host.engine)
    came = sum(ends[f"xbar{pe // 2}", f"pe{pe}.pe_dma"] for pe in range(4))
    assert sum(host.engine.components[HBM.format(unit)].read_nbytes for unit in range(2)) < came


def test_joined_reads_tell_whom_they_waited_for_and_since_when_they_were_served(simulate, two_halves):
    def kernel(tl, a):
        tl.load(a)

    log = simulate(kernel, (16, 16, "f16"), changes=(MULTICAST, *two_halves), pes=(0, 2)).log
    rows = [tuple(row.tolist())[2:] for row in np.sort(all_transfers(log), order="op_id")]
    # PE 2 asks 4 ns later, while the memory is at work for PE 0.
    assert rows == [
        (9000, 10_000, 10_000, 40_000, 50_240, 1000, 0, -1),
        (9000, 14_000, 14_000, 40_000, 50_240, 5000, 0, -1),
    ]


def test_multicast_and_buffers_of_a_size_are_refused(chip):
    buffers = (
        "impl: builtin.xbar, count: 1, overhead_ns: 1",
        "impl: builtin.transit_credits, count: 1, overhead_ns: 1, buffer_nbytes: 80",
    )
    with pytest.raises(
        TopologyError, match=r"multicast: got multicast, and buffers of a size .*xbar0.* needs nodes with"
    ):
        Engine(chip((MULTICAST[0], MULTICAST[1] + "\npackets: {payload_nbytes: 64, header_nbytes: 16}"), buffers))
    with pytest.raises(TopologyError, match=r"multicast\.receivers: got"):
        chip((MULTICAST[0], "wire_ps_per_mm: 0\nmulticast: {receivers: 1}"))
