"""The cost of the two ports, and a TCM as the memory that a DMA reads or writes."""

import numpy as np
import pytest

from kb_components.pe.pe_tcm import PeTcm, PeTcmSpec
from kb_engine.block import Context
from kb_engine.timing import Clock
from kb_messages import KernelError, WaitReason

ONES = np.ones((16, 16), np.float16)


@pytest.mark.parametrize(
    ("bw_gbs", "latency_ns", "nbytes", "expected_ps"),
    [
        (200, 1, 1024, 1000 + 5120),
        (200, 0, 1024, 5120),
        (512, 2, 512, 2000 + 1000),
        (512, 2, 1, 2000 + 2),  # 1.953125 ps, rounded up once
        (102.4, 0.5, 1024, 500 + 10000),  # 1000 / 102.4 is 9.765625 ps a byte exactly
        (3, 0, 3, 1000),  # and not three times 333.4
        (200, 0.0001, 0, 1),
    ],
)
def test_access_is_latency_and_bytes_over_bandwidth(bw_gbs, latency_ns, nbytes, expected_ps):
    block = PeTcm(PeTcmSpec(bw_gbs=bw_gbs, latency_ns=latency_ns), Context("pe0.pe_tcm", Clock(), None, 1 << 20))
    assert block.access_ps(nbytes) == expected_ps


def test_the_port_admits_one_at_a_time_and_says_why_others_wait():
    port = PeTcm(PeTcmSpec(bw_gbs=200), Context("pe0.pe_tcm", Clock(), None, 1 << 20)).port
    assert port.reason is WaitReason.TCM_PORT
    assert port.admit("first")
    assert not port.admit("second")
    port.leave("first")
    assert port.admit("second")


@pytest.mark.parametrize(
    ("more", "occupancy_ps", "latency_ps"),
    [({}, 2560, 1000), ({"dma_bw_gbs": 100}, 5120, 1000), ({"dma_latency_ns": 0}, 2560, 0)],
)
def test_the_dma_port_is_like_the_other_unless_it_says(more, occupancy_ps, latency_ps):
    block = PeTcm(PeTcmSpec(bw_gbs=200, latency_ns=1, **more), Context("pe0.pe_tcm", Clock(), None, 1 << 20))
    assert [block.occupancy_ps(512, write) for write in (False, True)] == [occupancy_ps] * 2
    assert [block.latency_ps(512, write) for write in (False, True)] == [latency_ps] * 2
    assert block.access_ps(512) == 1000 + 2560


def test_another_pes_tcm_is_reached_over_the_noc(chip_host, noc, two_pes):
    host = chip_host(*noc, *two_pes)
    a = host.tensor("a", ONES, "f16", memory="tcm", slices=[1])
    c = host.empty("c", (16, 16), "f16", memory="tcm", slices=[1])
    host.launch(lambda tl, a, c: tl.store(c, tl.load(a)), a, c, pes=[0])
    # Read: 3000 + 4000 + 2000, and 3000 over the NOC: at the port at 12000, 4000 to the first byte, 512 x 20 over the
    # DMA's link, 3000 over the NOC: 29240. Write: the same 12000, 10240 until the last byte is there, 4000, and 3000.
    assert host.launches[0].end_ps == 29240 + 12000 + 10240 + 4000 + 3000
    np.testing.assert_array_equal(host.read(c), ONES)
    tcm = host.engine.components["sip0.cube0.pe1.pe_tcm"]
    assert (tcm.busy_ps, tcm.read_nbytes, tcm.written_nbytes) == (2 * 5120, 512, 512)


@pytest.mark.parametrize("pes", ["count: 1", "count: 2"], ids=["reserved ahead", "by events"])
def test_a_pes_own_tcm_is_reached_without_links(chip_host, noc, pes):
    host = chip_host(*noc, ("pe_layout: {count: 1}", f"pe_layout: {{{pes}}}"))
    a = host.tensor("a", ONES, "f16", memory="tcm", slices=[0])
    c = host.empty("c", (16, 16), "f16", memory="tcm", slices=[0])
    host.launch(lambda tl, a, c: tl.store(c, tl.load(a)), a, c, pes=[0])
    # 3000 + 4000 + 2000, then 4000 + 512 x 10 at the DMA port; and the same back.
    assert host.launches[0].end_ps == 2 * (9000 + 9120)
    np.testing.assert_array_equal(host.read(c), ONES)


def test_what_a_pe_loads_and_stores_costs_its_own_tcm_nothing(chip_host, noc):
    host = chip_host(*noc)
    host.launch(lambda tl, a: tl.load(a), host.tensor("a", ONES, "f16"))
    assert host.launches[0].end_ps == 7000 + 44240  # as in test_pe_dma.py
    assert host.engine.components["sip0.cube0.pe0.pe_tcm"].busy_ps == 0


def test_no_link_to_another_pes_tcm_is_an_error_at_the_kernels_line(chip_host, noc, two_pes):
    host = chip_host(*noc, *two_pes, ('"pe[*].pe_tcm", to: noc', '"pe[0].pe_tcm", to: noc'))
    a = host.empty("a", (16, 16), "f16", memory="tcm", slices=[1])

    def kernel(tl, a):
        tl.composite("exp", a, out=a)

    with pytest.raises(KernelError) as caught:
        host.launch(kernel, a, pes=[0])
    assert str(caught.value) == (
        f"test_pe_tcm.py:{kernel.__code__.co_firstlineno + 1}: sip0.cube0.pe0.pe_dma -> sip0.cube0.pe1.pe_tcm: got no "
        "path, needs links through bridge, io_noc, noc, pcie_ep, serdes, switch, ucie, xbar; add such a link to "
        "`cube.links`; sip0.cube0.pe0.pe_dma reaches: sip0.cube0.hbm0, sip0.cube0.noc, sip0.cube0.sram, "
        "sip0.cube0.xbar0, sip0.cube0.pe0.pe_tcm, sip0.cube0.pe1.pe_dma"
    )
