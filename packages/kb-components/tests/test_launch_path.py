"""Launches from the host to the PEs and back, by hand. Times are in picoseconds; messages of 0 bytes pay latency alone.

From the host: 100000 (call) + 20000 (pcie_ep) + 3000 (io_noc) = 123000 at io_cpu, read by 133000. From there
3000 (io_noc) + 5000 (ucie 0) + 2000 (noc) = 10000 to the m_cpu of cube 0, which reads until 150000, and 2000 (noc) more
to its PEs: 152000. The m_cpu of cube 1 is 5000 (its ucie) further away: 157000 at its PEs. That is when all start.
"""

from importlib.metadata import EntryPoint, entry_points

import pytest
from components_two_cubes import HOST, TWO_SIPS, nothing

from kb_engine import Engine, Host
from kb_engine.engine import GROUP, Registry
from kb_engine.observe import Callbacks
from kb_messages import (
    CubeTarget,
    FabricTransfer,
    KernelEnd,
    KernelError,
    KernelStart,
    LaunchResponse,
    LaunchSent,
    TopologyError,
)

PES = [f"sip0.cube{cube}.pe{pe}" for cube in (0, 1) for pe in (0, 1)]
START = 157000
BACK = 2000 + (2000 + 5000 + 5000 + 3000) + 3000 + 20000
"""From a PE of cube 1: noc, then m_cpu to io_cpu, and io_cpu to the host. Answers are counted at no cost."""


def test_all_pes_start_when_the_farthest_is_reached(host):
    result = host().launch(nothing)
    assert (result.call_ps, result.target_start_ps, result.start_ps) == (0, START, START)
    assert result.pe_start_ps == dict.fromkeys(PES, START)
    assert result.late_ps == {}


def test_the_launch_ends_when_its_answer_is_back(host):
    result = host().launch(nothing)
    assert result.end_ps == START
    assert result.response_ps == START + BACK


def test_the_answer_waits_for_the_last_kernel(host):
    chip = host()
    a = chip.empty("a", (16, 16), "f16", slices=[0])
    result = chip.launch(lambda tl, a: tl.composite("exp", a, out=a) if tl.program_id() == 3 else None, a, pes="all")
    assert result.end_ps == result.pe_end_ps[PES[3]] > START
    assert result.response_ps == result.end_ps + BACK


def test_a_launch_on_one_near_cube_starts_earlier(host):
    result = host().launch(nothing, targets=[CubeTarget(sip=0, cube=0)])
    assert result.pe_start_ps == dict.fromkeys(PES[:2], START - 5000)


def test_some_pes_of_some_cubes(host):
    result = host().launch(nothing, targets=[CubeTarget(sip=0, cube=1, pes=(1,)), CubeTarget(sip=0, cube=0, pes=(0,))])
    assert result.pe_start_ps == {"sip0.cube1.pe1": START, "sip0.cube0.pe0": START}


def test_programs_count_as_pes_are_named(host):
    programs = {}
    chip = host()

    def kernel(tl):
        programs[len(programs)] = (tl.program_id(), tl.num_programs())

    chip.launch(kernel, pes=[3, 0])
    assert sorted(programs.values()) == [(0, 2), (1, 2)]
    assert list(chip.launches[0].pe_start_ps) == [PES[3], PES[0]]


def test_left_out_the_target_is_the_cubes_that_own_a_shard(host):
    chip = host()
    near, far = (chip.empty(name, (16, 16), "f16", slices=[number]) for number, name in enumerate("ab"))
    assert list(chip.launch(nothing, far).pe_start_ps) == PES[2:]
    assert list(chip.launch(nothing, [far], near).pe_start_ps) == PES
    assert list(chip.launch(nothing, 7).pe_start_ps) == PES
    assert list(chip.launch(nothing, far, pes="all").pe_start_ps) == PES


