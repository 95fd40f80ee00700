"""Levers of fields that are costs."""

from typing import Annotated

from msgspec import Meta, Struct, field

from kb_messages import Lever, levers_of

BANDWIDTH = Lever(("hbm: bytes", "sram"), "twice", "bandwidth")
LATENCY = Lever(("hbm: latency",), "half", "latency")


class Attributes(Struct):
    depth: Annotated[int, Meta(ge=1)]
    latency: Annotated[float, Meta(ge=0, extra=LATENCY.extra)] | None = field(name="latency_ns", default=None)
    bw_gbs: Annotated[float, Meta(gt=0, extra=BANDWIDTH.extra)] = 1.0
    other: Annotated[float, Meta(extra={"unit": "ns"})] = 1.0


def test_fields_that_are_costs_have_levers() -> None:
    assert list(levers_of(Attributes)) == [("latency_ns", LATENCY), ("bw_gbs", BANDWIDTH)]


def test_a_lever_moves_its_classes_and_nothing_else() -> None:
    assert BANDWIDTH.moves("hbm", "bytes")
    assert BANDWIDTH.moves("sram", "latency")
    assert not BANDWIDTH.moves("hbm", "latency")
    assert not BANDWIDTH.moves("pe_gemm", "bytes")
