"""A flow finds how its bytes pass the links before its first transfer, and the links know it from then on."""

from fractions import Fraction

import pytest

from kb_engine.fabric.link import LinkState
from kb_engine.fabric.paths import Hop, Leg
from kb_engine.fabric.sharing.shared_link import SharedLink
from kb_engine.timing.clock import Clock
from kb_topology import Link

NBYTES = 640
LINK = Link(src="a", dst="b", bw_gbs=Fraction(64), length_mm=Fraction(0), latency_ps=0)


@pytest.fixture
def hop() -> Hop:
    state = LinkState(LINK)
    return Hop(state, 500, SharedLink(Clock(), state.rate, lambda _: None))


@pytest.fixture
def leg(hop: Hop) -> Leg:
    return Leg((LINK,), 500, lambda _: [hop])


def test_a_link_is_not_idle_from_the_begin_of_a_transfer_whose_flow_was_only_counted(hop: Hop, leg: Leg) -> None:
    leg.counted(NBYTES).add(1, -1, -1)
    leg.flow(NBYTES).under_way += 1
    assert hop.shared is not None
    assert not hop.shared.is_idle(0)


def test_what_was_counted_is_of_the_flow_that_transfers_have(leg: Leg) -> None:
    leg.counted(NBYTES).add(2, -1, -1)
    flow = leg.flow(NBYTES)
    flow.count += 1
    assert leg.counted(NBYTES).count == 3
    assert list(leg.flows.items()) == [(NBYTES, flow)]


def test_a_flow_says_how_long_its_bytes_take(leg: Leg) -> None:
    """640 bytes at 64 bytes a nanosecond take 10 ns, and the link has a latency of 0.5 ns."""
    flow = leg.flow(NBYTES)
    assert (flow.slowest_ps, flow.latency_ps, flow.unshared) == (10_000, 500, False)
