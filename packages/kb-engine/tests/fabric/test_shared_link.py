"""Flows that share links: against arithmetic by hand, and against a model that sends burst after burst."""

from collections import deque
from fractions import Fraction
from heapq import heappop, heappush

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_engine.fabric.sharing.shared_link import SharedLink
from kb_messages import Rectangle
from kb_topology import Router

DMA, HBM = "sip0.cube0.pe{}.pe_dma", "sip0.cube0.hbm{}"

# Four PEs at 10 ps a byte, a crossbar of 1000 ps, one slice behind a link that takes 10 ps a byte too.
FOUR_PES = (("pe_layout: {count: 1}", "pe_layout: {count: 4}"),)
# The crossbar in two halves with a bridge of its own speed between them; the slices hang on the second half.
BRIDGED = (
    ("impl: toy.hbm, count: 1", "impl: toy.hbm, count: 2"),
    (
        "count: 1, overhead_ps: 1000}",
        "count: 2, overhead_ps: 1000}\n    bridge: {kind: bridge, impl: toy.xbar, overhead_ps: 300}",
    ),
    ("pe_layout: {count: 1}", "pe_layout: {count: 6}"),
    (
        '{from: "pe[*].pe_dma", to: "xbar[0]", bw_gbs: 100, length_mm: 0}',
        '{from: "pe[0:4].pe_dma", to: "xbar[0]", bw_gbs: 100, length_mm: 3}',
    ),
    (
        '{from: "xbar[0]", to: "hbm[*]", bw_gbs: 100, length_mm: 0}',
        (
            '{from: "pe[4:6].pe_dma", to: "xbar[1]", bw_gbs: 60, length_mm: 1}\n'
            '    - {from: "xbar[1]", to: "hbm[*]", bw_gbs: 80, length_mm: 2}\n'
            '    - {from: "xbar[*]", to: bridge, bw_gbs: 125, length_mm: 5}'
        ),
    ),
)


def narrow(gbs):
    """Four PEs whose slice's link has *gbs*."""
    return (*FOUR_PES, ('to: "hbm[*]", bw_gbs: 100', f'to: "hbm[*]", bw_gbs: {gbs}'))


def send(engine, messages):
    """When each message (start, source, destination, nbytes) is all there."""
    ends = {}
    for number, (start, src, dst, nbytes) in enumerate(messages):

        def begin(_, number=number, start=start, src=src, dst=dst, nbytes=nbytes):
            engine.fabric.send(src, dst, nbytes, start, lambda n: ends.__setitem__(n, engine.clock.now), number)

        engine.clock.call_at(start, begin, None)
    engine.clock.drain()
    return [ends[number] for number in range(len(messages))]


def test_reads_share_the_way_back(toy_engine):
    slow_bridge = *BRIDGED, ("to: bridge, bw_gbs: 125", "to: bridge, bw_gbs: 50")
    engine, ends = toy_engine(*slow_bridge), {}
    for number in range(2):
        memory = engine.topology.address_map.region_of_node(HBM.format(number)).owner
        path = engine.fabric.path(DMA.format(number), memory)
        whole = Rectangle(0, 1, 400, 400)
        engine.fabric.read(path, whole, 0, lambda each: ends.__setitem__(each, engine.clock.now), number)
    engine.clock.drain()
    # 1000 + 300 + 1000 to the slices, 30000 latency and 1000 through a crossbar: the heads are at the bridge's link at
    # 33300. Each alone would take 400 x 20 there; they take twice that, and 300 + 1000 more to the DMAs.
    assert ends == dict.fromkeys(range(2), 33300 + 2 * 8000 + 1300)


def test_a_message_alone_pays_latency_and_the_slowest_link(toy_engine):
    # 1000 through the crossbar; 400 bytes of 10 ps on the first link hide behind 40 ps each on the second.
    assert send(toy_engine(*narrow(25)), [(0, DMA.format(0), HBM.format(0), 400)]) == [1000 + 16000]


def test_no_bytes_pay_the_latency_alone(toy_engine):
    messages = [(0, DMA.format(pe), HBM.format(0), 0) for pe in range(4)]
    assert send(toy_engine(*FOUR_PES), messages) == [1000] * 4


@pytest.mark.parametrize("flows", [2, 3, 4])
def test_equal_flows_get_equal_parts_of_a_link(toy_engine, flows):
    # All heads are at the slice's link at 1000; each byte then takes its 10 ps once for every flow.
    messages = [(0, DMA.format(pe), HBM.format(0), 600) for pe in range(flows)]
    assert send(toy_engine(*FOUR_PES), messages) == [1000 + flows * 6000] * flows


