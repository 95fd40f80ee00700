"""Nodes with buffers of a size: times by hand, circles of full buffers, and what cannot be."""

import numpy as np
import pytest

from kb_engine import Engine
from kb_engine.probe import probe
from kb_messages import SimulationStuckError, TopologyError
from kb_topology import loads_topology

PES = """\
  pe_layout: {count: 4}
  pe_template:
    nodes:
      pe_cpu: {kind: pe_cpu, impl: builtin.pe_cpu, issue_ns: 0}
      pe_scheduler: {kind: pe_scheduler, impl: builtin.pe_scheduler, input_kib: 64, output_kib: 64}
      pe_dma: {kind: pe_dma, impl: builtin.pe_dma}
      pe_fetch_store: {kind: pe_fetch_store, impl: builtin.pe_fetch_store, memory: {space: reg, size: 1 KiB}}
      pe_tcm: {kind: pe_tcm, impl: builtin.pe_tcm, memory: {space: tcm, size: 256 KiB}, bw_gbs: 512}
    wires: [pe_cpu -> pe_scheduler, pe_scheduler -> pe_dma, pe_scheduler -> pe_fetch_store,
            pe_dma -> pe_fetch_store, pe_fetch_store -> pe_dma, pe_fetch_store -> pe_tcm]
"""
NODE = "noc, impl: builtin.transit_credits, overhead_ns: 1"


def ends_of(links, messages, buffer_nbytes=100, credit_ns=0.0, node=NODE):
    """When messages (from PE, to PE, bytes, start) end, over nodes n0 to n2. Links are (from, to, GB/s)."""
    attributes = f", buffer_nbytes: {buffer_nbytes}, credit_ns: {credit_ns}" if "credits" in node else ""
    nodes = [f"    n{number}: {{kind: {node}{attributes}}}" for number in range(3)]
    lines = [f'    - {{from: "{a}", to: "{b}", bw_gbs: {gbs}, length_mm: 0, both_ways: false}}' for a, b, gbs in links]
    packets = "packets: {payload_nbytes: 100, header_nbytes: 0}"
    text = "\n".join(["name: c", "wire_ps_per_mm: 0", packets, "cube:", "  nodes:", *nodes, PES + "  links:", *lines])
    engine, ends_ps = Engine(loads_topology(text + "\n")), {}
    for number, (src, dst, nbytes, start_ps) in enumerate(messages):
        ends = f"sip0.cube0.pe{src}.pe_cpu", f"sip0.cube0.pe{dst}.pe_cpu"
        engine.fabric.send(*ends, nbytes, start_ps, lambda each: ends_ps.update({each: engine.clock.now}), number)
    engine.clock.drain()
    return [ends_ps[number] for number in range(len(messages))]


def cpu(number):
    return f"pe[{number}].pe_cpu"


CHAIN = [(cpu(0), "n0", 100), ("n0", "n1", 100), ("n1", cpu(1), 50)]


@pytest.mark.parametrize(
    ("buffer_nbytes", "credit_ns", "end_ps"),
    [
        # Three packets. Each leaves n0 after 1 ns, n1 after 2 ns, and the last link 2 ns later, when there is room.
        (300, 5, 2000 + 300 * 20),
        # One packet at a time. The first one leaves n0 at 2 ns, so the second begins at 7 ns. It is at n0 at 8 ns, and
        # goes on at 9 ns, as the first one left n1 at 4 ns. It leaves n0 at 10 ns, and n1 at 12 ns. So the third begins
        # at 15 ns, goes on at 17 ns, is at n1 at 18 ns, and has left n1 at 20 ns.
        (100, 5, 20_000),
        # Without latency of credits: the second one begins at 2 and goes on at 4 ns, and leaves n1 at 7 ns. The third
        # begins at 5, goes on at 7 and leaves n1 at 10 ns.
        (199, 0, 10_000),
    ],
)
def test_packets_wait_for_room(buffer_nbytes, credit_ns, end_ps):
    assert ends_of(CHAIN, [(0, 1, 300, 0)], buffer_nbytes, credit_ns) == [end_ps]


FORK = [(cpu(0), "n0", 100), ("n0", "n1", 100), ("n1", cpu(1), 10), ("n1", cpu(2), 100)]


def test_a_packet_waits_behind_the_first_one_in_its_buffer():
    # The first is at n1 at 2 ns and needs 10 ns for its last link. The second is there at 3 ns, on the way to another.
    two = [(0, 1, 100, 0), (0, 2, 100, 0)]
    assert ends_of(FORK, two, buffer_nbytes=200) == [12_000, 13_000]
    # Where nodes have room for all, nobody waits there; both share the links before, so both come at 1 ns + 2 ns.
    assert ends_of(FORK, two, node="noc, impl: builtin.transit, overhead_ns: 1")[1] < 5000


