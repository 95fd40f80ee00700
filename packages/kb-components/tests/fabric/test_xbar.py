"""A crossbar half adds its overhead to every head."""

import pytest

from kb_components.fabric.xbar import Xbar, XbarSpec
from kb_engine.block import Context
from kb_engine.timing import Clock


@pytest.mark.parametrize(("overhead_ns", "expected_ps"), [(0, 0), (1, 1000), (2.5, 2500), (0.0001, 1)])
def test_overhead_is_that_of_the_spec(overhead_ns, expected_ps):
    assert Xbar(XbarSpec(overhead_ns=overhead_ns), Context("xbar0", Clock(), None, 0)).overhead_ps() == expected_ps


def test_a_read_pays_it_twice_and_so_does_a_write(simulate):
    def kernel(tl, a, c):
        tl.store(c, tl.load(a))

    run = simulate(kernel, (16, 16, "f16"), (16, 16, "f16"), changes=(("overhead_ns: 1", "overhead_ns: 6"),))
    # 44240 with an overhead of 1000, see test_pipeline.py.
    assert [record.t_end_ps - record.t_start_ps for record in run.records.values()] == [54240, 54240]


def test_ports_of_one_half_do_not_disturb_each_other(simulate, two_halves):
    def kernel(tl, a):
        tl.load(a[0:16] if tl.program_id() == 0 else a[16:32])

    # Each PE reads the slice of its own half.
    run = simulate(kernel, (32, 16, "f16", (2, 1)), pes=(0, 2), changes=two_halves)
    assert set(run.launch.pe_end_ps.values()) == {7000 + 44240}