def test_a_flow_gets_the_whole_link_back_when_the_other_ends(toy_engine):
    # Until 100 bytes of the short one are through, 2 x 1000 ps, each has half; 500 of the long one are left.
    ends = send(toy_engine(*FOUR_PES), [(0, DMA.format(0), HBM.format(0), 600), (0, DMA.format(1), HBM.format(0), 100)])
    assert ends == [1000 + 2000 + 5000, 1000 + 2000]


def test_a_flow_that_comes_later_takes_half_of_what_is_left(toy_engine):
    # Alone from 1000 to 3000: 200 of 600 bytes. Then half each: 400 of both take 8000, until 11000; 200 are left.
    ends = send(
        toy_engine(*FOUR_PES), [(0, DMA.format(0), HBM.format(0), 600), (2000, DMA.format(1), HBM.format(0), 600)]
    )
    assert ends == [11000, 13000]


def test_flows_that_come_in_more_slowly_than_the_link_do_not_wait(toy_engine):
    # 5 ps a byte on the shared link, 10 on each PE's own: two flows fit beside each other.
    ends = send(toy_engine(*narrow(200)), [(0, DMA.format(pe), HBM.format(0), 600) for pe in range(2)])
    assert ends == [7000, 7000]


def test_what_a_slow_flow_leaves_goes_to_the_others(toy_engine):
    # The link takes 4 ps a byte, 250 GB/s; PE 3 sends at 50 GB/s, the other two would at 100 each and can.
    slow = (
        '{from: "pe[*].pe_dma", to: "xbar[0]", bw_gbs: 100, length_mm: 0}',
        (
            '{from: "pe[0:3].pe_dma", to: "xbar[0]", bw_gbs: 100, length_mm: 0}\n'
            '    - {from: "pe[3].pe_dma", to: "xbar[0]", bw_gbs: 50, length_mm: 0}'
        ),
    )
    engine = toy_engine(*narrow(250), slow)
    ends = send(engine, [(0, DMA.format(pe), HBM.format(0), 600) for pe in (0, 1, 3)])
    assert ends == [7000, 7000, 13000]
    # With one more they would need 350 GB/s: PE 3 has its 50, and 200 / 3 are left for each of the others.
    engine = toy_engine(*narrow(250), slow)
    ends = send(engine, [(0, DMA.format(pe), HBM.format(0), 600) for pe in range(4)])
    # 600 bytes at 66.7 GB/s take 9000; PE 3's 50 GB/s go on until 12000.
    assert ends == [10000, 10000, 10000, 13000]


def test_sharing_upstream_is_felt_downstream(toy_engine):
    # Two flows share the bridge's 125 GB/s (8 ps a byte): 16 ps a byte each; the slices' links take 12.5.
    # 3 mm and 5 mm and 5 mm and 2 mm of 7 ps would count if the wires had any; overheads are 1000, 300, 1000.
    ends = send(toy_engine(*BRIDGED), [(0, DMA.format(pe), HBM.format(pe), 500) for pe in range(2)])
    assert ends == [2300 + 500 * 16] * 2
    # One of them half as long: it ends at 250 x 16 = 4000; the other has 250 left at the 12.5 ps of its slice's link,
    # more slowly than the bridge brings them.
    ends = send(toy_engine(*BRIDGED), [(0, DMA.format(0), HBM.format(0), 500), (0, DMA.format(1), HBM.format(1), 250)])
    assert ends == [2300 + 4000 + 250 * 12.5, 2300 + 4000]


def test_writes_share_the_link_and_then_the_memory(toy_engine):
    engine = toy_engine(*FOUR_PES)
    memory = Rectangle(0, 1, 512, 512)
    # Two writes of 512 bytes share 10 ps a byte from 1000 to 11240, burst by burst. The memory takes 20 ps a byte for
    # 1024 bytes, until 21480. The last of them is the last burst of the second write, 64 x 20. 30000 and 1000 follow.
    ends = {}
    for pe in range(2):
        path = engine.fabric.path(DMA.format(pe), engine.topology.address_map.region_of_node(HBM.format(0)).owner)
        engine.fabric.write(path, memory, 0, lambda n: ends.__setitem__(n, engine.clock.now), pe)
    engine.clock.drain()
    assert ends == {0: 21480 - 1280 + 31000, 1: 21480 + 31000}


