"""A flow finds how its bytes pass the links when somebody asks, and the links know it from then on."""

from fractions import Fraction

import pytest

from kb_engine.fabric.link import LinkState
from kb_engine.fabric.paths import Flow, Hop
from kb_engine.fabric.shared_link import SharedLink
from kb_engine.timing.clock import Clock
from kb_topology import Link

NBYTES = 640


@pytest.fixture
def hop() -> Hop:
    state = LinkState(Link(src="a", dst="b", bw_gbs=Fraction(64), length_mm=Fraction(0), latency_ps=0))
    return Hop(state, 500, SharedLink(Clock(), state.rate, lambda _: None))


def test_a_link_is_not_idle_from_the_begin_of_a_transfer_whose_flow_was_only_counted(hop: Hop) -> None:
    flow = Flow([hop], NBYTES, NBYTES)
    flow.add(1, -1, -1)
    flow.under_way += 1
    assert hop.shared is not None
    assert not hop.shared.is_idle(0)


def test_a_flow_says_how_long_its_bytes_take(hop: Hop) -> None:
    """640 bytes at 64 bytes a nanosecond take 10 ns, and the link has a latency of 0.5 ns."""
    flow = Flow([hop], NBYTES, NBYTES)
    assert (flow.slowest_ps, flow.latency_ps, flow.unshared) == (10_000, 500, False)


def test_a_flow_has_no_other_attributes(hop: Hop) -> None:
    with pytest.raises(AttributeError, match="paces"):
        _ = Flow([hop], NBYTES, NBYTES).paces
