"""Transfers against arithmetic by hand, and against a model that takes every hop step by step."""

from fractions import Fraction
from heapq import heappop, heappush
from math import ceil

import pytest
from engine_toys import Hbm
from engine_transfers import DMA, FOUR_PES_ONE_SLICE, HBM, ONE_PE_TWO_SLICES, TWO_HALVES, owner, run
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_engine.block.in_flight import PipelineError
from kb_engine.observe import Callbacks
from kb_messages import FabricTransfer, Rectangle, TopologyError
from kb_topology import Router


class StepByStep:
    """Every head arrives at every link and memory by an event of its own; whoever comes first is served first."""

    def __init__(self, topology):
        self.graph = topology.graph
        self.overheads = {n.id: n.attrs.get("overhead_ps", 0) for n in self.graph.nodes.values()}
        self.router = Router(self.graph, lambda node: self.overheads[node.id])
        self.free, self.arrivals = {}, []
        self.heap, self.event_order, self.ends = [], 0, {}

    def at(self, t, step):
        self.event_order += 1
        heappush(self.heap, (t, self.event_order, step))

    def run(self, channels):
        for channel in channels:
            self.start(channels, channel, 0, 0)
        while self.heap:
            t, _, step = heappop(self.heap)
            step(t)
        return self.ends

    def start(self, channels, channel, number, now):
        if number == len(channels[channel]):
            return
        gap, unit, nbytes = channels[channel][number]
        pe, is_write = channel
        memory = HBM.format(unit)
        away, back = (self.router.route(*ends).links for ends in ((DMA.format(pe), memory), (memory, DMA.format(pe))))

        def done(t):
            self.ends[channel, number] = t
            self.start(channels, channel, number + 1, t)

        def written(head, tail):
            self.serve(memory, nbytes, head, tail, True, acknowledge)

        def acknowledge(_, tail):
            self.at(tail + sum(map(self.after, back)), done)

        def bring_back(head, tail):
            self.at(head, lambda t: self.travel(back, nbytes, t, tail, arrived))

        def arrived(_, tail):
            self.at(tail, done)

        if is_write:
            self.at(now + gap, lambda t: self.travel(away, nbytes, t, t, written))
        else:
            request = now + gap + sum(map(self.after, away))
            self.at(request, lambda t: self.serve(memory, nbytes, t, t, False, bring_back))

    def after(self, link):
        return link.latency_ps + self.overheads[link.dst]

    def travel(self, links, nbytes, head, tail, then):
        """At *head*: take the first link, and come back when the head is at the next one."""
        if not links:
            then(head, tail)
            return
        link, duration = links[0], ceil(nbytes * Fraction(1000) / links[0].bw_gbs)
        self.arrivals.append((link.src, link.dst, head))
        begun = max(head, self.free.get(link, 0))
        ended = self.free[link] = max(begun + duration, tail)
        head, tail = begun + self.after(link), ended + self.after(link)
        self.at(head, lambda t: self.travel(links[1:], nbytes, t, tail, then))

    def serve(self, memory, nbytes, head, tail, is_write, then):
        attrs = self.graph.nodes[memory].attrs
        self.arrivals.append((memory, head))
        begun = max(head, self.free.get(memory, 0))
        self.free[memory] = begun + nbytes * attrs["ps_per_byte"]
        ended = max(self.free[memory], tail)
        then((ended if is_write else begun) + attrs["latency_ps"], ended + attrs["latency_ps"])


transfers = st.lists(st.tuples(st.integers(0, 30011), st.integers(0, 1), st.integers(1, 3000)), max_size=4)


@pytest.mark.parametrize(
    ("changes", "pes", "slices"),
    [(ONE_PE_TWO_SLICES, 1, 2), (FOUR_PES_ONE_SLICE, 4, 1)],
    ids=["one PE", "four PEs read one slice"],
)
@settings(max_examples=examples(80))
@given(data=st.data())
def test_where_no_flows_merge_the_picoseconds_are_those_of_the_step_by_step_model(
    toy_engine, changes, pes, slices, data
):
    channels = {}
    for pe in range(pes):
        channels[pe, False] = [(gap, unit % slices, nbytes) for gap, unit, nbytes in data.draw(transfers)]
    engine = toy_engine(*changes)
    model = StepByStep(engine.topology)
    expected = model.run(channels)
    # Two heads at one place at one picosecond may go in either order; what is compared is everything else.
    assume(len(set(model.arrivals)) == len(model.arrivals))
    assert run(engine, channels) == expected


def test_a_read_alone(toy_engine):
    # 1000 through the crossbar, 30000 latency, 512 x 20 at the memory, which the link's 512 x 10 hide behind, 1000.
    assert run(toy_engine(), {(0, False): [(0, 0, 512)]}) == {((0, False), 0): 42240}


def test_a_write_alone(toy_engine):
    # The head is at the memory after 1000; 512 x 20, 30000 until it is committed, 1000 for the acknowledgement.
    assert run(toy_engine(), {(0, True): [(0, 0, 512)]}) == {((0, True), 0): 42240}


def test_two_reads_on_one_path_at_once_take_turns_at_the_memory(toy_engine):
    engine = toy_engine(*FOUR_PES_ONE_SLICE)
    path, ends = engine.fabric.path(DMA.format(0), owner(engine, 0)), {}
    for nbytes in (512, 100):
        whole = Rectangle(0, 1, nbytes, nbytes)
        engine.fabric.read(path, whole, 0, lambda each: ends.__setitem__(each, engine.clock.now), nbytes)
    engine.clock.drain()
    # The second one's bytes leave the memory 100 x 20 after the first one's.
    assert ends == {512: 42240, 100: 42240 + 2000}


