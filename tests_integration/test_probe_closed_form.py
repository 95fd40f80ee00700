"""Probes on four_sip against arithmetic by hand: every hop's picoseconds, as topologies/four_sip.yaml has them.

A hop is 7 ps a millimetre of wire, then the overhead of the node behind it. The wires: 2 mm PE to XBAR or NOC and from
die to die, 3 mm XBAR to HBM, NOC to SRAM and UCIe, and io_noc to its ports, 2.5 mm to the bridge, 4 mm inside the NOC,
5 mm from it to the XBAR, 500 mm from SIP to SIP, 200 mm on the board. Some sizes here; `nox -s cases` probes all.
"""

import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner
from sampled_cases import sampled, sampled_of_each

from kb_cli.main import kb
from kb_engine.probe import Phase
from kb_engine.probe import probe as measure
from kb_topology import loads_topology

TOPOLOGIES = Path(__file__).parents[1] / "topologies"

XBAR, BRIDGE, NOC, UCIE, IO_NOC, SERDES, PCIE_EP, SWITCH = 2000, 1000, 2000, 1000, 3000, 30000, 100000, 120000
HBM_LATENCY = 45000

INTO_HBM = 7 * 3
TO_NEXT_CUBE = (7 * 3 + UCIE) + (7 * 2 + UCIE)
FROM_NORTH_TO_SOUTH = (7 * 3 + NOC) + 2 * (7 * 4 + NOC) + TO_NEXT_CUBE
FROM_NORTH_TO_SLICE_7 = (7 * 3 + NOC) + (7 * 4 + NOC) + (7 * 5 + XBAR) + INTO_HBM
TO_IO_NOC = (7 * 2 + NOC) + (7 * 3 + UCIE) + (7 * 2 + IO_NOC)
DOWN_THE_EAST = (7 * 2 + UCIE) + 3 * FROM_NORTH_TO_SOUTH + FROM_NORTH_TO_SLICE_7
TO_NEXT_SIP = (7 * 3 + SERDES) + (7 * 500 + SERDES) + (7 * 3 + IO_NOC)

AWAY = {
    "sip0.cube0.hbm0": (7 * 2 + XBAR) + INTO_HBM,
    "sip0.cube0.hbm5": (7 * 2 + XBAR) + (7 * 2.5 + 0.5 + BRIDGE) + (7 * 2.5 + 0.5 + XBAR) + INTO_HBM,
    "sip0.cube1.hbm0": ((7 * 2 + NOC) + (7 * 4 + NOC) + TO_NEXT_CUBE + (7 * 3 + NOC) + (7 * 5 + XBAR) + INTO_HBM),
    "sip0.cube15.hbm7": TO_IO_NOC + DOWN_THE_EAST,
    "sip1.cube15.hbm7": TO_IO_NOC + TO_NEXT_SIP + DOWN_THE_EAST,
}
BACK = AWAY
"""A hop back pays the overhead of the node it leads to: the same nodes in another order, and the DMA none."""
GBS = {"sip0.cube0.hbm0": 102.4, "sip0.cube0.hbm5": 102.4}
"""The slice's own bandwidth where the XBAR leads to it; elsewhere the 64 GB/s between NOC and DMA are less."""