MERGE = [(cpu(0), "n0", 10), (cpu(3), "n0", 100), ("n0", "n1", 100), ("n1", cpu(2), 100)]


def test_a_slow_packet_holds_a_fast_link():
    # The slow one holds the link to n1 from 1 to 11 ns. The other is at n0 at 1.5 ns, and is 2 ns late after that.
    assert ends_of(MERGE, [(0, 2, 100, 0), (3, 2, 100, 500)], buffer_nbytes=200) == [12_000, 13_000]


RING = [
    *((f"n{number}", f"n{(number + 1) % 3}", 100) for number in range(3)),
    *((cpu(number), f"n{number}", 100) for number in range(3)),
    *((f"n{number}", cpu(number), 100) for number in range(3)),
]
AROUND = [(number, (number + 2) % 3, 100, 0) for number in range(3)]


def test_full_buffers_that_wait_for_each_other_are_an_error_that_names_their_circle():
    with pytest.raises(SimulationStuckError) as raised:
        ends_of(RING, AROUND)
    n0, n1, n2 = (f"sip0.cube0.n{number}" for number in range(3))
    links = (f"{n0} -> {n1}", f"{n1} -> {n2}", f"{n2} -> {n0}", f"{n0} -> {n1}")
    waits = ", which waits for room behind ".join(links)
    assert f"fabric: a circle of 3 full buffers at 2 ns: {waits}; needs a packet" in str(raised.value)
    assert raised.value.exit_code == 3


def test_the_same_ring_with_larger_buffers_has_no_circle():
    # At 2 ns each packet is at the second node, where there is room for it beside the one before. So none waits.
    assert ends_of(RING, AROUND, buffer_nbytes=200) == [3000 + 1000] * 3


CREDITS = (
    "impl: builtin.xbar, count: 1, overhead_ns: 1",
    "impl: builtin.transit_credits, count: 1, overhead_ns: 1, buffer_nbytes: 80, credit_ns: 3",
)
PACKETS = ("wire_ps_per_mm: 0", "wire_ps_per_mm: 0\npackets: {payload_nbytes: 64, header_nbytes: 16}")


def copying(tl, a, b):
    tl.store(b[:], tl.load(a[:]))


def test_a_kernel_gets_the_same_bytes_later(simulate):
    ends_ps = []
    for changes in ((PACKETS,), (PACKETS, CREDITS), (PACKETS, (CREDITS[0], CREDITS[1].replace("80", "160000")))):
        run = simulate(copying, (1, 1000, "i8"), (1, 1000, "i8"), changes=changes)
        ends_ps.append(run.end_ps)
    assert ends_ps[0] == ends_ps[2] < ends_ps[1]


def test_a_probe_tells_full_buffers_from_other_flows(chip, two_pes):
    # Packets of 80 bytes take 800 ps on both links. The second link gets a packet 1 ns after the first one began, and
    # the credit is back 3 ns after it has left: 15 packets every 4.8 ns, and a last one of 56 bytes.
    changes = PACKETS, CREDITS, ("bw_gbs: 50, latency_ns: 30", "bw_gbs: 100, latency_ns: 30"), *two_pes
    alone = probe(chip(*changes), "pe0", "hbm0", 1000)
    parts = {part.phase.value: part.latency_ps for part in alone.parts}
    assert parts["full buffers"] == 15 * 4800 + 56 * 10 - 1256 * 10
    both = probe(chip(*changes), "pe0", "hbm0", 1000, flows=2)
    assert {part.phase.value: part.latency_ps for part in both.parts}["full buffers"] == parts["full buffers"]
    assert sum(part.latency_ps for part in both.parts) == both.latency_ps


def test_packets_of_both_dmas_are_verified(chip_host, two_pes):
    host = chip_host(PACKETS, CREDITS, *two_pes)
    a, b = (host.tensor(name, np.arange(1000, dtype=np.int8), "i8") for name in "ab")
    host.launch(copying, a, b)
    assert (host.read(b) == np.arange(1000, dtype=np.int8)).all()


def test_buffers_without_packets_and_smaller_than_one_are_refused(chip):
    with pytest.raises(TopologyError, match=r"xbar\.impl: got builtin\.transit_credits, and transfers without packets"):
        Engine(chip(CREDITS))
    small = CREDITS[0], CREDITS[1].replace("80", "79")
    with pytest.raises(TopologyError, match=r"buffer_nbytes: got 79 bytes for each link to .*, needs at least 80"):
        Engine(chip(PACKETS, small))
    with pytest.raises(TopologyError, match=r"xbar\.buffer_nbytes: got 0"):
        Engine(chip(PACKETS, (CREDITS[0], CREDITS[1].replace("80", "0"))))