def test_two_launches_one_after_the_other(host):
    chip = host()
    first, second = chip.launch(nothing), chip.launch(nothing)
    assert second.call_ps == first.response_ps == START + BACK
    assert second.start_ps == second.call_ps + START


def test_the_first_io_cpu_counts_the_way_over_the_others(host):
    # io_cpu 0 sends to io_cpu 1 over io_noc, pcie_ep, switch, pcie_ep, io_noc: 3000 + 20000 + 40000 + 20000 + 3000.
    # That reads for 10000, and its cube 1 is 10000 + 5000 + 7000 + 2000 away, as in SIP 0. The switch is 40000 on the
    # way from the host, too.
    start = (133000 + 40000) + 86000 + 10000 + 24000
    result = host(*TWO_SIPS).launch(nothing)
    assert len(result.pe_start_ps) == 8
    assert set(result.pe_start_ps.values()) == {start}
    assert result.response_ps == start + (2000 + 15000) + 86000 + (23000 + 40000)


def test_a_launch_on_the_second_sip_alone_goes_there_at_once(host):
    result = host(*TWO_SIPS).launch(nothing, targets=[CubeTarget(sip=1, cube=0)])
    assert set(result.pe_start_ps.values()) == {START - 5000 + 40000}


def test_launches_with_bytes_wait_for_each_other_on_the_first_hop_and_start_late(host):
    # Two messages of 4096 bytes share the link from io_cpu, 62.5 ps a byte: both have left after 2 x 256000. All links
    # behind are wider. The PEs of cube 0 would have been reached 5000 before the target, those of cube 1 at it.
    slip = 2 * 4096 * 625 // 10
    result = host(("io_cpu, overhead_ns: 10", "io_cpu, overhead_ns: 10, launch_nbytes: 4096")).launch(nothing)
    assert result.target_start_ps == START
    assert result.late_ps == {**dict.fromkeys(PES[:2], slip - 5000), **dict.fromkeys(PES[2:], slip)}
    assert result.pe_start_ps == {pe: START + late for pe, late in result.late_ps.items()}


def test_one_message_with_bytes_slips_by_its_own_time(host):
    changes = ("io_cpu, overhead_ns: 10", "io_cpu, overhead_ns: 10, launch_nbytes: 4096")
    result = host(changes).launch(nothing, targets=[CubeTarget(sip=0, cube=1)])
    assert result.late_ps == dict.fromkeys(PES[2:], 256000)


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([(4, 0)], "sip0.io0.io_cpu: got a message for sip4, needs one of sip0 to sip0"),
        ([(0, 0), (0, 9)], "sip0.io0.io_cpu: got a message for sip0.cube9, needs one of sip0.cube0 to sip0.cube1"),
        (
            [(0, 0), (0, 1, (0, 7))],
            "sip0.cube1.m_cpu: got a message for sip0.cube1.pe7, needs one of sip0.cube1.pe0 to sip0.cube1.pe1",
        ),
    ],
)
def test_a_target_that_is_not_there_is_an_answer(host, targets, message):
    trace = []
    chip = host(observers=[Callbacks(on_trace=trace.append)])
    with pytest.raises(KernelError) as caught:
        chip.launch(
            nothing, targets=[CubeTarget(sip=each[0], cube=each[1], pes=(*each[2:], "all")[0]) for each in targets]
        )
    assert str(caught.value) == message
    assert not [event for event in trace if isinstance(event, KernelStart)]  # all or none
    assert trace[-1] == LaunchResponse(t_ps=133000 + 23000, launch=0, ok=False)
    assert chip.launch(nothing).start_ps == 156000 + START


def test_a_pe_is_named_once(host):
    with pytest.raises(KernelError) as caught:
        host().launch(nothing, targets=[CubeTarget(sip=0, cube=0), CubeTarget(sip=0, cube=0, pes=(1,))])
    assert str(caught.value) == "launch: got sip0.cube0.pe1 twice, needs each PE at most once"


