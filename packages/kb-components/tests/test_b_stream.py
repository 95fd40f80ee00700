"""B streams from memory to registers, past TCM. A tile costs what it does in test_pipeline.py, FETCH moving A alone."""

import pytest

from kb_engine.block import WiringError
from kb_messages import KernelError, StageType, WaitReason

READ = WRITE = 44240
FETCH_A = 1000 + 512 * 5
GEMM = (16 + 30) * 1000
STORE = 1000 + 512 * 5
START = ISSUE = 3000 + 4000
REGISTERS = WaitReason.REGISTER_FILE
HERE = "test_b_stream.py"
SHAPES = (16, 80, "f16"), (80, 16, "f16"), (16, 16, "f16")
"""Five tiles over K."""


def streamed(tl, a, b, c, **more):
    tl.composite("gemm", a, b, out=c, tile=(16, 16, 16), b_stream=True, **more)


def with_a_pinned(tl, a, b, c):
    streamed(tl, tl.load(a), b, c)


def test_one_tile_alone(simulate):
    run = simulate(streamed, (16, 16, "f16"), (16, 16, "f16"), (16, 16, "f16"))
    ends = [START + READ, START + 2 * READ]
    ends += [ends[1] + FETCH_A, ends[1] + FETCH_A + GEMM, ends[1] + FETCH_A + GEMM + STORE]
    ends.append(ends[-1] + WRITE)
    starts = [START, *ends[:-1]]
    assert run.times(0, 0) == [(start, start, end, end) for start, end in zip(starts, ends, strict=True)]


SMALLEST = (("size: 64 KiB", "size: 2 KiB"), ("queue_depth: 4", "queue_depth: 1"))
"""Operands (1 KiB) and accumulator (1 KiB) of one tile, and queues of one."""


def test_a_read_of_b_waits_for_registers_where_there_are_those_of_one_tile(simulate):
    """A is read while the tile before is fetched and multiplied; B when its registers are free, behind GEMM."""
    run = simulate(streamed, *SHAPES, changes=SMALLEST)
    assert run.end_ps == START + READ + 5 * (READ + FETCH_A + GEMM) + STORE + WRITE
    waited = [run.records[0, tile, 1].waits_ps[REGISTERS] for tile in range(5)]
    assert waited == [0] + 4 * [FETCH_A + GEMM - READ]
    others = [record.waits_ps[REGISTERS] for key, record in run.records.items() if key[2] != 1]
    assert not any(others)


def test_with_a_pinned_the_whole_of_fetch_and_product_is_waited_for(simulate):
    run = simulate(with_a_pinned, *SHAPES, changes=SMALLEST)
    loaded = ISSUE + 34000 + 5 * 512 * 20
    assert run.end_ps == loaded + ISSUE + 5 * (READ + FETCH_A + GEMM) + STORE + WRITE
    assert [run.records[1, tile, 0].waits_ps[REGISTERS] for tile in range(5)] == [0] + 4 * [FETCH_A + GEMM]


def test_an_accumulator_is_claimed_by_the_first_read_of_b_too(simulate):
    """Over M, with registers for one tile: B of the next output is read when the one before is stored."""
    run = simulate(streamed, (48, 16, "f16"), (16, 16, "f16"), (48, 16, "f16"), changes=SMALLEST)
    assert run.end_ps == START + READ + 3 * (READ + FETCH_A + GEMM + STORE) + WRITE


SLOW_TCM = (("bw_gbs: 200", "bw_gbs: 2"),)


@pytest.mark.parametrize("tiles", [10, 40])
def test_where_the_tcms_port_is_the_slowest_a_tile_is_faster_by_the_bytes_of_b(simulate, tiles):
    """Over K, 500 ps a byte at the port: 513000 a tile with B, 257000 without, against 88480 of reads."""
    problem = (16, 16 * tiles, "f16"), (16 * tiles, 16, "f16"), (16, 16, "f16")
    around = START + 2 * READ + GEMM + (1000 + 512 * 500) + WRITE
    plain = simulate(
        lambda tl, a, b, c: tl.composite("gemm", a, b, out=c, tile=(16, 16, 16)), *problem, changes=SLOW_TCM
    )
    assert plain.end_ps == around + tiles * (1000 + 1024 * 500)
    streaming = simulate(streamed, *problem, changes=SLOW_TCM)
    assert streaming.end_ps == around + tiles * (1000 + 512 * 500)
    assert plain.end_ps - streaming.end_ps == tiles * 512 * 500


def epilogues(tl, row, column):
    return {
        "none": (),
        "bias": (tl.bias(row), tl.relu()),
        "column": (tl.scale(column),),
        "k_tile": (tl.dequant(row, scope="k_tile"), tl.bias(column)),
    }


