"""Attributes of blocks of slow PEs: exact products, the refusals word for word, and all that is no time and no rate."""

from fractions import Fraction
from math import ceil
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct

from kb_engine.block import ComponentBase
from kb_engine.engine.slow_blocks import slowed
from kb_engine.timing.units import Rate, ps_from_ns
from kb_messages import TopologyError
from kb_topology import exact

SLOW = "wire_ps_per_mm: 0\n"


class Banks(Struct, frozen=True, kw_only=True):
    row_ns: float
    rows: int


class OwnSpec(Struct, frozen=True, kw_only=True):
    latency_ns: float = 2.5
    width_gbs: float | None = None
    clock_ghz: Annotated[float, Meta(ge=0.25)] = 1
    wait_ps: int = 100
    poll_us: list[float] = []
    moves_ns: dict[str, float] = {}
    banks: Banks = Banks(row_ns=4, rows=3)
    is_ns: bool = True
    mode_ns: str = "fast"
    ns: int = 3
    depth: int = 7
    cycles: int = 5


class TwoSpec(Struct, frozen=True, kw_only=True):
    latency_ns: float
    width_gbs: float


@pytest.fixture
def slow(toy_chip):
    """The attributes *spec* for PE_GEMM of a PE that is slow by *factor*."""

    def scale(spec, factor):
        topology = toy_chip((SLOW, f"{SLOW}slow: {{pe0: {factor}}}\n"))
        return slowed(ComponentBase, spec, topology.graph.nodes["sip0.cube0.pe0.pe_gemm"], topology)

    return scale


def test_times_are_multiplied_and_rates_divided(slow):
    spec = OwnSpec(width_gbs=3, poll_us=[1, 0.5], moves_ns={"a": 1.5})
    assert slow(spec, 2) == OwnSpec(
        latency_ns=5.0,
        width_gbs=1.5,
        clock_ghz=0.5,
        wait_ps=200,
        poll_us=[2.0, 1.0],
        moves_ns={"a": 3.0},
        banks=Banks(row_ns=8.0, rows=3),
        ns=6,
    )
    assert slow(OwnSpec(), 2).width_gbs is None


def test_a_factor_of_one_gives_the_same_object(slow):
    spec = OwnSpec()
    assert slow(spec, 1) is spec


@pytest.mark.parametrize("factor", [1.1, 1.3, 1.7, 3, 7, 9.99, 123.456, 1000])
@pytest.mark.parametrize("value", [0.7, 1.0, 1.41, 102.4, 0.3333])
def test_times_come_to_the_exact_product_rounded_up(slow, factor, value):
    spec = slow(TwoSpec(latency_ns=value, width_gbs=value), factor)
    exact_factor = Fraction(str(factor))
    assert ps_from_ns(spec.latency_ns) == ceil(exact(value) * 1000 * exact_factor)
    for count in (1, 46, 512, 318 * 1024, 10**7):
        assert Rate.from_gbs(spec.width_gbs).ps(count) == ceil(count * 1000 * exact_factor / exact(value))
        assert Rate.from_ghz(spec.width_gbs).ps(count) == ceil(count * 1000 * exact_factor / exact(value))


def refusal(call: Any) -> str:
    with pytest.raises(TopologyError) as caught:
        call()
    return str(caught.value)


def test_a_value_out_of_bounds_and_part_of_a_picosecond_are_refused(slow):
    begin = "toy.yaml:3:1: $.slow: got a factor of"
    assert refusal(lambda: slow(OwnSpec(), 8)) == (
        f"{begin} 8 for sip0.cube0.pe0, for which sip0.cube0.pe0.pe_gemm.clock_ghz is 0.125, needs >= 0.25; choose "
        "another factor"
    )
    assert refusal(lambda: slow(OwnSpec(wait_ps=5), 1.5)) == (
        f"{begin} 1.5 for sip0.cube0.pe0, for which sip0.cube0.pe0.pe_gemm.wait_ps is 7.5, needs an int; choose "
        "another factor"
    )


def test_a_block_of_another_maker_without_a_time_is_refused(toy_engine):
    slow = (SLOW, f"{SLOW}slow: {{pe0: 2}}\n")
    assert refusal(lambda: toy_engine(slow)) == (
        "toy.yaml:3:1: $.slow: got a factor of 2 for sip0.cube0.pe0, whose toy.dma has no attribute that is a "
        "time or a rate, needs one whose name ends in one of _ps, _ns, _us, _gbs, _ghz, _mhz; leave the PE out of "
        "`slow`, or add such an attribute to the block"
    )
