"""One slice: first come, first served, the latency of one request overlapping the bytes of others."""

import pytest

from kb_components.memory.hbm.fixed import HbmFixed, HbmFixedSpec
from kb_engine.block import Context
from kb_engine.timing import Clock

PES = [f"sip0.cube0.pe{number}" for number in range(4)]


@pytest.mark.parametrize(
    ("bw_gbs", "latency_ns", "nbytes", "occupancy_ps", "latency_ps"),
    [
        (50, 30, 512, 10240, 30000),
        (50, 30, 1, 20, 30000),
        (102.4, 45, 1024, 10000, 45000),
        (102.4, 45, 1, 10, 45000),  # 9.765625, rounded up
        (102.4, 45, 128 * 1024, 1280000, 45000),
        (3, 0.5, 2, 667, 500),
    ],
)
@pytest.mark.parametrize("write", [False, True])
def test_cost_is_bytes_over_bandwidth_and_one_latency(bw_gbs, latency_ns, nbytes, occupancy_ps, latency_ps, write):
    block = HbmFixed(HbmFixedSpec(bw_gbs=bw_gbs, latency_ns=latency_ns), Context("hbm0", Clock(), None, 1 << 30))
    assert block.occupancy_ps(nbytes, write) == occupancy_ps
    assert block.latency_ps(nbytes, write) == latency_ps


def test_two_readers_are_served_in_order_and_share_the_latency(simulate, two_pes):
    def kernel(tl, a):
        tl.load(a)

    run = simulate(kernel, (16, 16, "f16"), pes=(0, 1), changes=two_pes)
    # Both requests arrive at 10000. Bytes leave the slice 10000 to 20240 and 20240 to 30480, 30000 later each, and
    # take 1000 to the PE.
    assert run.launch.pe_end_ps == {PES[0]: 20240 + 31000, PES[1]: 30480 + 31000}
    hbm = run.engine.components["sip0.cube0.hbm0"]
    assert (hbm.busy_ps, hbm.read_nbytes, hbm.written_nbytes) == (20480, 1024, 0)


def test_a_write_waits_for_the_bytes_of_the_one_before_it(simulate, two_pes):
    def kernel(tl, a, c):
        rows = slice(0, 32) if tl.program_id() == 0 else slice(32, 48)
        tl.store(c[rows], tl.load(a[rows]))

    run = simulate(kernel, (48, 16, "f16"), (48, 16, "f16"), pes=(0, 1), changes=two_pes)
    # Reads of 1024 and 512 bytes: the slice is busy 10000 to 30480 and to 40720, the PEs have them at 61480 and 71720.
    assert run.times(0, 0)[0][2] == 10000 + 1024 * 20 + 31000 == 61480
    assert run.times(1, 0)[0][2] == 40720 + 31000 == 71720
    # Writes: 7000 to the DMA, 2000 set-up, 1000 to the slice, where they are at 71480 and 81720. The first holds it
    # until 71480 + 20480 = 91960, so the second is done at 91960 + 10240 + 31000.
    assert run.times(2, 0)[0] == (68480, 68480, 91960 + 31000, 122960)
    assert run.times(3, 0)[0] == (78720, 78720, 102200 + 31000, 133200)


def test_reads_and_writes_share_the_slice(simulate, two_pes):
    def kernel(tl, a, c):
        if tl.program_id() == 0:
            tl.store(c, tl.load(c))
        else:
            tl.load(a[0:16])
            tl.load(a)

    run = simulate(kernel, (64, 16, "f16"), (16, 16, "f16"), pes=(0, 1), changes=two_pes)
    # First loads as above: 51240 and 61480. The store is at the slice at 51240 + 10000 = 61240, and holds it until
    # 71480. The second load of 2048 bytes arrives at 61480 + 10000 = 71480: it just finds the slice free.
    by_line = {(record.component, record.name): record for record in run.records.values()}
    assert by_line[f"{PES[0]}.pe_dma", "dma_write"].t_end_ps == 71480 + 31000
    assert by_line[f"{PES[1]}.pe_dma", "dma_read"].t_end_ps == 71480 + 2048 * 20 + 31000
