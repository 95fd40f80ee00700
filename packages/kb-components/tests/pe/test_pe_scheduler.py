"""Commands in order, one feeder, bounded queues. The arithmetic of one tile is that of test_pipeline.py."""

import pytest
from components_changes import FOUR_TILES, ONE_TILE, two_gemms

from kb_components.pe.pe_dma import PeDma
from kb_components.pe.pe_fetch_store import PeFetchStore
from kb_components.pe.pe_gemm import PeGemm
from kb_engine import Engine
from kb_engine.block import CompletionQueue, PipelineError
from kb_messages import CommandComplete, CommandSubmitted, CompletionRecord, KernelError, StageType, TopologyError
from kb_plans import TileRoom

READ = WRITE = 44240
BOTH, FETCH, GEMM, STORE = 88480, 6120, 46000, 3560


def submitted(run):
    return [(event.command_seq, event.t_ps) for event in run.traced(CommandSubmitted)]


def test_a_full_first_queue_blocks_the_feeder_alone(simulate):
    run = simulate(two_gemms, *FOUR_TILES, changes=(("pe_dma, queue_depth: 4", "pe_dma, queue_depth: 1"),))
    # Both commands are in the submission queue as soon as they are issued. One tile is in the DMA then, one in its
    # queue; the third follows when the first has been read.
    assert submitted(run) == [(0, 3000), (1, 6000)]
    assert [run.times(0, tile)[0][0] for tile in range(4)] == [7000, 7000, 7000 + BOTH, 7000 + 2 * BOTH]
    assert [run.times(1, tile)[0][0] for tile in range(4)] == [7000 + BOTH * (3 + tile) for tile in range(4)]


def test_tiles_of_two_composites_are_never_interleaved(simulate):
    run = simulate(two_gemms, *FOUR_TILES)
    starts = sorted((record.t_start_ps, key[0], key[1]) for key, record in run.records.items() if key[2] == 0)
    assert [entry[1:] for entry in starts] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)]
    # The first queue of 4 never runs dry: reads follow each other over both commands.
    assert [entry[0] for entry in starts] == [7000 + tile * BOTH for tile in range(8)]


def test_commands_complete_in_the_order_they_end_in(simulate):
    run = simulate(two_gemms, *FOUR_TILES)
    ends = [7000 + tiles * BOTH + FETCH + GEMM + STORE + WRITE for tiles in (4, 8)]
    completed = [(event.command_seq, event.t_ps) for event in run.traced(CommandComplete)]
    assert completed == [(0, ends[0]), (1, ends[1])]


def test_a_load_that_overtakes_a_composite_completes_first(simulate, monkeypatch):
    records = []
    publish = CompletionQueue.publish
    monkeypatch.setattr(
        CompletionQueue, "publish", lambda self, record: (records.append(record), publish(self, record))
    )

    def kernel(tl, a, b, c):
        tl.composite("gemm", a, b, out=c, tile=ONE_TILE)
        tl.load(a[0:16, 0:16])

    run = simulate(kernel, (32, 16, "f16"), (16, 16, "f16"), (32, 16, "f16"))
    # The composite's two tiles are read from 7000 on; the load is read behind them, while they are computed:
    load_end = 7000 + 2 * BOTH + READ
    # The second tile is fetched at once (its GEMM would wait for the first's, had that not ended before).
    gemm_end = 7000 + 2 * BOTH + FETCH + GEMM + STORE + WRITE
    assert load_end < gemm_end
    pe = "sip0.cube0.pe0"
    assert records == [
        CompletionRecord(command_seq=1, pe=pe, t_ps=load_end, n_tiles=1),
        CompletionRecord(command_seq=0, pe=pe, t_ps=gemm_end, n_tiles=2),
    ]
    assert [(event.command_seq, event.t_ps) for event in run.traced(CommandComplete)] == [(1, load_end), (0, gemm_end)]


def test_the_completion_queue_does_not_grow_over_a_long_run(simulate, monkeypatch):
    lengths = []
    publish = CompletionQueue.publish
    monkeypatch.setattr(
        CompletionQueue, "publish", lambda self, record: (publish(self, record), lengths.append(len(self)))
    )

    def kernel(tl, a):
        for _ in range(300):
            tl.free(tl.load(a))

    run = simulate(kernel, (1, 16, "f16"))
    assert (len(lengths), max(lengths)) == (300, 0)
    assert run.engine.pes["sip0.cube0.pe0"].scheduler._queue._in_flight == {}


