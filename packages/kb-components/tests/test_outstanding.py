"""Several transfers of a channel under way at once. A transfer costs what it does in test_pipeline.py."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_components.pe.pe_dma import PeDma
from kb_dataexec import MemoryLogWriter
from kb_engine import Engine, Host
from kb_messages import FabricTransfer, SimulationStuckError, TileReady, WaitReason
from kb_topology import loads_topology

SETUP, ON_HBM, BACK = 2000, 512 * 20, 41240
"""The set-up, the bytes of a tile at the HBM, and a read from its arrival at an idle HBM to its last byte."""
READ = SETUP + 1000 + BACK
START = 7000
FETCH, GEMM, STORE, WRITE = 1000 + 1024 * 5, 46000, 1000 + 512 * 5, READ


def outstanding(number):
    return (("setup_ns: 2", f"setup_ns: 2, outstanding: {number}"),)


AHEAD = (("issue_ns: 3", "issue_ns: 3, issue: scoreboard"),)


def six_loads(tl, *tensors):
    loaded = [tl.load(each) for each in tensors]
    assert len({each.place.address for each in loaded}) == len(loaded)


SIX = [(16, 16, "f16")] * 6


def test_one_at_a_time_loads_follow_one_another(simulate):
    run = simulate(six_loads, *SIX, changes=AHEAD)
    assert [run.times(load, 0)[0][1] for load in range(6)] == [START + load * READ for load in range(6)]
    assert run.end_ps == START + 6 * READ


@pytest.mark.parametrize(("number", "starts"), [
    # Loads are decoded every 4000. The third begins when the first has ended, and so on.
    (2, [7000, 11000, 51240, 61480, 95480, 105720]),
    # Four requests are at the HBM at once, which takes 10240 for each: the sixth begins at the end of the second.
    (4, [7000, 11000, 15000, 19000, 51240, 61480]),
])  # fmt: skip
def test_loads_overlap_their_latencies(simulate, number, starts):
    run = simulate(six_loads, *SIX, changes=AHEAD + outstanding(number))
    served, ends = 0, []
    for start in starts:
        served = max(served, start + SETUP + 1000) + ON_HBM
        ends.append(served - ON_HBM + BACK)
    assert [run.times(load, 0)[0][1:] for load in range(6)] == [
        (start, end, end) for start, end in zip(starts, ends, strict=True)
    ]
    assert run.end_ps == ends[-1]
    (channel,) = [each for each in run.engine.servers if each.served]
    assert channel.busy_ps == ends[-1] - START  # not the sum of the services: one of them is always under way


def test_set_ups_of_a_channel_do_not_overlap(simulate):
    slow = (("setup_ns: 2", "setup_ns: 20, outstanding: 6"),)
    run = simulate(six_loads, *SIX, changes=AHEAD + slow)
    assert [run.times(load, 0)[0][1] for load in range(6)] == [START + 20000 * load for load in range(6)]
    transfers = run.traced(FabricTransfer)
    assert [each.t_start_ps for each in transfers] == [START + 20000 * (load + 1) for load in range(6)]
    assert [run.records[load, 0, 0].waits_ps[WaitReason.CHANNEL] for load in range(6)] == [16000 * n for n in range(6)]


def gemm(tl, a, b, c, **more):
    tl.composite("gemm", a, b, out=c, tile=(16, 16, 16), **more)


FOUR_TILES = (64, 16, "f16"), (16, 16, "f16"), (64, 16, "f16")


def test_the_reads_of_two_tiles_overlap(simulate):
    """Two tiles take the time of one, and the bytes of the second at the HBM. Each reads A, and B when it has A."""
    run = simulate(gemm, *FOUR_TILES, changes=outstanding(2))
    first = [START + 2 * READ * pair for pair in range(2)]
    reads = [run.times(0, tile)[:2] for tile in range(4)]
    assert [[start for _, start, _, _ in tile] for tile in reads] == [
        [first[0], first[0] + READ],
        [first[0] + SETUP, first[0] + READ + ON_HBM],
        [first[1], first[1] + READ],
        [first[1] + ON_HBM, first[1] + READ + ON_HBM],
    ]
    last = first[1] + 2 * READ + ON_HBM
    assert reads[3][1][3] == last == 194200
    # A pair is read faster than the array multiplies it.
    assert run.end_ps == START + 2 * READ + FETCH + 4 * GEMM + STORE + WRITE
    alone = simulate(gemm, *FOUR_TILES)
    assert alone.end_ps == START + 8 * READ + FETCH + GEMM + STORE + WRITE


def test_the_array_is_the_limit_of_enough_reads(simulate):
    """Four tiles are read at once, so all but the first wait for the array."""
    run = simulate(gemm, *FOUR_TILES, changes=outstanding(4))
    products = [run.times(0, tile)[3] for tile in range(4)]
    assert [start for _, start, _, _ in products] == [START + 2 * READ + FETCH + GEMM * tile for tile in range(4)]


SLOW_AND_FAST = (
    ("impl: builtin.hbm_fixed, count: 1", "impl: builtin.hbm_fixed, count: 2"),
    (
        '    - {from: "xbar[0]", to: "hbm[0]", bw_gbs: 100, length_mm: 0}\n',
        (
            '    - {from: "xbar[0]", to: "hbm[0]", bw_gbs: 10, length_mm: 0}\n'
            '    - {from: "xbar[0]", to: "hbm[1]", bw_gbs: 100, length_mm: 0}\n'
        ),
    ),
)
"""A slice behind a link of 100 ps a byte, and one behind a link of 10."""
SLOW_READ = SETUP + 1000 + 30000 + 51200 + 1000
HALF_SLOW = (32, 16, "f16", (2, 1))
"""Two blocks, one in each slice."""


def test_a_tile_that_is_read_early_waits_for_the_tile_before_it(simulate):
    def kernel(tl, a, b, c):
        held = tl.load(b)
        for rows in (slice(0, 16), slice(16, 32)):
            tl.composite("gemm", a[rows, 0:16], held, out=c[rows, 0:16], tile=(16, 16, 16))

    shapes = HALF_SLOW, (16, 16, "f16"), HALF_SLOW
    run = simulate(kernel, *shapes, changes=(*SLOW_AND_FAST, *outstanding(2)))
    begin = START + SLOW_READ + START  # b, which is in the slow slice, is loaded before
    second = begin + 4000
    slow, fast = run.times(1, 0)[0], run.times(2, 0)[0]
    assert slow == (begin, begin, begin + SLOW_READ, begin + SLOW_READ)
    assert fast == (second, second, second + READ, begin + SLOW_READ)
    fetched = [event for event in run.traced(TileReady) if event.stage == "fetch"]
    assert [event.waits_ps for event in fetched] == [{}, {"transfer_order": SLOW_READ - 4000 - READ}]
    assert [run.times(command, 0)[1][1] for command in (1, 2)] == [begin + SLOW_READ, begin + SLOW_READ + FETCH]


def test_a_tile_that_ends_with_its_transfer_waits_for_no_other(simulate):
    def kernel(tl, a):
        first = tl.load(a[0:16, 0:16])
        second = tl.load(a[16:32, 0:16])
        assert first.place.address != second.place.address

    run = simulate(kernel, HALF_SLOW, changes=(*SLOW_AND_FAST, *AHEAD, *outstanding(2)))
    assert run.times(0, 0) == [(START, START, START + SLOW_READ, START + SLOW_READ)]
    decoded = START + 4000
    assert run.times(1, 0) == [(decoded, decoded, decoded + READ, decoded + READ)]


def test_a_full_queue_holds_what_is_read(simulate):
    """FETCH takes 513 ns for each tile, behind a queue of one: reads are done long before their tiles can leave."""
    slow = (("bw_gbs: 200", "bw_gbs: 2"), ("queue_depth: 4", "queue_depth: 1"))
    run = simulate(gemm, (96, 16, "f16"), (16, 16, "f16"), (96, 16, "f16"), changes=(*slow, *outstanding(3)))
    fetches = [run.times(0, tile)[2] for tile in range(6)]
    ends = [end for _, _, end, _ in fetches]
    lefts = [run.times(0, tile)[1][3] for tile in range(6)]
    # Tile 2 waits in the queue while tile 1 is in front of it, so tile 3 leaves the channel when tile 1 leaves FETCH.
    assert lefts[3:] == [fetches[tile][3] for tile in (1, 2, 3)]
    assert ends == sorted(ends)
    assert sum(event.waits_ps.get("queue_full", 0) for event in run.traced(TileReady)) > 0


@pytest.mark.parametrize("number", [2, 3, 8])
def test_the_smallest_register_file_and_queues_of_one_are_enough(simulate, number):
    """B streams, so a read claims registers: it must not overtake the read that lets an earlier tile leave."""

    def kernel(tl, a, b, c, row):
        for half in (slice(0, 36), slice(36, 72)):
            part, more = a[half, 0:40], {"tile": (16, 16, 16), "epilogue": [tl.bias(row)]}
            for left in (part, tl.load(part)):
                tl.composite("gemm", left, b, out=c, b_stream=True, **more)
            tl.composite("gemm", part, b, out=c, **more)

    shapes = (72, 40, "f16", (2, 1)), (40, 32, "f16"), (36, 32, "f16"), (1, 32, "f16")
    plans = simulate(kernel, *shapes).plans
    needs = max(plan.buffers.register_nbytes + plan.buffers.accumulator_nbytes for plan in plans)
    changes = (
        ("size: 64 KiB", f"size: {needs} B"),
        ("queue_depth: 4", "queue_depth: 1"),
        ("input_kib: 64", "input_kib: 4"),
        ("output_kib: 64", "output_kib: 1"),
    )
    for slices in ((), SLOW_AND_FAST):
        simulate(kernel, *shapes, changes=(*changes, *slices, *outstanding(number)))


def test_lookups_hold_the_channel_as_set_ups_do(chip_host, mmu):
    writer = MemoryLogWriter()
    host = chip_host(*mmu, *AHEAD, *outstanding(4), writer=writer)
    tensors = [host.map(host.tensor(name, np.zeros((16, 16), np.float16), "f16")) for name in "abc"]
    host.launch(six_loads, *tensors)
    host.engine.close_log()
    starts = [record.t_start_ps for record in writer.close().records()]
    # A TLB of two pages: each of the three is a miss, 1 ns and a walk of 20 ns.
    assert starts == [START + number * (SETUP + 21000) for number in range(3)]


@pytest.mark.parametrize("number", [1, 4])
def test_no_channel_is_busy_for_more_than_all_time(simulate, number):
    run = simulate(gemm, *FOUR_TILES, changes=outstanding(number))
    for server in run.engine.servers:
        services = [r for r in run.records.values() if r.name == server.stage_type.name.lower()]
        busy = set()
        for record in services:
            busy.update(range(record.t_start_ps, record.t_end_ps, 40))  # all times here are multiples of 40
        assert server.busy_ps == 40 * len(busy) <= run.end_ps


def test_a_stuck_channel_says_for_which_tile_another_one_waits(simulate, monkeypatch):
    begin = PeDma.begin

    def lose_the_first(self, token, finish):
        if token.context.submitted.command_seq:
            begin(self, token, finish)

    def kernel(tl, a, b):
        tl.composite("gemm", a, b, tile=(16, 16, 16))
        tl.wait(tl.composite("gemm", a, b, tile=(16, 16, 16)))

    monkeypatch.setattr(PeDma, "begin", lose_the_first)
    with pytest.raises(SimulationStuckError) as caught:
        simulate(kernel, *[(16, 16, "f16")] * 2, changes=outstanding(2))
    lines = [line.strip() for line in str(caught.value).splitlines()]
    channel, hbm = "sip0.cube0.pe0.pe_dma (DMA_READ)", "sip0.cube0.hbm0"
    assert lines[3:5] == [
        f"tile 0 of command 1 is held by {channel} since 99.48 ns until tile 0 of command 0 leaves",
        f"tile 0 of command 0 is served by {channel} since 7 ns, which waits for {hbm} to answer a read of 512 bytes",
    ]


ONE_PE = (Path(__file__).parents[3] / "topologies/one_pe.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(("number", "tile_ps"), [
    # 8192 bytes of a tile of A, and of B, are 80 ns of the HBM. A read is 5 of set-up, 2.035 of links and crossbar,
    # 45 of latency, 80, and 2.035 back: 134.07 ns, and 268.14 for a tile. The product is 64 + 126 cycles of 1 ns.
    (1, 268140),
    # Two tiles at once would be 134.07 a tile; the bytes alone are 160, and the product 190.
    (2, 190000),
    (4, 190000),
])  # fmt: skip
def test_one_pe_is_no_longer_bound_by_latency(number, tile_ps):
    topology = loads_topology(ONE_PE.replace("setup_ns: 5", f"setup_ns: 5, outstanding: {number}"), "one_pe.yaml")
    host = Host(Engine(topology, MemoryLogWriter()), Path(__file__).parent)
    a, b, c = (host.tensor(n, np.zeros(s, np.float16), "f16") for n, s in
               (("a", (64, 1280)), ("b", (1280, 64)), ("c", (64, 64))))  # fmt: skip

    def kernel(tl, a, b, c):
        tl.composite("gemm", a, b, out=c, tile=(64, 64, 64))

    host.launch(kernel, a, b, c)
    starts = [r.t_start_ps for r in host.engine.close_log().records() if r.name == "gemm"]
    assert [after - before for before, after in pairwise(sorted(starts))][4:] == [tile_ps] * 15


@given(
    number=st.integers(2, 8),
    depth=st.integers(1, 3),
    sizes=st.lists(st.tuples(*[st.integers(1, 40)] * 3), min_size=1, max_size=3),
    streams=st.lists(st.booleans(), min_size=3, max_size=3),
    pinned=st.sampled_from(["none", "a", "b"]),
    slow=st.booleans(),
    ahead=st.booleans(),
)
@settings(max_examples=examples(40))
def test_any_commands_end_and_keep_the_laws(simulate, number, depth, sizes, streams, pinned, slow, ahead):
    def kernel(tl, a, b, *outputs):
        for (m, n, k), stream, at, out in zip(sizes, streams, (40, 0, 40), outputs, strict=False):
            left, right = a[at : at + m, 0:k], b[0:k, 40 - at : 40 - at + n]
            left = tl.load(left) if pinned == "a" else left
            right = tl.load(right) if pinned == "b" else right
            more = {"b_stream": stream and pinned != "b"}
            tl.composite("gemm", left, right, out=out[0:m, 0:n], tile=(16, 16, 16), **more)

    changes = (
        ("size: 64 KiB", "size: 3 KiB"),
        ("queue_depth: 4", f"queue_depth: {depth}"),
        ("put_kib: 64", "put_kib: 2"),
    )
    changes += (SLOW_AND_FAST if slow else ()) + (AHEAD if ahead else ()) + outstanding(number)
    simulate(kernel, (80, 40, "f16", (2, 1)), (40, 80, "f16", (1, 2)), *[(40, 40, "f16")] * 3, changes=changes)


def test_writes_may_have_a_set_up_of_their_own(chip_host):
    ends = []
    for change in ("setup_ns: 2, outstanding: 2", "setup_ns: 2, write_setup_ns: 50, outstanding: 2"):
        host = chip_host(("setup_ns: 2", change))
        a, c = host.tensor("a", np.ones((16, 16), np.float16), "f16"), host.empty("c", (16, 16), "f16")
        loaded = host.launch(lambda tl, a: tl.load(a), a)
        stored = host.launch(lambda tl, a, c: tl.store(c, tl.load(a)), a, c)
        ends.append((loaded.end_ps - loaded.start_ps, stored.end_ps - stored.start_ps))
    assert ends[1][0] == ends[0][0]
    assert ends[1][1] == ends[0][1] + 48_000  # 50 - 2 ns, in the write alone