def test_the_trace_has_the_launch_in_order(host):
    trace = []
    host(observers=[Callbacks(on_trace=trace.append)]).launch(nothing)
    assert [event for event in trace if not isinstance(event, FabricTransfer)] == [
        LaunchSent(t_ps=100000, launch=0, n_pes=4),
        *(KernelStart(t_ps=START, launch=0, pe=pe) for pe in PES),
        *(KernelEnd(t_ps=START, launch=0, pe=pe) for pe in PES),
        LaunchResponse(t_ps=START + BACK, launch=0, ok=True),
    ]


def test_messages_on_the_fabric_are_traced(host):
    trace = []
    host(observers=[Callbacks(on_trace=trace.append)]).launch(nothing, targets=[CubeTarget(sip=0, cube=0, pes=(1,))])
    assert [(each.src, each.dst, each.t_end_ps) for each in trace if isinstance(each, FabricTransfer)] == [
        ("host", "sip0.io0.io_cpu", 123000),
        ("sip0.io0.io_cpu", "sip0.cube0.m_cpu", 143000),
        ("sip0.cube0.m_cpu", "sip0.cube0.pe1.pe_cpu", 152000),
        ("sip0.cube0.pe1.pe_cpu", "sip0.cube0.m_cpu", 154000),
        ("sip0.cube0.m_cpu", "sip0.io0.io_cpu", 164000),
        ("sip0.io0.io_cpu", "host", 187000),
    ]


def test_a_part_of_the_way_is_refused_at_its_place(chip):
    m_cpu = "    m_cpu: {kind: m_cpu, impl: builtin.m_cpu, overhead_ns: 7}\n"
    without = (m_cpu, ""), ("    - {from: m_cpu, to: noc, bw_gbs: 100, length_mm: 0}\n", "")
    with pytest.raises(TopologyError) as caught:
        Engine(chip(*HOST, *without))
    assert str(caught.value) == (
        "chip.yaml:6:5: $.system.nodes.host: got a topology with host and without m_cpu, needs host, io_cpu and m_cpu, "
        "or none of them; without them launches, host reads and host writes take no time"
    )


def test_a_way_with_no_link_is_refused_at_its_place(chip):
    with pytest.raises(TopologyError) as caught:
        Engine(chip(*HOST, ('    - {from: "pe[*].pe_cpu", to: noc', '    - {from: "pe[0].pe_cpu", to: noc')))
    assert str(caught.value).startswith(
        "chip.yaml:31:7: $.cube.pe_template.nodes.pe_cpu: got no path from sip0.cube0.m_cpu to sip0.cube0.pe1.pe_cpu, "
        "needs "
    )


def test_another_kind_of_block_for_the_host_is_refused(chip):
    with pytest.raises(TopologyError) as caught:
        Engine(chip(*HOST, ("impl: builtin.host, overhead_ns: 100, dma_channels: 2", "impl: builtin.transit")))
    assert str(caught.value) == (
        "chip.yaml:6:24: $.system.nodes.host.impl: got builtin.transit for the host, needs a block that is a HostPort"
    )


def test_without_a_host_a_launch_takes_no_time(chip_host):
    result = chip_host().launch(nothing)
    assert (result.call_ps, result.start_ps, result.end_ps, result.response_ps) == (0, 0, 0, 0)


def test_another_io_cpu_is_a_matter_of_its_impl(chip):
    theirs = EntryPoint("acme.io_cpu", "components_two_cubes:SlowIoCpu", GROUP)
    registry = Registry([*entry_points(group=GROUP), theirs])
    topology = chip(*HOST, ("impl: builtin.io_cpu", "impl: acme.io_cpu"))
    result = Host(Engine(topology, registry=registry)).launch(nothing)
    assert result.pe_start_ps == dict.fromkeys(PES, START - 10000 + 1_000_000)
    assert result.response_ps == result.start_ps + BACK