def test_a_command_without_reads_does_not_overtake_one_with_reads(simulate):
    def kernel(tl, a, b, c, d):
        x, y = tl.load(a[0:16, 0:16]), tl.load(b)
        tl.composite("gemm", a, b, out=c, tile=ONE_TILE)
        tl.composite("gemm", x, y, out=d, tile=ONE_TILE)

    run = simulate(kernel, (32, 16, "f16"), (16, 16, "f16"), (32, 16, "f16"), (16, 16, "f16"))
    # Loads: 7000 + 44240 = 51240, and 51240 + 7000 + 44240 = 102480. The first composite is fed at 109480, and its
    # second tile is fetched from 109480 + 2 x 88480 = 286440 to 292560. Only then the second composite starts.
    assert run.times(2, 1)[2] == (286440, 286440, 292560, 292560)
    assert submitted(run)[2:] == [(2, 105480), (3, 108480)]
    # A tile's registers are free after its GEMM, and there are many: the port is all that could be waited for.
    assert run.times(3, 0)[0] == (292560, 292560, 298680, 298680)
    assert run.times(3, 0)[1] == (298680, 292560 + GEMM, 292560 + 2 * GEMM, 292560 + 2 * GEMM)


def test_a_full_submission_queue_blocks_the_kernel_and_not_the_scheduler(simulate):
    def kernel(tl, a, b, c):
        for _ in range(4):
            tl.composite("gemm", a, b, out=c, tile=ONE_TILE)

    slow = (("submission_depth: 8", "submission_depth: 1"), ("command_ns: 4", "command_ns: 10"))
    run = simulate(kernel, (16, 16, "f16"), (16, 16, "f16"), (16, 16, "f16"), changes=slow)
    # Command 0 is taken at once, at 3000, until 13000. Command 1 waits in the queue from 6000 on. Command 2, issued
    # at 6000, would be there at 9000 and finds no room until 13000, when 1 is taken; command 3 follows at 23000.
    assert submitted(run) == [(0, 3000), (1, 6000), (2, 13000), (3, 23000)]
    assert [run.times(command, 0)[0][0] for command in range(4)] == [13000, 23000, 33000, 43000]


def test_a_tile_waits_for_the_input_buffer_of_the_one_before_it(simulate):
    # 1 KiB holds one tile's A and B: tile 1 is fed when tile 0 is fetched, at 101600.
    run = simulate(two_gemms, *FOUR_TILES, changes=(("input_kib: 64", "input_kib: 1"),))
    assert [run.times(0, tile)[0][0] for tile in range(4)] == [7000 + tile * (BOTH + FETCH) for tile in range(4)]


def test_a_tile_waits_for_the_output_buffer_of_the_one_before_it(simulate):
    # f32: A, B and C take 1024 bytes each, and output_kib is 1. A read takes 34000 + 1024 x 20 = 54480.
    def kernel(tl, a, b, c):
        tl.composite("gemm", a, b, out=c, tile=ONE_TILE)

    changes = (("output_kib: 64", "output_kib: 1"),)
    run = simulate(kernel, (32, 16, "f32"), (16, 16, "f32"), (32, 16, "f32"), changes=changes)
    # FETCH 1000 + 2048 x 5; GEMM at a quarter of a MAC a cell: 16 x 4 + 30 cycles; STORE 1000 + 1024 x 5.
    end = 7000 + 2 * 54480 + 11240 + 94000 + 6120 + 54480
    assert run.times(0, 0)[5][2] == end == 281800
    assert run.times(0, 1)[0][:2] == (281800, 281800)
    assert run.end_ps == 281800 + (281800 - 7000)


def test_buffers_larger_than_the_tcm_are_refused(chip):
    from kb_engine import Engine

    with pytest.raises(TopologyError) as caught:
        Engine(chip(("size: 1 MiB}, bw_gbs: 200", "size: 127 KiB}, bw_gbs: 200")))
    assert str(caught.value) == (
        "sip0.cube0.pe0.pe_scheduler: got tile buffers of 131072 bytes, needs at most the 130048 bytes of "
        "sip0.cube0.pe0.pe_tcm; use a smaller input_kib or output_kib"
    )


def gemm_of_32(tl, a, b, c):
    tl.composite("gemm", a, b, out=c, tile=(32, 32, 32))


def gemm_of_100(tl, a, b, c):
    tl.composite("gemm", a, b, out=c)


HERE = "test_pe_scheduler.py"
LINE_OF_32 = gemm_of_32.__code__.co_firstlineno + 1
LINE_OF_ANY = gemm_of_100.__code__.co_firstlineno + 1