@pytest.mark.parametrize("epilogue", ["none", "bias", "column", "k_tile"])
@pytest.mark.parametrize("a_pinned", [False, True])
@pytest.mark.parametrize("clock_ghz", [0.25, 4.0])
def test_the_smallest_register_file_and_queues_of_one_are_enough(simulate, chip, epilogue, a_pinned, clock_ghz):
    """A last product over K of 8, a last row of tiles of 4; every kind of tile passes."""
    needs = []

    def kernel(tl, a, b, c, row, column):
        left = tl.load(a) if a_pinned else a
        for _ in range(2):
            streamed(tl, left, b, c, epilogue=epilogues(tl, row, column)[epilogue])

    shapes = (36, 40, "f16"), (40, 32, "f16"), (36, 32, "f16"), (1, 32, "f16"), (36, 1, "f16")
    plans = simulate(kernel, *shapes).plans
    needs = max(plan.buffers.register_nbytes + plan.buffers.accumulator_nbytes for plan in plans)
    changes = (
        ("size: 64 KiB", f"size: {needs} B"),
        ("queue_depth: 4", "queue_depth: 1"),
        ("submission_depth: 8", "submission_depth: 1"),
        ("input_kib: 64", "input_kib: 2"),
        ("output_kib: 64", "output_kib: 1"),
        ("clock_ghz: 1.0", f"clock_ghz: {clock_ghz}"),
    )
    run = simulate(kernel, *shapes, changes=changes)
    assert [plan.n_tiles for plan in run.plans if plan.kind == "gemm"] == [3 * 2 * 3] * 2


def test_a_read_that_claims_registers_does_not_overtake_a_tile_whose_fetch_will(simulate):
    """The first command's third tile waits behind its second for FETCH, which waits for the port that its first's store
    holds. When the store frees registers the third needs, the second command, read past TCM, must not take them:
    it is fetched behind the third.
    """

    def kernel(tl, a, b, c, d, e):
        tl.composite("gemm", a, b, out=c, tile=(16, 16, 1))
        tl.composite("gemm", d, e, tile=(8, 8, 1), b_stream=True)

    shapes = (48, 1, "f16"), (1, 16, "f16"), (48, 16, "f16"), (8, 1, "f16"), (1, 8, "f16")
    run = simulate(kernel, *shapes, changes=(("size: 64 KiB", "size: 2304 B"), *SLOW_TCM))
    fetched = run.records[0, 2, 2].t_end_ps
    assert run.records[1, 0, 0].t_ready_ps == fetched


def test_reads_that_claim_registers_overtake_no_fetch_where_the_first_tile_alone_reads_a_bias(simulate):
    """The second command's tiles start with different reads. Its first tile takes no registers that the first command's
    last tile needs.
    """

    def kernel(tl, a, b, c, d):
        x, y = tl.load(a), tl.load(b)
        tl.composite("gemm", a, y, out=c, tile=(1, 1, 3))
        tl.composite("gemm", x, b, out=c, tile=(1, 1, 3), epilogue=[tl.bias(d)], b_stream=True)

    shapes = (1, 7, "f16"), (7, 1, "f16"), (1, 1, "f16"), (1, 1, "f16")
    changes = (
        ("size: 64 KiB", "size: 256 B"),
        ("clock_ghz: 1.0", "clock_ghz: 0.1"),
        ("queue_depth: 4", "queue_depth: 1"),
    )
    run = simulate(kernel, *shapes, changes=changes)
    assert run.records[3, 0, 0].t_ready_ps == run.records[2, 2, 1].t_end_ps
    assert [run.records[2, 2, index].name for index in (0, 1)] == ["dma_read", "fetch"]


def test_commands_that_stream_follow_each_other_without_a_gap(simulate):
    """40 tiles in two commands are read like 40 tiles of one, but for what two outputs cost at the end."""

    def kernel(tl, a, b, c):
        streamed(tl, a, b, c)
        streamed(tl, a, b, c)

    run = simulate(kernel, *SHAPES)
    assert run.records[1, 0, 0].t_start_ps == START + 5 * 2 * READ


def test_only_a_chip_that_streams_has_a_gate_at_its_reads(simulate):
    for kernel, gates in ((streamed, 1), (lambda tl, a, b, c: tl.composite("gemm", a, b, out=c), 0)):
        (server,) = (each for each in simulate(kernel, *SHAPES).engine.servers if each.stage_type is StageType.DMA_READ)
        assert len(server.gates) == gates


def line(kernel):
    return f"{HERE}:{kernel.__code__.co_firstlineno + 1}"


def test_a_chip_without_the_wire_refuses_it(simulate):
    with pytest.raises(KernelError) as caught:
        simulate(streamed, *SHAPES, changes=(("      - pe_dma -> pe_gemm\n", ""),))
    assert str(caught.value) == (
        f"{line(streamed)}: sip0.cube0.pe0.pe_dma: got a GEMM whose b streams to sip0.cube0.pe0.pe_gemm, needs a wire "
        "to it; add `pe_dma -> pe_gemm` to the wires of pe_template, or leave out b_stream"
    )


def test_a_fetch_store_that_owns_no_register_file_is_refused(simulate, monkeypatch):
    from kb_components.pe import pe_scheduler

    class Another:
        pass

    monkeypatch.setattr(pe_scheduler, "RegisterFileOwner", Another)
    with pytest.raises(WiringError) as caught:
        simulate(streamed, *SHAPES)
    assert str(caught.value) == (
        "sip0.cube0.pe0.pe_scheduler: got a wire to sip0.cube0.pe0.pe_fetch_store, whose PeFetchStore is no Another, "
        "needs a pe_fetch_store that is one; derive it from Another"
    )


def b_loaded(tl, a, b, c):
    streamed(tl, a, tl.load(b), c)


def test_a_b_that_is_loaded_cannot_stream(simulate):
    with pytest.raises(KernelError) as caught:
        simulate(b_loaded, *SHAPES)
    assert str(caught.value) == (
        f"{line(streamed)}: gemm b_stream: got a b that is pinned in TCM, needs one in memory; leave out b_stream"
    )