def test_a_slow_link_decides_when_it_is_slower_than_the_memory(toy_engine):
    slow = (('to: "hbm[*]", bw_gbs: 100', 'to: "hbm[*]", bw_gbs: 25'),)
    # First byte at the link at 31000, 512 x 40 = 20480 on it, 1000 through the crossbar; its second link hides.
    assert run(toy_engine(*slow), {(0, False): [(0, 0, 512)]}) == {((0, False), 0): 1000 + 30000 + 20480 + 1000}
    # On the way there: first link 5120 hides, head at the second at 1000, 20480 on it, then the memory's 30000.
    assert run(toy_engine(*slow), {(0, True): [(0, 0, 512)]}) == {((0, True), 0): 1000 + 20480 + 30000 + 1000}


def test_nothing_occupies_nothing(toy_engine):
    engine = toy_engine()
    assert run(engine, {(0, False): [(0, 0, 0)]}) == {((0, False), 0): 32000}
    assert [(link.nbytes, link.busy_ps) for link in engine.fabric.links] == [(0, 0)] * 4


def test_two_reads_of_one_block_share_its_link(toy_engine):
    # 20 ps a byte from each slice, and 10 on the link to the block: two reads at once take as long as one, 42240.
    engine = toy_engine(*ONE_PE_TWO_SLICES, ("impl: toy.dma", "impl: toy.twofold_dma"))
    ends = {}
    for unit in (0, 1):
        path = engine.fabric.path(DMA.format(0), owner(engine, unit))
        engine.fabric.read(path, Rectangle(0, 1, 512, 512), 0, lambda u: ends.update({u: engine.clock.now}), unit)
    engine.clock.drain()
    assert ends == {0: 42240, 1: 42240}
    dma, slices = DMA.format(0), (HBM.format(0), HBM.format(1))
    single = toy_engine(*ONE_PE_TWO_SLICES)
    for each in slices:
        for way in ((dma, each), (each, dma)):
            assert any(hop.shared is not None for hop in engine.fabric.leg(*way).hops)
            assert all(hop.shared is None for hop in single.fabric.leg(*way).hops)


def test_wires_take_their_time(toy_engine):
    # 3 mm and 2 mm of 7 ps, both ways; the memory's bytes hide the links' (70 GB/s are less than 20 ps a byte).
    ends = run(toy_engine(*TWO_HALVES), {(0, False): [(0, 0, 512)]})
    assert ends == {((0, False), 0): 42240 + 2 * 35}


def test_links_and_memories_count_what_they_carry(toy_engine):
    engine = toy_engine()
    run(engine, {(0, False): [(0, 0, 512)], (0, True): [(0, 0, 100)]})
    carried = {(state.link.src, state.link.dst): (state.nbytes, state.busy_ps) for state in engine.fabric.links}
    dma, xbar, hbm = DMA.format(0), "sip0.cube0.xbar0", HBM.format(0)
    assert carried == {
        (dma, xbar): (100, 1000),
        (xbar, hbm): (100, 1000),
        (hbm, xbar): (512, 5120),
        (xbar, dma): (512, 5120),
    }
    memory = engine.components[hbm]
    assert (memory.read_nbytes, memory.written_nbytes, memory.busy_ps) == (512, 100, 612 * 20)


@pytest.mark.parametrize("changes", [(), FOUR_PES_ONE_SLICE], ids=["reserved ahead", "by events"])
def test_every_transfer_is_traced(toy_engine, changes):
    events = []
    run(toy_engine(*changes, observers=[Callbacks(on_trace=events.append)]), {(0, False): [(100, 0, 512)]})
    transfer = FabricTransfer(t_start_ps=100, t_end_ps=42340, src=DMA.format(0), dst=HBM.format(0), nbytes=512)
    assert events == [transfer]


def test_a_memory_that_takes_no_whole_picoseconds_is_refused(toy_engine, monkeypatch):
    engine = toy_engine()
    monkeypatch.setattr(Hbm, "latency_ps", lambda self, nbytes, write: 0.5)
    with pytest.raises(PipelineError) as caught:
        engine.fabric.read(engine.fabric.path(DMA.format(0), owner(engine, 0)), Rectangle(0, 1, 8, 8), 0, print, 0)
    assert str(caught.value) == (
        "sip0.cube0.hbm0: got 8 bytes that take 160 and 0.5, needs ints of picoseconds; round up once"
    )


def test_a_memory_that_no_link_leads_to_is_refused(toy_engine):
    engine = toy_engine(*ONE_PE_TWO_SLICES, ('to: "hbm[*]"', 'to: "hbm[0]"'))
    with pytest.raises(TopologyError) as caught:
        engine.fabric.path(DMA.format(0), owner(engine, 1))
    assert str(caught.value) == (
        "sip0.cube0.pe0.pe_dma -> sip0.cube0.hbm1: got no path, needs links through bridge, io_noc, noc, pcie_ep, "
        "serdes, switch, ucie, xbar; sip0.cube0.pe0.pe_dma reaches: sip0.cube0.hbm0, sip0.cube0.xbar0"
    )
