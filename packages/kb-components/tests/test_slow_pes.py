"""Slow PEs: the time of each stage by hand, beside the times of a PE that is not slow, to the picosecond."""

from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from components_two_cubes import HOST

from kb_engine import Engine
from kb_messages import TopologyError

SIDE = 16


def slow(factor, pe=1):
    return ("wire_ps_per_mm: 0\n", f"wire_ps_per_mm: 0\nslow: {{pe{pe}: {factor}}}\n")


def program(tl, *tensors):
    """A product of one tile, and a function of a loaded matrix, on the PE's own three tensors."""
    a, b, c = tensors[3 * tl.program_id() : 3 * tl.program_id() + 3]
    tl.wait(tl.composite("gemm", a, b, out=c, tile=(SIDE, SIDE, SIDE)))
    tl.store(a, tl.exp(tl.load(b)))


@pytest.fixture
def run(simulate, two_pes):
    def started(*changes, pes=(0, 1)):
        return simulate(program, *[(SIDE, SIDE, "f16")] * 6, changes=(*two_pes, *changes), pes=pes)

    return started


def durations(run, pe):
    """(stage, picoseconds) of each stage of *pe* in the order of commands, tiles and stages."""
    return [
        (record.name, record.t_end_ps - record.t_start_ps)
        for _, record in sorted(run.records.items())
        if record.component.startswith(f"sip0.cube0.pe{pe}.")
    ]


def by_hand(factor):
    """The stages of `program` on a PE that nobody disturbs: HBM 30 ns and 20 ps a byte, links 1 ns, DMA 2 ns set-up.

    The array takes 16 + 30 cycles, TCM 1 ns and 5 ps a byte, and the lanes 4 cycles for each group of 16 elements.
    """
    nbytes = 2 * SIDE * SIDE
    memory = 1000 + 30_000 + 20 * nbytes
    own = [ceil(factor * ns * 1000) for ns in (2, 46, 4 * SIDE)]
    port = [ceil(factor * 1000) + ceil(factor * 5 * size) for size in (nbytes, 2 * nbytes)]
    return own, port, memory


@pytest.mark.parametrize("factor", [1, 1.25, 1.5, 3, 7.3, 1000])
def test_every_stage_of_a_slow_pe_takes_its_factor(run, factor):
    exact = Fraction(str(factor))
    found = dict(durations(run(slow(factor), pes=(1,)), 1))
    usual = dict(durations(run(pes=(1,)), 1))
    (setup, gemm, math), (fetch, _), _ = by_hand(exact)
    assert found["gemm"] == gemm
    assert found["math"] == math
    assert found["fetch"] == fetch
    for transfer in ("dma_read", "dma_write"):
        assert found[transfer] - usual[transfer] == setup - 2000
    assert usual["gemm"] == 46_000


def test_the_cpu_and_the_scheduler_of_a_slow_pe_take_their_factor(simulate, two_pes):
    """3 ns to issue and 4 ns to decode a load: the HBM, the link and the crossbar keep their times."""

    def load(tl, a):
        tl.free(tl.load(a))

    def end_ps(*changes):
        return simulate(load, (SIDE, SIDE, "f16"), changes=(*two_pes, *changes), pes=(1,)).end_ps

    own = 3000 + 4000 + 2000
    assert end_ps(slow(1.5)) - end_ps() == own // 2
    assert end_ps(slow(7.1)) - end_ps() == own * 61 // 10


def test_other_pes_keep_their_times(run):
    assert durations(run(slow(3), pes=(0,)), 0) == durations(run(pes=(0,)), 0)
    slowed = run(slow(3))
    gemm = [ps for pe in (0, 1) for stage, ps in durations(slowed, pe) if stage == "gemm"]
    assert gemm == [46_000, 3 * 46_000]


def test_a_factor_of_one_changes_nothing(run):
    assert run(slow(1)).digest == run(slow("1.0")).digest == run().digest != run(slow(1.001)).digest


def test_a_message_into_the_tcm_of_a_slow_pe_takes_the_port_of_that_pe(chip, two_pes, noc):
    """The port takes 4 ns and 10 ps a byte."""
    engine = Engine(chip(*two_pes, *noc, slow(2)))
    quick, slowed = (engine.components[f"sip0.cube0.pe{pe}.pe_tcm"] for pe in (0, 1))
    assert (quick.latency_ps(2048, True), quick.occupancy_ps(2048, True)) == (4000, 20_480)
    assert (slowed.latency_ps(2048, True), slowed.occupancy_ps(2048, True)) == (8000, 40_960)


def test_lookups_of_a_slow_pe_take_their_factor(chip, two_pes, mmu):
    engine = Engine(chip(*two_pes, *mmu, slow(1.5)))
    quick, slowed = (engine.components[f"sip0.cube0.pe{pe}.pe_mmu"] for pe in (0, 1))
    assert (quick._hit_ps, quick._walk_ps) == (1000, 20_000)
    assert (slowed._hit_ps, slowed._walk_ps) == (1500, 30_000)


def test_equal_pes_share_their_attributes(chip, two_halves):
    engine = Engine(chip(*two_halves, ("wire_ps_per_mm: 0\n", 'wire_ps_per_mm: 0\nslow: {"pe[1:3]": 2, pe3: 3}\n')))
    specs = [engine.components[f"sip0.cube0.pe{pe}.pe_gemm"].spec for pe in range(4)]
    assert specs[1] is specs[2]
    assert [each.clock_ghz for each in specs] == [1.0, 0.5, 0.5, float(np.nextafter(1 / 3, 1))]
    assert [(each.rows, each.queue_depth) for each in specs] == [(16, 4)] * 4


def test_a_slow_pe_of_several_cubes(chip):
    engine = Engine(chip(*HOST, ("wire_ps_per_mm: 0\n", "wire_ps_per_mm: 0\nslow: {cube1.pe0: 2}\n")))
    clocks = {pe: engine.components[f"{pe}.pe_gemm"].spec.clock_ghz for pe in engine.pes}
    assert [pe for pe, clock in clocks.items() if clock == 0.5] == ["sip0.cube1.pe0"]


def test_a_value_that_a_block_does_not_take_is_refused(chip, two_pes):
    with pytest.raises(TopologyError) as caught:
        Engine(chip(*two_pes, ("cols: 16, clock_ghz: 1.0", "cols: 16, clock_ghz: 0.01"), slow(1000)))
    assert str(caught.value) == (
        "chip.yaml:3:1: $.slow: got a factor of 1000 for sip0.cube0.pe1, for which sip0.cube0.pe1.pe_gemm.clock_ghz is "
        "1e-05, needs >= 0.001; choose another factor"
    )
