"""One transfer at a time a channel; reading and writing have a channel each."""

from kb_messages import FabricTransfer, StageType

READ = WRITE = 44240  # 2000 + 1000 + 512 x 20 + 30000 + 1000, see test_pipeline.py


def load(tl, a):
    tl.load(a)


def test_set_up_comes_before_the_request(simulate):
    late = simulate(load, (16, 16, "f16"), changes=(("setup_ns: 2", "setup_ns: 12.5"),))
    assert late.times(0, 0) == [(7000, 7000, 7000 + 12500 + 42240, 61740)]
    (transfer,) = late.traced(FabricTransfer)
    assert (transfer.src, transfer.dst) == ("sip0.cube0.pe0.pe_dma", "sip0.cube0.hbm0")
    assert (transfer.t_start_ps, transfer.t_end_ps, transfer.nbytes) == (19500, 61740, 512)


def test_a_channel_serves_one_transfer_from_set_up_to_the_last_byte(simulate):
    def kernel(tl, a, b):
        tl.composite("gemm", a, b, tile=(16, 16, 16))

    run = simulate(kernel, (64, 16, "f16"), (16, 16, "f16"))
    reads = [run.times(0, tile)[index] for tile in range(4) for index in range(2)]
    assert [start for _, start, _, _ in reads] == [7000 + number * READ for number in range(8)]
    # The channel is kept while its tile waits for nothing: it is busy throughout.
    (server,) = [each for each in run.engine.servers if each.served == 8]
    assert server.stage_type is StageType.DMA_READ
    assert server.busy_ps == 8 * READ


def test_a_rectangle_costs_its_bytes_and_not_its_span(simulate):
    def kernel(tl, a):
        tl.load(a[0:16, 0:16])

    # 16 rows of 32 bytes, 128 apart.
    assert simulate(kernel, (16, 64, "f16")).end_ps == 7000 + READ


def test_reads_queue_in_front_of_reads_alone(simulate):
    def kernel(tl, a, c):
        x = tl.load(a[0:16, 0:16])
        tl.composite("gemm", a, a, tile=(16, 16, 16))
        tl.store(c, x)

    # 64 x 64 by 64 x 64 keeps the read channel busy for 64 x 88480; the store does not wait for any of it: issued at
    # 54240, submitted at 57240, taken after the composite at 62240.
    run = simulate(
        kernel, (64, 64, "f16"), (16, 16, "f16"), changes=(("pe_dma, queue_depth: 4", "pe_dma, queue_depth: 64"),)
    )
    assert run.times(2, 0)[0][:2] == (62240, 62240)
    assert run.end_ps > 64 * 88480
