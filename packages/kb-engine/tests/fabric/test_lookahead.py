"""Reads reserved ahead: how far that looks, by hand, and what comes of it against an event for every request."""

import pytest
from engine_toys import Dma, NoSpec
from engine_transfers import DMA, FOUR_PES_ONE_SLICE, HBM, TWO_HALVES, owner, run
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_engine.block.control_roles import HostPort
from kb_engine.block.in_flight import PipelineError
from kb_engine.fabric.fabric import Fabric
from kb_engine.fabric.lookahead import Lookahead
from kb_messages import Rectangle
from kb_topology import Router


class HostNode(HostPort):
    channels = 1

    def overhead_ps(self):
        return 0


ONE = Rectangle(0, 1, 64, 64)
NEAR_PS = 3 * 7 + 1000 + 2 * 7
"""Wires of 3 and 2 mm at 7 ps, and the crossbar: from a DMA of TWO_HALVES to a slice of its own half."""

FAR_PS = 3 * 7 + 1000 + 5 * 7 + 300 + 5 * 7 + 1000 + 2 * 7
"""As far as to one of the other half: through both crossbars and the bridge."""

SLOW_LINK = ('to: "hbm[*]", bw_gbs: 100', 'to: "hbm[*]", bw_gbs: 25')


def wait_for_every_request(monkeypatch):
    monkeypatch.setattr(Lookahead, "nearest_ps", lambda self, memory: -1)


def events(engine):
    """Entries that the clock has had."""
    return engine.clock.n_scheduled


def test_the_nearest_block_that_reads_is_what_bounds_the_lookahead(toy_engine):
    engine = toy_engine(*TWO_HALVES)
    paths = {(pe, unit): engine.fabric.path(DMA.format(pe), owner(engine, unit)) for pe in range(4) for unit in (0, 1)}
    assert {path.nearest_ps for path in paths.values()} == {NEAR_PS}
    assert {pair for pair, path in paths.items() if path.request_ps == NEAR_PS} == {(0, 0), (1, 0), (2, 1), (3, 1)}


def test_what_a_block_takes_before_its_request_leaves_counts(toy_engine, monkeypatch):
    leads = dict(zip(map(DMA.format, range(4)), (600, 500, 2000, 700), strict=True))
    monkeypatch.setattr(Dma, "lead_ps", property(lambda dma: leads[dma.node_id]))
    engine = toy_engine(*TWO_HALVES)
    # To the second half's slice, the first half's PEs have the bridge, a crossbar and 10 mm of wire more to go.
    assert [engine.fabric.path(DMA.format(0), owner(engine, unit)).nearest_ps for unit in (0, 1)] == [
        500 + NEAR_PS,
        700 + NEAR_PS,
    ]


def test_the_own_memory_of_a_pe_is_reached_without_a_link(toy_engine):
    engine = toy_engine(*FOUR_PES_ONE_SLICE)
    lookahead = Lookahead(engine.topology.graph, {DMA.format(2): 300, DMA.format(0): 0}, engine.fabric.overhead_ps)
    assert lookahead.nearest_ps("sip0.cube0.pe2.pe_tcm") == 300


def test_the_host_reads_and_writes_too(toy_engine):
    engine = toy_engine(*TWO_HALVES)
    fabric = Fabric(engine.clock, engine.topology.graph, engine.topology.address_map)
    no_dma = engine.components["sip0.cube0.pe0.pe_tcm"]
    dmas = {DMA.format(pe): HostNode(NoSpec(), no_dma.context) if pe == 3 else no_dma for pe in range(4)}
    fabric.attach(engine.components | dmas)
    paths = [fabric.path(DMA.format(3), owner(engine, unit)) for unit in (0, 1)]
    assert [path.nearest_ps for path in paths] == [FAR_PS, NEAR_PS]


def test_what_no_block_can_reach_has_no_lookahead(toy_engine):
    engine = toy_engine(*FOUR_PES_ONE_SLICE)
    assert Lookahead(engine.topology.graph, {}, engine.fabric.overhead_ps).nearest_ps(HBM.format(0)) == -1


@pytest.mark.parametrize("changes", [TWO_HALVES, FOUR_PES_ONE_SLICE])
def test_the_bound_is_the_least_of_all_routes(toy_engine, changes):
    engine = toy_engine(*changes)
    fabric, graph = engine.fabric, engine.topology.graph
    router = Router(graph, lambda node: fabric.overhead_ps(node.id))
    dmas = [node.id for node in graph.nodes.values() if node.id.endswith("pe_dma")]
    for memory in (node.id for node in graph.nodes.values() if node.id.rsplit(".", 1)[-1].startswith("hbm")):
        routes = [router.route(dma, memory).links for dma in dmas]
        least = min(sum(link.latency_ps + fabric.overhead_ps(link.dst) for link in links) for links in routes)
        assert fabric.path(dmas[0], engine.topology.address_map.region_of_node(memory).owner).nearest_ps == least


