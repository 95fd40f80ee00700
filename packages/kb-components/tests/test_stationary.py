"""Loop orders that keep a panel of an operand in the tile buffers: which reads are left out, and the time of that."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_dataexec import MemoryLogWriter
from kb_engine import Engine, Host
from kb_messages import KernelError, LoopOrder, MemorySpace, Role
from kb_topology import load_topology

ONE_PE = load_topology(Path(__file__).parents[3] / "topologies/one_pe.yaml")
HERE = "test_stationary.py"
START = 3000 + 4000


def gemm(order, tile, **more):
    def kernel(tl, a, b, c=None):
        tl.composite("gemm", a, b, out=c, tile=tile, loop_order=order, **more)

    return kernel


def on_one_pe(order, shape, tile):
    """The records of a product of zeros on one_pe, and the numbers of reads of A and of B, told by their strides."""
    (m, n, k), host = shape, Host(Engine(ONE_PE, MemoryLogWriter()), Path(__file__).parent)
    a, b = (host.tensor(name, np.zeros(size, np.float16), "f16") for name, size in (("a", (m, k)), ("b", (k, n))))
    host.launch(gemm(order, tile), a, b)
    records = list(host.engine.close_log().records())
    strides = [each.operands[0].stride for each in records if each.name == "dma_read"]
    return records, (strides.count(2 * k), strides.count(2 * n))


@pytest.mark.parametrize(("order", "reads"), [
    # 3 x 4 x 5 tiles: every tile reads both, or a kept operand is read once for each of its own tiles.
    ("mnk", (3 * 4 * 5, 3 * 4 * 5)),
    ("weight_stationary", (3 * 4 * 5, 4 * 5)),
    ("input_stationary", (3 * 5, 3 * 4 * 5)),
])  # fmt: skip
def test_a_kept_operand_is_read_once_for_each_of_its_tiles(order, reads):
    records, found = on_one_pe(order, (90, 120, 150), (32, 32, 32))
    assert found == reads
    assert sum(each.name == "fetch" for each in records) == 3 * 4 * 5


READ, FETCH, PRODUCT = 134070, 34000, 190000
"""one_pe, tiles of 64 x 64 x 64 in f16. A read is 5 ns of set-up, 2.035 of links and crossbar, 45 of latency, 80 for
8192 bytes, and 2.035 back; a fetch of both 2 ns and 32 for 16384 bytes; a product 64 + 126 cycles of 1 ns."""


@pytest.mark.parametrize(("order", "shape", "starts"), [
    # Both are read for each of four tiles: the reads are the bound.
    ("nmk", (256, 64, 64), [2 * READ * (tile + 1) + FETCH for tile in range(4)]),
    # A and B for the first tile, then A alone: the products are the bound.
    ("weight_stationary", (256, 64, 64), [2 * READ + FETCH + PRODUCT * tile for tile in range(4)]),
    ("input_stationary", (64, 256, 64), [2 * READ + FETCH + PRODUCT * tile for tile in range(4)]),
])  # fmt: skip
def test_the_reads_that_are_left_out_take_no_time(order, shape, starts):
    records, _ = on_one_pe(order, shape, (64, 64, 64))
    begin = min(each.t_start_ps for each in records)
    assert sorted(each.t_start_ps - begin for each in records if each.name == "gemm") == starts


R, F, G = 44240 + 512 * 20, 1000 + 2048 * 5, (32 + 30) * 1000
"""The round chip of test_pipeline.py with tiles of 16 x 16 x 32: pieces of 1 KiB."""


@pytest.mark.parametrize(("input_kib", "waits"), [(3, F), (4, 0)])
def test_the_next_panel_waits_for_the_last_fetch_where_there_is_no_room_for_one_more_piece(simulate, input_kib, waits):
    """Two panels of one piece, for two rows of tiles each; beside a panel there is room for two tiles of A."""
    changes = (("input_kib: 64", f"input_kib: {input_kib}"),)
    run = simulate(gemm("weight_stationary", (16, 16, 32)), (32, 32, "f16"), (32, 32, "f16"), changes=changes)
    starts = [run.times(0, tile)[0][1] - START for tile in range(4)]
    # A0 and B0, A1, then A0 and B1 (with the buffer that tile 1 gives back when it is fetched), A1.
    assert starts == [0, 2 * R, 3 * R + waits, 5 * R + waits]
    products = [run.records[0, tile, len(run.times(0, tile)) - 2].t_start_ps - START for tile in range(4)]
    third = 5 * R + waits + F
    assert products == [2 * R + F, 2 * R + F + G, third, third + G]


def test_the_last_reader_of_a_piece_releases_it_and_pieces_lie_in_slots(simulate):
    run = simulate(gemm("input_stationary", (16, 16, 16)), (32, 48, "f16"), (48, 48, "f16"))
    kept = {}
    for (_, tile, _), record in sorted(run.records.items()):
        panel = [each for each in record.operands if each.space is MemorySpace.TCM and each.offset < 4 * 512]
        if record.name in ("dma_read", "fetch") and panel:
            (piece,) = panel
            kept.setdefault(piece.offset, []).append((tile, piece.role is Role.DST, piece.release))
    # Rows of three output tiles of three tiles over K; four slots for the pieces 0 to 2 and 3 to 5.
    assert kept[0] == [
        *[(0, True, False), (0, False, False), (3, False, False), (6, False, True)],
        *[(10, True, False), (10, False, False), (13, False, False), (16, False, True)],
    ]
    assert sorted(kept) == [0, 512, 1024, 1536]
    assert kept[1536][0] == (9, True, False)


@pytest.mark.parametrize("order", ["weight_stationary", "input_stationary"])
@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("clock_ghz", [0.25, 4.0])
@pytest.mark.parametrize("streams", [False, True])
def test_the_smallest_buffers_and_queues_of_one_are_enough(simulate, order, pinned, clock_ghz, streams):
    """Ragged edges, an operand of the epilogue that only last tiles read, and another command before and behind."""

    def kernel(tl, a, b, c, row):
        left, right = a, b
        if pinned:
            left, right = (a, tl.load(b)) if order == "input_stationary" else (tl.load(a), b)
        more = {"epilogue": [tl.bias(row), tl.relu()], "tile": (16, 16, 16)}
        stream = {"b_stream": streams and order == "input_stationary" and not pinned}
        tl.composite("gemm", a, b, out=c, **more)
        for _ in range(2):
            tl.composite("gemm", left, right, out=c, loop_order=order, **more, **stream)
        tl.composite("gemm", a, b, out=c, **more)

    shapes = (36, 40, "f16"), (40, 36, "f16"), (36, 36, "f16"), (1, 36, "f16")
    plans = simulate(kernel, *shapes).plans
    needs = max(plan.buffers.register_nbytes + plan.buffers.accumulator_nbytes for plan in plans)
    inputs = max(-(-plan.buffers.least_input_nbytes // 1024) for plan in plans)
    changes = (
        ("size: 64 KiB", f"size: {needs} B"),
        ("queue_depth: 4", "queue_depth: 1"),
        ("submission_depth: 8", "submission_depth: 1"),
        ("input_kib: 64", f"input_kib: {inputs}"),
        ("output_kib: 64", "output_kib: 1"),
        ("clock_ghz: 1.0", f"clock_ghz: {clock_ghz}"),
    )
    run = simulate(kernel, *shapes, changes=changes)
    buffers = run.engine.components["sip0.cube0.pe0.pe_scheduler"]._buffers
    assert (buffers.inputs.live_nbytes, buffers.outputs.live_nbytes) == (0, 0)


@given(
    outstanding=st.integers(1, 8),
    depth=st.integers(1, 3),
    orders=st.lists(st.tuples(st.sampled_from([*LoopOrder]), st.booleans()), min_size=1, max_size=3),
    sizes=st.lists(st.tuples(*[st.integers(1, 40)] * 3), min_size=3, max_size=3),
    spare=st.integers(0, 2),
    issue=st.sampled_from(["blocking", "scoreboard"]),
)
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
def test_any_commands_end_and_leave_no_buffer_claimed(simulate, outstanding, depth, orders, sizes, spare, issue):
    """Reads under way at once, queues of one, registers and buffers for one tile, and a panel that just fits."""

    def kernel(tl, a, b, *outputs):
        for (order, aside), (m, n, k), out in zip(orders, sizes, outputs, strict=False):
            left, right = a[0:m, 0:k], b[0:k, 0:n]
            more = {"b_stream": aside and order is LoopOrder.INPUT_STATIONARY}
            left = tl.load(left) if aside and order is LoopOrder.WEIGHT_STATIONARY else left
            tl.composite("gemm", left, right, out=out[0:m, 0:n], tile=(16, 16, 16), loop_order=order, **more)

    changes = (
        ("size: 64 KiB", "size: 2 KiB"),
        ("queue_depth: 4", f"queue_depth: {depth}"),
        ("input_kib: 64", f"input_kib: {3 + spare}"),
        ("output_kib: 64", "output_kib: 1"),
        ("setup_ns: 2", f"setup_ns: 2, outstanding: {outstanding}"),
        ("issue_ns: 3", f"issue_ns: 3, issue: {issue}"),
    )
    run = simulate(kernel, (40, 40, "f16"), (40, 40, "f16"), *[(40, 40, "f16")] * 3, changes=changes)
    buffers = run.engine.components["sip0.cube0.pe0.pe_scheduler"]._buffers
    assert (buffers.inputs.live_nbytes, buffers.outputs.live_nbytes) == (0, 0)


def test_two_commands_with_other_panels_follow_each_other(simulate):
    def kernel(tl, a, b, c):
        for tile, order in (((16, 16, 16), "weight_stationary"), ((8, 24, 32), "input_stationary")):
            for _ in range(2):
                tl.composite("gemm", a, b, out=c, tile=tile, loop_order=order)

    shapes = (40, 64, "f16"), (64, 48, "f16"), (40, 48, "f16")
    run = simulate(kernel, *shapes, changes=(("input_kib: 64", "input_kib: 6"),))
    assert [plan.buffers.panel_nbytes for plan in run.plans] == [2048, 2048, 1024, 1024]
    starts = sorted((record.t_start_ps, key[0]) for key, record in run.records.items() if record.name == "dma_read")
    assert all(first <= second for (_, first), (_, second) in pairwise(starts))


@pytest.mark.parametrize(("order", "sides", "side", "other"), [
    ("weight_stationary", (16, 32), "n", "nmk"), ("input_stationary", (32, 16), "m", "mnk"),
])  # fmt: skip
def test_a_panel_that_does_not_fit_is_refused_with_its_sizes(simulate, order, sides, side, other):
    kernel = gemm(order, (*sides, 16))
    shapes = (64, 64, "f16"), (64, 64, "f16"), (64, 64, "f16")
    line = kernel.__code__.co_firstlineno + 1
    with pytest.raises(KernelError) as caught:
        simulate(kernel, *shapes, changes=(("input_kib: 64", "input_kib: 4"),))
    assert str(caught.value) == (
        f"{HERE}:{line}: sip0.cube0.pe0.pe_tcm: got {order} with a panel of 4 KiB (4 pieces of 1 KiB) and input "
        "buffers of 0.5 KiB for each of two tiles, needs at most the 4 KiB of input_kib; use a tile of smaller "
        f"{side}, or loop_order={other}, which keeps no panel"
    )
    simulate(kernel, *shapes, changes=(("input_kib: 64", "input_kib: 5"),))


NOTHING = (
    "no DMA reads {0}, so there is nothing to keep, needs {0} in memory; use {1}, which has the same order of tiles"
)
PAST_TCM = (
    "a streamed b goes past TCM to registers, where no panel of it fits, needs b in tile buffers; leave out b_stream, "
    "or use nmk"
)


@pytest.mark.parametrize(("order", "how", "said"), [
    ("weight_stationary", "with b in TCM", NOTHING.format("b", "nmk")),
    ("input_stationary", "with a in TCM", NOTHING.format("a", "mnk")),
    ("weight_stationary", "with b_stream", PAST_TCM),
])  # fmt: skip
def test_an_operand_that_is_not_read_into_tile_buffers_cannot_stay_there(simulate, order, how, said):
    def kernel(tl, a, b):
        more = {"loop_order": order, "tile": (16, 16, 16), "b_stream": how == "with b_stream"}
        left, right = (tl.load(a), tl.load(b)) if "TCM" in how else (a, b)
        tl.composite("gemm", left, right, **more)

    line = kernel.__code__.co_firstlineno + 3
    with pytest.raises(KernelError) as caught:
        simulate(kernel, *[(16, 16, "f16")] * 2)
    assert str(caught.value) == f"{HERE}:{line}: gemm loop_order: got {order} {how}: {said}"