def probe(*args, topology="four_sip"):
    result = CliRunner().invoke(kb, ["probe", *map(str, args), "--topology", topology, "--json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def ends_ps(found):
    return [round(flow["latency_ns"] * 1000) for flow in found["flows"]]


READS = sampled([(nbytes, dst) for nbytes in (1, 64, 4096, 1 << 20) for dst in AWAY], 6)


@pytest.mark.parametrize(("nbytes", "dst"), READS)
def test_a_read_takes_what_its_hops_and_its_slowest_link_take(dst, nbytes):
    found = probe("sip0.cube0.pe0", dst, "--nbytes", nbytes)
    bytes_ps = math.ceil(nbytes * 1000 / GBS.get(dst, 64))
    assert found["latency_ps"] == AWAY[dst] + HBM_LATENCY + BACK[dst] + bytes_ps
    assert sum(round(hop["latency_ns"] * 1000) for hop in found["hops"]) == found["latency_ps"]


TO_NOC_0 = 7 * 2 + NOC
ACROSS_THE_NOC = 2 * (7 * 4 + NOC)
BEHIND_THE_NOC = {
    # SRAM is 3 mm from every router, and a TCM as far from its own as the DMA beside it.
    "sram": (TO_NOC_0 + 7 * 3, 12000),
    "pe1": (TO_NOC_0 + 7 * 2, 2000),
    "pe7": (TO_NOC_0 + ACROSS_THE_NOC + 7 * 2, 2000),
    "sip0.cube1.sram": (TO_NOC_0 + (7 * 4 + NOC) + TO_NEXT_CUBE + (7 * 3 + NOC) + 7 * 3, 12000),
}


ON_CHIPS = [(op, chip, dst) for op in ("read", "write") for chip in ("one_sip", "four_sip") for dst in BEHIND_THE_NOC]
SAMPLED = sampled_of_each(ON_CHIPS, lambda case: case[2], 2)


def test_each_destination_op_and_chip_is_probed():
    assert {dst for _, dst in READS} == set(AWAY)
    assert {dst for _, _, dst in SAMPLED} == set(BEHIND_THE_NOC)
    assert len({(op, chip) for op, chip, _ in SAMPLED}) == 4


@pytest.mark.parametrize(("op", "topology", "dst"), SAMPLED)
def test_sram_and_tcm_are_behind_the_noc(op, topology, dst):
    found = probe("pe0", dst, "--nbytes", 4096, "--op", op, topology=topology)
    away, memory = BEHIND_THE_NOC[dst]
    assert found["latency_ps"] == 2 * away + memory + 4096 * 1000 // 64  # NOC and DMA: 64 GB/s


@pytest.mark.parametrize("nbytes", sampled([1, 64, 4096, 1 << 20], 2))
def test_a_message_to_the_host_goes_over_the_switch(nbytes):
    found = probe("sip0.cube0.pe0", "host", "--nbytes", nbytes)
    hops = TO_IO_NOC + (7 * 3 + PCIE_EP) + (7 * 200 + SWITCH) + 7 * 200
    assert found["latency_ps"] == hops + math.ceil(nbytes * 1000 / 63)


def test_two_flows_share_the_link_they_meet_on():
    nbytes, dst = 1 << 20, "sip0.cube1.hbm0"
    found = probe("sip0.cube0.pe0", dst, "--nbytes", nbytes, "--flows", 2, "--op", "write")
    # They meet on the 102.4 GB/s in front of the slice: their own links carry 64 each.
    shared_ps = round(2 * nbytes * 1000 / 102.4)
    assert ends_ps(found) == [AWAY[dst] + shared_ps + HBM_LATENCY + BACK[dst]] * 2


def test_four_flows_share_it_too():
    nbytes, dst = 1 << 20, "sip0.cube1.hbm0"
    found = probe("sip0.cube0.pe0", dst, "--nbytes", nbytes, "--flows", 4, "--op", "write")
    # PE 2 and PE 3 are a router of the NOC farther away, so they come later. Until then PE 0 and PE 1 have half of
    # the slice's link each, then all have a quarter, and when these two are through the others have half again.
    later_ps = 7 * 4 + NOC
    ahead = later_ps * 51.2 / 1000
    first_ps = math.ceil(later_ps + (nbytes - ahead) * 1000 / 25.6)
    last_ps = round(4 * nbytes * 1000 / 102.4)
    assert ends_ps(found) == [
        *[AWAY[dst] + first_ps + HBM_LATENCY + BACK[dst]] * 2,
        *[AWAY[dst] + last_ps + HBM_LATENCY + BACK[dst] + later_ps] * 2,
    ]


BANKED = [(setup_ns, nbytes) for setup_ns in (5, 5.3) for nbytes in (64, 1000, 388512)]


@pytest.mark.parametrize(("setup_ns", "nbytes"), sampled(BANKED, 4))
def test_a_probe_of_banked_memory_starts_at_no_time_of_the_dma(setup_ns, nbytes):
    """A clock edge or a refresh (at 3.9 us, as 388512 bytes end) is met where it is without the DMA's set-up."""
    text = (TOPOLOGIES / "one_cube_banked.yaml").read_text(encoding="utf-8")
    assert "setup_ns: 5" in text
    with_setup, without = (text.replace("setup_ns: 5", f"setup_ns: {each}") for each in (setup_ns, 0))
    found = measure(loads_topology(with_setup, "t.yaml"), "pe0", "hbm0", nbytes)
    assert found == measure(loads_topology(without, "t.yaml"), "pe0", "hbm0", nbytes)
    assert {part.phase for part in found.parts} == {Phase.REQUEST, Phase.MEMORY, Phase.DATA, Phase.BYTES}


def test_a_near_flow_is_served_before_a_far_one_that_begins_with_it():
    near, far = (AWAY[f"sip0.cube0.hbm{each}"] for each in (0, 5))
    bytes_ps = 4096 * 1000 / 102.4
    # From the other half and, next in the topology, from pe0 beside the slice, whose request is there first.
    found = probe("pe7", "hbm0", "--nbytes", 4096, "--flows", 2, topology="one_cube")
    first = near + HBM_LATENCY + bytes_ps
    assert ends_ps(found) == [first + bytes_ps + far, first + near]