@pytest.mark.parametrize(
    ("kernel", "change", "message"),
    [
        (
            gemm_of_32,
            ("input_kib: 64", "input_kib: 3"),
            (
                f"{HERE}:{LINE_OF_32}: sip0.cube0.pe0.pe_tcm: got a tile whose input buffer takes 4 KiB, "
                "needs at most the 3 KiB of input_kib; use a smaller tile"
            ),
        ),
        (
            gemm_of_32,
            ("output_kib: 64", "output_kib: 1"),
            (
                f"{HERE}:{LINE_OF_32}: sip0.cube0.pe0.pe_tcm: got a tile whose output buffer takes 2 KiB, "
                "needs at most the 1 KiB of output_kib; use a smaller tile"
            ),
        ),
        (
            gemm_of_32,
            ("size: 64 KiB", "size: 8191 B"),
            (
                f"{HERE}:{LINE_OF_32}: sip0.cube0.pe0.pe_fetch_store: got a tile of 8192 bytes (operands and "
                "accumulator), needs at most the register file's 8191; use a smaller tile"
            ),
        ),
        (
            gemm_of_32,
            ("clock_ghz: 1.0", "clock_ghz: 1.0, macs_per_cell: {i8: 2, bf16: 1}"),
            (
                f"{HERE}:{LINE_OF_32}: sip0.cube0.pe0.pe_gemm: got f16 operands, needs one of i8, bf16; "
                "add it to macs_per_cell"
            ),
        ),
        (
            gemm_of_100,
            ("size: 64 KiB", "size: 191 B"),
            (
                f"{HERE}:{LINE_OF_ANY}: gemm: got 65536 bytes of input buffer, 65536 of output buffer, 191 of "
                "registers, needs room for one tile of 1x1x1; make the buffers larger"
            ),
        ),
    ],
    ids=["input buffer", "output buffer", "register file", "dtype", "no tile at all"],
)
def test_what_does_not_fit_is_refused_at_the_kernels_line(simulate, kernel, change, message):
    with pytest.raises(KernelError) as caught:
        simulate(kernel, (32, 32, "f16"), (32, 32, "f16"), (32, 32, "f16"), changes=(change,))
    assert str(caught.value) == message


def test_the_scheduler_chooses_a_tile_that_two_of_fit(simulate):
    # 1x1x1 doubled k, n, m in turn: 16x16x16 takes 1 KiB of operands and 1 KiB of accumulator, twice 4 KiB; the next
    # step, k = 32, would take 2 KiB and 1 KiB, twice 6 KiB.
    run = simulate(
        gemm_of_100, (64, 64, "f16"), (64, 64, "f16"), (64, 64, "f16"), changes=(("size: 64 KiB", "size: 4 KiB"),)
    )
    assert run.plans[0].grid == (4, 4, 4)


@pytest.mark.parametrize(
    ("block", "stage_type"), [(PeDma, StageType.DMA_WRITE), (PeFetchStore, StageType.STORE), (PeGemm, StageType.GEMM)]
)
def test_a_block_that_finishes_a_tile_twice_is_named(simulate, monkeypatch, block, stage_type):
    def begin(self, token, finish):
        finishes = 2 if token.stages[token.index].stage_type is stage_type else 1
        for number in range(finishes):
            self.clock.call_at(self.clock.now + 1000 * (number + 1), finish, token)

    monkeypatch.setattr(block, "begin", begin)
    name = {PeDma: "pe_dma", PeFetchStore: "pe_fetch_store", PeGemm: "pe_gemm"}[block]
    with pytest.raises(
        PipelineError, match=rf"^sip0\.cube0\.pe0\.{name}: tile 0 of {HERE}:\d+: got a second end of its "
    ):
        simulate(gemm_of_32, (32, 32, "f16"), (32, 32, "f16"), (32, 32, "f16"))


def test_an_operand_of_a_composite_on_its_way_cannot_be_freed(simulate):
    refused = []

    def kernel(tl, a, b, c):
        x = tl.load(a)
        handle = tl.composite("gemm", x, b, out=c)
        try:
            tl.free(x)
        except KernelError as error:
            refused.append(error.got)
        tl.wait(handle)
        tl.free(x)

    simulate(kernel, (16, 16, "f16"), (16, 16, "f16"), (16, 16, "f16"))
    assert refused == ["tl.free of an operand of a composite or a message on its way"]


def test_room_for_tiles_is_what_the_topology_says(chip):
    changes = (
        ("input_kib: 64", "input_kib: 48"),
        ("output_kib: 64", "output_kib: 32"),
        ("size: 64 KiB", "size: 24 KiB"),
    )
    (pe,) = Engine(chip(*changes)).pes.values()
    assert pe.scheduler.tile_room == TileRoom(
        input_nbytes=48 * 1024, output_nbytes=32 * 1024, register_nbytes=24 * 1024
    )