def test_a_read_that_nothing_can_overtake_is_one_event(toy_engine, monkeypatch):
    def events_of_reads(starts_ps):
        engine = toy_engine(*TWO_HALVES)
        path, before = engine.fabric.path(DMA.format(0), owner(engine, 0)), events(engine)
        for start_ps in starts_ps:
            engine.fabric.read(path, ONE, engine.clock.now + start_ps, lambda _: None, None)
            engine.clock.drain()
        return events(engine) - before

    assert events_of_reads([0, 0]) == 2
    # What leaves later than any other could is waited for, and no longer than it is under way.
    assert events_of_reads([1, 0]) == 3
    wait_for_every_request(monkeypatch)
    assert events_of_reads([0, 0]) == 4


def test_a_fabric_that_waits_for_requests_reserves_none_ahead(toy_engine):
    engine = toy_engine(*TWO_HALVES)
    engine.fabric.wait_for_requests()
    path, before = engine.fabric.path(DMA.format(0), owner(engine, 0)), events(engine)
    engine.fabric.read(path, ONE, 0, lambda _: None, None)
    engine.clock.drain()
    assert events(engine) - before == 2


def test_a_request_under_way_goes_first(toy_engine):
    """A far request leaves before a near one does, and is at the memory before it: the near one waits its turn."""
    engine = toy_engine(*TWO_HALVES)
    channels = {(2, False): [(0, 0, 1000)], (0, False): [(FAR_PS - NEAR_PS + 1, 0, 64)]}
    # The far one's bytes hold the memory for 20000, the near one's follow at once: 1280, latency, and the way back.
    assert run(engine, channels)[(0, False), 0] == FAR_PS + 20000 + 1280 + 30000 + NEAR_PS


def test_a_write_under_way_goes_first(toy_engine):
    engine = toy_engine(*FOUR_PES_ONE_SLICE)
    # Both leave at once. The write's last of 100 bytes is at the memory 1000 later than the read's request would be.
    ends = run(engine, {(1, True): [(0, 0, 100)], (0, False): [(0, 0, 64)]})
    # The request is at the memory at 1000: 64 x 20, and the latency. The write's 100 x 20 wait for that.
    assert ends == {((0, False), 0): 1000 + 1280 + 30000 + 1000, ((1, True), 0): 1000 + 1280 + 2000 + 30000 + 1000}


transfers = st.lists(st.tuples(st.integers(0, 30011), st.integers(0, 1), st.integers(0, 3000)), max_size=5)


@settings(max_examples=examples(150))
@given(data=st.data())
@pytest.mark.parametrize(
    "changes",
    [TWO_HALVES, FOUR_PES_ONE_SLICE, (*FOUR_PES_ONE_SLICE, SLOW_LINK)],
    ids=["two halves", "one slice", "one slice behind a slow link"],
)
def test_random_traffic_takes_as_long_as_with_an_event_for_every_request(toy_engine, changes, data):
    units = 2 if changes is TWO_HALVES else 1
    channels = {}
    for pe in range(4):
        for is_write in (False, True):
            drawn = data.draw(transfers)
            # No two begin at one picosecond: who is first then is a matter of the order of events.
            gaps = [(gap * 8 + 2 * pe + is_write, unit % units, nbytes) for gap, unit, nbytes in drawn]
            channels[pe, is_write] = gaps
    found = run(toy_engine(*changes), channels)
    with pytest.MonkeyPatch.context() as patched:
        wait_for_every_request(patched)
        assert run(toy_engine(*changes), channels) == found


def test_a_block_that_is_quicker_than_it_promises_is_found_out(toy_engine, monkeypatch):
    monkeypatch.setattr(Dma, "lead_ps", 5000)
    engine = toy_engine(*TWO_HALVES)
    near, far = (engine.fabric.path(DMA.format(pe), owner(engine, 0)) for pe in (0, 2))
    engine.fabric.read(near, ONE, 5000, lambda _: None, None)
    with pytest.raises(PipelineError) as caught:
        engine.fabric.read(near, ONE, 0, lambda _: None, None)
    assert str(caught.value) == (
        f"{DMA.format(0)}: got a request that is at {HBM.format(0)} at {NEAR_PS} ps, "
        f"needs {5000 + NEAR_PS} ps or later; "
        "a block that starts transfers is an Initiator or HostPort, and its `lead_ps` no more than it takes"
    )
    engine.fabric.read(far, ONE, 0, lambda _: None, None)
    with pytest.raises(PipelineError, match=f"{DMA.format(2)}: got a request that is at {HBM.format(0)} at 2405 ps"):
        engine.clock.drain()
