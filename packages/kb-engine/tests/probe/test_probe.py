"""Probes of the toy chip: 10 ps a byte on links, 1000 ps through the crossbar, 30000 and 20 a byte at the memory."""

import re
from pathlib import Path

import pytest

from kb_engine.probe import Operation, Phase, ProbeError, probe
from kb_messages import TopologyError

PE, DMA, XBAR, HBM = "sip0.cube0.pe0", "sip0.cube0.pe0.pe_dma", "sip0.cube0.xbar0", "sip0.cube0.hbm0"
FOUR_PES = (("pe_layout: {count: 1}", "pe_layout: {count: 4}"),)
SLOW_LINK = ('to: "hbm[*]", bw_gbs: 100', 'to: "hbm[*]", bw_gbs: 25')


def parts(measured):
    return [(part.phase.value, part.node, part.latency_ps) for part in measured.parts]


def test_a_read_pays_request_memory_data_and_bytes(toy):
    measured = probe(toy(), PE, HBM, 512)
    assert parts(measured) == [
        ("request", XBAR, 1000),
        ("request", HBM, 0),
        ("memory", HBM, 30000),
        ("data", XBAR, 1000),
        ("data", DMA, 0),
        ("bytes", HBM, 512 * 20),
    ]
    assert measured.latency_ps == 32000 + 10240
    assert measured.bandwidth_gbs == 512 * 1000 / 42240
    assert (measured.bottleneck, measured.bottleneck_gbs) == (HBM, 50.0)


def test_a_write_pays_its_bytes_before_the_memory(toy):
    measured = probe(toy(), PE, HBM, 512, operation=Operation.WRITE)
    # The bytes take 10 a byte on the links. The memory takes 20, and is behind by the other half, then 30000.
    assert parts(measured) == [
        ("data", XBAR, 1000),
        ("data", HBM, 0),
        ("bytes", f"{DMA} -> {XBAR}", 5120),
        ("memory", HBM, 5120 + 30000),
        ("acknowledge", XBAR, 1000),
        ("acknowledge", DMA, 0),
    ]
    assert measured.latency_ps == 42240


def test_a_message_of_a_dma_to_itself_takes_no_time(toy):
    measured = probe(toy(), PE, DMA, 512)
    assert (measured.operation, measured.latency_ps, measured.bandwidth_gbs) == (Operation.SEND, 0, 0.0)
    assert measured.bottleneck == DMA


def test_further_flows_to_the_first_dma_come_from_the_others(toy):
    measured = probe(toy(*FOUR_PES), "pe1", "pe1.pe_dma", 512, 2)
    assert [flow.src for flow in measured.flows] == [f"sip0.cube0.pe{number}.pe_dma" for number in (1, 2)]
    assert measured.flows[0].latency_ps == 0 < measured.flows[1].latency_ps


def test_a_slow_link_is_the_bottleneck(toy):
    measured = probe(toy(SLOW_LINK), PE, HBM, 512)
    assert measured.latency_ps == 32000 + 512 * 40
    assert (measured.bottleneck, measured.bottleneck_gbs) == (f"{HBM} -> {XBAR}", 25.0)


def test_a_message_goes_one_way(toy):
    measured = probe(toy(), PE, HBM, 512, operation=Operation.SEND)
    assert parts(measured) == [("data", XBAR, 1000), ("data", HBM, 0), ("bytes", f"{DMA} -> {XBAR}", 5120)]


@pytest.mark.parametrize("flows", [2, 4])
def test_writes_from_several_dmas_share_the_link_to_the_memory(toy, flows):
    measured = probe(toy(*FOUR_PES, SLOW_LINK), PE, HBM, 512, flows, Operation.WRITE)
    # 40 ps a byte on the shared link, each flow its part of it. The memory takes 20 a byte, so it is done with
    # the bytes when they have come.
    shared = flows * 512 * 40
    assert [flow.latency_ps for flow in measured.flows] == [1000 + shared + 30000 + 1000] * flows
    assert [flow.src for flow in measured.flows] == [f"sip0.cube0.pe{number}.pe_dma" for number in range(flows)]
    assert measured.parts[-1].phase is Phase.OTHER_FLOWS
    assert measured.parts[-1].latency_ps == (flows - 1) * 512 * 40
    assert (measured.bottleneck, measured.bottleneck_gbs) == (f"{XBAR} -> {HBM}", 25.0)
    assert measured.bandwidth_gbs == flows * 512 * 1000 / (32000 + shared)