class BurstByBurst:
    """Every link sends one burst at a time, in turn for every transfer that has one to send, as soon as it need not
    stop in the middle of it."""

    def __init__(self, topology, burst_nbytes):
        self.burst = burst_nbytes
        self.overheads = {n.id: n.attrs.get("overhead_ps", 0) for n in topology.graph.nodes.values()}
        self.router = Router(topology.graph, lambda node: self.overheads[node.id])
        self.heap, self.event_order, self.ends = [], 0, {}
        self.turns, self.busy = {}, set()

    def at(self, t, step, *args):
        self.event_order += 1
        heappush(self.heap, (t, self.event_order, step, args))

    def run(self, messages):
        for number, (start, src, dst, nbytes) in enumerate(messages):
            links = self.router.route(src, dst).links
            sizes = [min(self.burst, nbytes - at) for at in range(0, nbytes, self.burst)]
            for index, size in enumerate(sizes):
                self.at(Fraction(start), self.offer, links, number, size, Fraction(start), index == len(sizes) - 1)
        while self.heap:
            t, _, step, args = heappop(self.heap)
            step(t, *args)
        return [self.ends[number] for number in range(len(messages))]

    def offer(self, t, links, number, size, tail, last):
        if not links:
            if last:
                self.ends[number] = tail
            return
        turns = self.turns.setdefault(links[0], {})
        turns.setdefault(number, deque()).append((links, size, tail, last))
        self.go_on(t, links[0])

    def go_on(self, t, link):
        turns = self.turns[link]
        if link in self.busy or not turns:
            return
        soonest = None
        for number, bursts in turns.items():
            _, size, tail, _ = bursts[0]
            begin = max(t, tail - size * 1000 / link.bw_gbs)
            if soonest is None or begin < soonest[0]:
                soonest = begin, number
        begin, number = soonest
        if begin > t:
            self.at(begin, self.go_on, link)
            return
        links, size, tail, last = turns[number].popleft()
        waiting = turns.pop(number)
        if waiting:
            turns[number] = waiting  # behind all others
        end = max(begin + size * 1000 / link.bw_gbs, tail)
        after = link.latency_ps + self.overheads[link.dst]
        self.busy.add(link)
        self.at(end, self.free, link)
        self.at(begin + after, self.offer, links[1:], number, size, end + after, last)

    def free(self, t, link):
        self.busy.discard(link)
        self.go_on(t, link)


def one_at_a_time(drawn):
    """Messages of one source do not overlap: each begins long after the one before it has arrived."""
    return [
        (gap + 1_000_000 * number, DMA.format(pe), HBM.format(unit), nbytes)
        for pe, channel in enumerate(drawn)
        for number, (gap, unit, nbytes) in enumerate(channel)
    ]


channels = st.lists(
    st.lists(st.tuples(st.integers(0, 20000), st.integers(0, 1), st.integers(1, 1500)), max_size=2),
    min_size=6,
    max_size=6,
)


@pytest.mark.parametrize(("burst", "n"), [(16, 60), (2, 25)])
def test_shares_are_those_of_bursts_in_turn_up_to_a_few_bursts(toy_engine, burst, n):
    @settings(max_examples=examples(n))
    @given(drawn=channels)
    def check(drawn):
        messages = one_at_a_time(drawn)
        engine = toy_engine(*BRIDGED)
        # Up to five others may have a burst before ours, at 60 GB/s at the slowest, and one or two more downstream; a
        # picosecond for each change of rate.
        bound = 8 * burst * 1000 / 60 + 10
        expected = BurstByBurst(engine.topology, burst).run(messages)
        for end, exact in zip(send(engine, messages), expected, strict=True):
            assert abs(end - exact) <= bound

    check()


@settings(max_examples=examples(60))
@given(drawn=channels)
def test_no_bytes_are_lost_or_made(toy_engine, drawn):
    messages = one_at_a_time(drawn)
    engine = toy_engine(*BRIDGED)
    for (start, _, _, nbytes), end in zip(messages, send(engine, messages), strict=True):
        assert end >= start + 1000 + nbytes * 10
    over_the_bridge = sum(nbytes for pe, channel in enumerate(drawn) for _, _, nbytes in channel if pe < 4)
    carried = [state.nbytes for state in engine.fabric.links if state.link.src == "sip0.cube0.bridge"]
    assert sum(carried) == over_the_bridge


@settings(max_examples=40)
@given(drawn=channels)
def test_no_stream_leaves_its_group_twice(toy_engine, drawn):
    """A group counts a stream out when its bytes have come (`complete`), and else when it has left, which sets both.

    The link before sends one tail for each stream, and none after an end that was known from its line. So no tail is
    for a stream whose bytes have come, unless it has left.
    """

    def once(link, stream):
        assert stream.done or not stream.complete
        complete(link, stream)
        tails.append(stream)

    complete, tails = SharedLink.complete, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SharedLink, "complete", once)
        send(toy_engine(*BRIDGED), one_at_a_time(drawn))
    assert len(set(tails)) == len(tails)
