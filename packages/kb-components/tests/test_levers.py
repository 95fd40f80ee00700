"""Every attribute of a built-in block that is a cost has a lever, and so have the places that kernels wait for."""

import re
from importlib.metadata import entry_points

from msgspec.structs import fields

from kb_messages import levers_of

COST = re.compile(r"(_gbs|_ns|_ghz|_mhz)$")
DRAM_TIMING = re.compile(r"^t[a-z_]+_ns$")
"""Distances between commands of a banked memory. A chip does not have one of them alone at half the value."""
PLACES = "depth", "outstanding"


def test_every_cost_has_a_lever_and_nothing_else_has() -> None:
    points = sorted(entry_points(group="kb.components"), key=lambda point: point.name)
    blocks = {point.name: point.load() for point in points if point.name.startswith("builtin.")}
    assert len(blocks) >= 15
    for name, block in blocks.items():
        levers = [field for field, _ in levers_of(block.spec_type)]
        names = [field.encode_name for field in fields(block.spec_type)]
        expected = [each for each in names if COST.search(each) or each in PLACES]
        assert levers == [each for each in expected if not DRAM_TIMING.match(each)], name


def test_rates_are_better_when_twice_and_times_when_half() -> None:
    for point in entry_points(group="kb.components"):
        if point.name.startswith("builtin."):
            for field, lever in levers_of(point.load().spec_type):
                better = "half" if field.endswith("_ns") else "one more" if field in PLACES else "twice"
                assert lever.better == better, (point.name, field)
