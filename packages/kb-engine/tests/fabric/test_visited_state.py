"""The `visit_state` of each part of a shared link hands over every attribute that changes."""

import pytest

from kb_engine.fabric.interleaved import Gathering, visit_row
from kb_engine.fabric.sharing.arrival_curve import FairShare, SteadyPace
from kb_engine.fabric.sharing.flow_group import FlowGroup
from kb_engine.fabric.sharing.last_link import LastLink, Narrowing
from kb_engine.fabric.sharing.shared_link import SharedLink
from kb_engine.testing.state_views import Later, names_read
from kb_engine.timing.clock import Clock
from kb_engine.timing.units import Rate

LATER_PS = 1_000_003


def last_link() -> LastLink:
    link = LastLink(Narrowing(0.1, 1000, 5), 100)
    link.comes(7, SteadyPace(7, 107, 100), 0, 0.0)
    return link


PARTS = {
    "link": (
        SharedLink(Clock(), Rate.from_gbs(64), lambda _: None),
        {"_alone", "_bandwidth", "_deliver", "_flows", "_most", "_order"},
    ),
    "share": (FairShare(3), set()),
    "line": (SteadyPace(0, 10, 64), {"rate"}),
    "group": (FlowGroup((FairShare(3), 5), 9, SharedLink(Clock(), Rate.from_gbs(64), lambda _: None)), {"key"}),
    "last link": (last_link(), {"_nbytes"}),
    "gathering": (Gathering(2, lambda _: None, (print, None), 40, -1), {"_finish"}),
}
"""A part of each kind, and those of its attributes that stay as they are. Nobody has the idle link alone."""


@pytest.mark.parametrize("name", PARTS)
def test_every_attribute_that_changes_is_handed_over(name: str) -> None:
    part, constant = PARTS[name]
    slots = {slot for kind in type(part).__mro__ for slot in getattr(kind, "__slots__", ())}
    assert slots - names_read(part) == constant


def test_moments_of_a_share_move_and_levels_stay() -> None:
    share = FairShare(100)
    share.change(200, 0.5)
    share.change(300, 0.25)
    later = share.level_at(320)
    share.hold(last_link(), 250)
    Later(deep=False).part(share)
    share.visit_state(Later(deep=False))
    assert share.level_at(320 + LATER_PS) == later
    assert share.level_at(250 + LATER_PS) == 25.0
    assert share.changes_after(250 + LATER_PS) == [300 + LATER_PS]


def test_a_row_of_transfers_moves_where_it_has_moments() -> None:
    """Columns 2 to 6 are moments, of which -1 stays; the memory, the way back and the wait are as they were."""
    assert visit_row(Later(), ()) == ()
    row = 7, 3, 10, 20, -1, 30, 40, 5, 6, -1
    moved = 7, 3, 10 + LATER_PS, 20 + LATER_PS, -1, 30 + LATER_PS, 40 + LATER_PS, 5, 6, -1
    assert visit_row(Later(), row) == moved
