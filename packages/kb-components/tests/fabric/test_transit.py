"""The bridge between the halves: 3000 ps for a head, 40 ps a byte. The rest of the arithmetic: test_pipeline.py."""

import pytest

from kb_components.fabric.transit import Transit, TransitSpec
from kb_engine.block import Context
from kb_engine.timing import Clock

PE0, PE1, PE2 = (f"sip0.cube0.pe{number}" for number in range(3))
HALVES = (32, 16, "f16", (2, 1))
"""Rows 0 to 16 lie in slice 0, rows 16 to 32 in slice 1, 512 bytes each."""


@pytest.mark.parametrize(("overhead_ns", "expected_ps"), [(0, 0), (3, 3000), (0.0001, 1)])
def test_overhead_is_that_of_the_spec(overhead_ns, expected_ps):
    assert Transit(TransitSpec(overhead_ns=overhead_ns), Context("b", Clock(), None, 0)).overhead_ps() == expected_ps


def test_overhead_is_nothing_unless_the_topology_says():
    assert Transit(TransitSpec(), Context("b", Clock(), None, 0)).overhead_ps() == 0


def test_a_read_from_the_other_half_pays_for_the_bridge(simulate, two_halves):
    def kernel(tl, a):
        tl.load(a[16:32])

    run = simulate(kernel, HALVES, changes=two_halves)
    # Request: set up at 9000; crossbar, bridge, crossbar: 14000. First byte out of the slice at 44000, last at 54240.
    # To the bridge from 45000 on: 512 x 40 = 20480 ends at 65480, later than the last byte came. Bridge, and the link
    # behind it, from 48000: ends at 68480, as the last byte does. Crossbar: 69480.
    assert run.times(0, 0) == [(7000, 7000, 69480, 69480)]


def test_a_write_to_the_other_half_pays_for_the_bridge(simulate, two_halves):
    def kernel(tl, a):
        tl.store(a[16:32], tl.load(a[0:16]))

    run = simulate(kernel, HALVES, changes=two_halves)
    # Set up at 60240. Head at the crossbar 61240; its link to the bridge until 61240 + 20480 = 81720. Head at the far
    # side of the bridge 64240, tail 84720; crossbar 85720. HBM has taken the bytes by then: it waits for the last one,
    # then 30000, and the acknowledgement pays 1000 + 3000 + 1000.
    assert run.times(1, 0) == [(58240, 58240, 85720 + 30000 + 5000, 120720)]


def test_two_reads_over_the_bridge_share_it(simulate, two_halves):
    def kernel(tl, a):
        tl.load(a[16:32])

    run = simulate(kernel, HALVES, pes=(0, 1), changes=two_halves)
    # PE 1's bytes leave the slice 10240 later and are at the bridge's link at 55240, when PE 0 has sent 10240 / 40 =
    # 256 bytes. Half the link each: PE 0's other 256 take 256 x 80, until 75720. PE 1's second 256 then take 256 x 40,
    # until 85960. The bridge and the crossbar take 3000 and 1000 more.
    assert run.launch.pe_end_ps == {PE0: 75720 + 4000, PE1: 85960 + 4000}


def test_a_read_and_a_write_in_one_direction_share_the_bridge(simulate, two_halves):
    def kernel(tl, a, big):
        if tl.program_id() == 0:
            tl.load(big[128:256])
        else:
            tl.store(a[0:16], tl.load(a[16:32]))

    run = simulate(kernel, HALVES, (256, 16, "f16", (2, 1)), pes=(0, 2), changes=two_halves)
    # PE 2's read of its own slice arrives first, at 10000, and holds it until 20240; PE 2 has it at 51240.
    # PE 0's 4096 bytes arrive at 14000 and hold the slice 20240 to 102160: first byte at the crossbar 51240. The link
    # to the bridge takes 40 a byte: 250 of them until PE 2's write is there, at 51240 + 7000 + 2000 + 1000 = 61240.
    # Half the link each: the write's 512 bytes take 512 x 80, until 102200; 3000 over the bridge, 1000 through the
    # crossbar, 30000 at the slice and 5000 back. PE 0's other 4096 - 250 - 512 = 3334 bytes then take 40 each.
    assert run.launch.pe_end_ps == {PE0: 102200 + 3334 * 40 + 4000, PE2: 102200 + 4000 + 30000 + 5000}


def test_opposite_directions_do_not_meet(simulate, two_halves):
    def kernel(tl, a):
        tl.load(a[16:32] if tl.program_id() == 0 else a[0:16])

    run = simulate(kernel, HALVES, pes=(0, 2), changes=two_halves)
    assert run.launch.pe_end_ps == {PE0: 69480, PE2: 69480}
