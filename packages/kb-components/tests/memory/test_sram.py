"""A cube's shared memory: its cost, its ports, and how long the way over the NOC is."""

from fractions import Fraction

import numpy as np
import pytest

from kb_components.memory.sram import Sram, SramSpec
from kb_engine.block import Context, MemoryPart
from kb_engine.timing import Clock
from kb_messages import KernelError, Rectangle

ONES = np.ones((16, 16), np.float16)
HALF_KIB = Rectangle(0, 1, 512, 512)


def sram(**attributes):
    return Sram(SramSpec(bw_gbs=80, latency_ns=10, **attributes), Context("sram", Clock(), None, 1 << 20))


@pytest.mark.parametrize(("nbytes", "occupancy_ps"), [(0, 0), (1, 13), (512, 6400), (1 << 16, 819200)])
@pytest.mark.parametrize("write", [False, True])
def test_cost_is_bytes_over_bandwidth_and_one_latency(nbytes, occupancy_ps, write):
    assert sram().occupancy_ps(nbytes, write) == occupancy_ps  # 12.5 ps a byte, rounded up once
    assert sram().latency_ps(nbytes, write) == 10000


def test_reads_and_writes_take_turns_at_a_shared_port():
    memory = sram()
    assert memory.reserve(0, HALF_KIB, 0, False) == (10000, 16400)
    assert memory.reserve(0, HALF_KIB, 0, True) == (22800, 22800)  # 6400 + 6400 + 10000
    assert memory.reserve(0, HALF_KIB, 0, False) == (22800, 29200)


def test_separate_ports_do_not_wait_for_each_other():
    memory = sram(ports="separate")
    assert memory.reserve(0, HALF_KIB, 0, False) == (10000, 16400)
    assert memory.reserve(0, HALF_KIB, 0, True) == (16400, 16400)  # 6400 + 10000
    assert memory.reserve(0, HALF_KIB, 0, False) == (16400, 22800)
    assert memory.reserve(0, HALF_KIB, 0, True) == (22800, 22800)
    assert (memory.busy_ps, memory.read_nbytes, memory.written_nbytes) == (4 * 6400, 1024, 1024)


def test_each_port_says_from_when_to_when_bytes_hold_it():
    shared, separate = sram(), sram(ports="separate")
    assert (shared.has_write_port, separate.has_write_port) == (False, True)
    for memory in (shared, separate):
        memory.reserve(1000, HALF_KIB, 1000, False)
        assert memory.held_ps(HALF_KIB, False) == (1000, 7400)
        memory.reserve(2000, HALF_KIB, 2000, True)
    assert (shared.held_ps(HALF_KIB, True), separate.held_ps(HALF_KIB, True)) == ((7400, 13800), (2000, 8400))
    assert separate.held_ps(HALF_KIB, False) == (1000, 7400)


@pytest.mark.parametrize("pes", ["count: 1", "count: 3"], ids=["reserved ahead", "by events"])
def test_a_load_and_a_store_go_over_the_noc(chip_host, noc, pes):
    host = chip_host(*noc, ("pe_layout: {count: 1}", f"pe_layout: {{{pes}}}"))
    a, c = host.tensor("a", ONES, "f16", memory="sram"), host.empty("c", (16, 16), "f16", memory="sram")
    host.launch(lambda tl, a, c: tl.store(c, tl.load(a)), a, c, pes=[0])
    # Read: PE_CPU 3000, command 4000, set-up 2000, and 3000 to the SRAM at 12000. Its first byte leaves at 22000; the
    # 512 bytes take 12800 over the slowest link, and the NOC 3000: 37800.
    # Write: the same 12000 to the SRAM, where the last byte is 12800 later at 62600, 10000 to commit, and 3000 back.
    assert host.launches[0].end_ps == 37800 + 12000 + 12800 + 10000 + 3000
    np.testing.assert_array_equal(host.read(c), ONES)
    memory = host.engine.components["sip0.cube0.sram"]
    assert (memory.busy_ps, memory.read_nbytes, memory.written_nbytes) == (2 * 6400, 512, 512)


def test_two_pes_meet_at_the_sram(chip_host, noc, two_pes):
    host = chip_host(*noc, *two_pes)
    a = host.tensor("a", ONES, "f16", memory="sram")
    host.launch(lambda tl, a: tl.load(a), a)
    # Both requests are there at 12000; the SRAM's link has the first one's bytes from 22000 to 34800, and then the
    # second one's to 47600; 3000 more over the NOC.
    assert sorted(host.launches[0].pe_end_ps.values()) == [37800, 50600]


def test_no_link_to_the_sram_is_an_error_at_the_kernels_line(chip_host, noc):
    changes = (*noc, ("    - {from: sram, to: noc, bw_gbs: 40, length_mm: 0}\n", ""))
    host = chip_host(*changes)
    a = host.tensor("a", ONES, "f16", memory="sram")

    def kernel(tl, a):
        tl.load(a)

    with pytest.raises(KernelError) as caught:
        host.launch(kernel, a)
    assert str(caught.value) == (
        f"test_sram.py:{kernel.__code__.co_firstlineno + 1}: sip0.cube0.pe0.pe_dma -> sip0.cube0.sram: got no path, "
        "needs links through bridge, io_noc, noc, pcie_ep, serdes, switch, ucie, xbar; add such a link to "
        "`cube.links`; sip0.cube0.pe0.pe_dma reaches: sip0.cube0.hbm0, sip0.cube0.noc, sip0.cube0.xbar0, "
        "sip0.cube0.pe0.pe_tcm"
    )
    assert host.engine.session.n_ops == 0


def test_each_port_moves_bytes_of_its_own():
    memory = sram()
    memory.reserve(0, HALF_KIB, 0, False)
    memory.reserve(0, HALF_KIB, 0, True)
    each = Fraction(25, 2)  # picoseconds of a byte at 80 GB/s
    assert memory.parts == (MemoryPart("", 512, 512, each),)
    memory = sram(ports="separate")
    memory.reserve(0, HALF_KIB, 0, False)
    assert memory.parts == (MemoryPart("", 512, 0, each), MemoryPart("", 0, 0, each))
    memory.reserve(0, HALF_KIB, 0, True)
    assert memory.parts == (MemoryPart("", 512, 0, each), MemoryPart("", 0, 512, each))