def test_reads_of_one_memory_follow_each_other(toy):
    measured = probe(toy(*FOUR_PES), PE, HBM, 512, 4)
    assert [flow.latency_ps for flow in measured.flows] == [32000 + turn * 10240 for turn in (1, 2, 3, 4)]


@pytest.mark.parametrize("nbytes", [100, 512, 1 << 18])
def test_flows_read_bytes_of_their_own_so_a_multicast_serves_each_alone(toy, nbytes):
    multicast = ("cube:\n", "multicast: {receivers: 8}\ncube:\n")
    measured = probe(toy(*FOUR_PES, multicast), PE, HBM, nbytes, 4)
    assert [flow.latency_ps for flow in measured.flows] == [32000 + turn * nbytes * 20 for turn in (1, 2, 3, 4)]
    assert measured.bandwidth_gbs < measured.bottleneck_gbs == 50.0
    assert sum(part.latency_ps for part in measured.parts) == measured.latency_ps


@pytest.mark.parametrize("nbytes", [0, 1, 64, 4096])
@pytest.mark.parametrize("operation", list(Operation))
@pytest.mark.parametrize("flows", [1, 3])
def test_parts_add_up(toy, nbytes, operation, flows):
    measured = probe(toy(*FOUR_PES), "pe1", "hbm0", nbytes, flows, operation)
    assert sum(part.latency_ps for part in measured.parts) == measured.latency_ps
    assert all(part.latency_ps >= 0 for part in measured.parts)


def test_further_flows_start_behind_the_first_and_go_round(toy):
    measured = probe(toy(*FOUR_PES), "pe2", "hbm0", 64, 3)
    assert [flow.src for flow in measured.flows] == [f"sip0.cube0.pe{number}.pe_dma" for number in (2, 3, 0)]


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (
            {"dst": "hbm0", "nbytes": 1 << 21},
            "--nbytes: got 2097152, needs at most the 1048576 bytes of sip0.cube0.hbm0",
        ),
        ({"dst": "hbm0", "nbytes": -1}, "--nbytes: got -1, needs 0 or more"),
        ({"dst": "hbm0", "flows": 2}, "--flows: got 2, needs at most 1, one for each DMA"),
        (
            {"dst": "xbar0", "operation": Operation.READ},
            f"{DMA} -> {XBAR}: got a read of a node without memory, needs a memory; use --op send",
        ),
    ],
)
def test_impossible_probes_are_refused(toy, asked, sentence):
    with pytest.raises(ProbeError) as caught:
        probe(toy(), "pe0", **{"nbytes": 64, **asked})
    assert str(caught.value) == sentence


def test_flows_whose_bytes_have_no_room_together_are_refused(toy):
    said = "--nbytes: got 262145 for each of 4 flows, which have bytes of their own, needs at most the 1048576 bytes of"
    with pytest.raises(ProbeError, match=rf"^{said} {HBM} together$"):
        probe(toy(*FOUR_PES), PE, HBM, (1 << 18) + 1, 4, Operation.WRITE)


def test_a_node_that_is_not_there_is_refused(toy):
    with pytest.raises(TopologyError) as caught:
        probe(toy(), "pe0", "hbn0", 64)
    assert str(caught.value) == ("node: got 'sip0.cube0.hbn0', needs the id of a node; did you mean 'sip0.cube0.hbm0'?")


def test_the_readmes_probe_prints_parts_that_add_up(toy, capsys):
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## Probing a chip")[2].partition("\n## ")[0]
    (example,) = re.findall(r"^```py\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    exec(compile(example, "README.md", "exec"), {"topology": toy()})
    *parts, total = capsys.readouterr().out.splitlines()
    assert total == f"{32000 + 4096 * 20} {HBM}"
    assert sum(int(part.rsplit(maxsplit=1)[1]) for part in parts) == 32000 + 4096 * 20
