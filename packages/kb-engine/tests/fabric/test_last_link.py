"""The narrow link that one transfer has to itself: when its last byte leaves, by hand."""

import pytest

from kb_engine.fabric.sharing.arrival_curve import FairShare, SteadyPace
from kb_engine.fabric.sharing.last_link import LastLink, Narrowing

LINK = Narrowing(bandwidth=1.0, duration_ps=100, after_ps=5)
"""A byte a picosecond, for transfers of 100 bytes."""


def share_of(*changes: tuple[int, float]) -> FairShare:
    """A share whose rate changes at (ps, bytes a picosecond)."""
    share = FairShare(changes[0][0])
    share.look_back(1000)
    for at_ps, rate in changes:
        share.change(at_ps, rate)
    return share


@pytest.mark.parametrize(
    ("sent_ps", "ends_ps"),
    [
        (200, 215),  # half a byte a picosecond passes: 200 + 10 + 5
        (50, 115),  # two bytes a picosecond wait: the first at 10, 100 ps on the link, 5 behind it
        (100, 115),
        (0, 115),  # all at once
    ],
)
def test_even_bytes_take_the_longer_of_their_own_time_and_that_of_the_link(sent_ps, ends_ps):
    link = LastLink(LINK, 100)
    link.comes(10, SteadyPace(0, sent_ps, 100), 10, 0.0)
    assert link.ends_ps(sent_ps + 10) == ends_ps


@pytest.mark.parametrize(
    ("changes", "last_ps", "ends_ps"),
    [
        # 60 bytes by 130, of which 30 have left; the other 30 drain by 190; 100 bytes have come by 210
        ([(100, 2.0), (130, 0.5)], 210, 225),
        # 80 bytes by 140, 40 have left; 100 bytes by 180, 80 have left; the last leaves at 200
        ([(100, 2.0), (140, 0.5)], 180, 215),
        # 25 bytes pass by 150; from then on two bytes a picosecond until 187.5: 75 bytes take until 225
        ([(100, 0.5), (150, 2.0)], 188, 240),
        # 60 bytes by 130; drained by 190, when 90 have come; ten at 0.5 a picosecond
        ([(100, 2.0), (130, 0.5), (250, 0.25)], 210, 225),
    ],
)
def test_bytes_at_a_share_wait_while_they_come_faster_than_they_leave(changes, last_ps, ends_ps):
    link = LastLink(LINK, 100)
    link.comes(110, share_of(*changes), 10, 0.0)
    assert link.ends_ps(last_ps + 10) == ends_ps


def test_a_backlog_outlives_the_pace_that_made_it():
    # two bytes a picosecond from 10 on; at 30, 40 bytes have come and 20 have left, and a share of 0.25 follows
    link = LastLink(LINK, 100)
    link.comes(10, SteadyPace(0, 50, 100), 10, 0.0)
    assert link.ends_ps(60) == 115
    link.comes(30, share_of((20, 0.25)), 10, -40.0)
    # the other 60 bytes come by 20 + 240 + 10, long after the backlog has gone
    assert link.ends_ps(270) == 275


def test_a_backlog_goes_on_at_the_rate_of_the_link_under_another_pace():
    # at 50, 80 bytes have come and 40 have left; the other 20 come by 70, the last byte leaves at 110
    link = LastLink(LINK, 100)
    link.comes(10, SteadyPace(0, 50, 100), 10, 0.0)
    link.comes(50, share_of((40, 1.0)), 10, -80.0)
    assert link.ends_ps(70) == 115


@pytest.mark.parametrize(("delay_ps", "ends_ps"), [(10, 165), (30, 185)])
def test_a_rate_that_rises_with_the_last_byte_makes_no_byte_wait(delay_ps, ends_ps):
    # 25 bytes by 150, as many as the transfer has, when the share rises above the link
    link = LastLink(LINK._replace(duration_ps=25), 25)
    link.comes(100 + delay_ps, share_of((100, 0.5), (150, 2.0)), delay_ps, 0.0)
    assert link.ends_ps(150 + delay_ps) == ends_ps


def test_the_past_is_kept_from_the_first_byte_to_the_end():
    share = FairShare(0)
    share.change(0, 0.5)
    link = LastLink(LINK, 100)
    link.comes(10, share, 10, 0.0)
    for at_ps in range(1, 150):
        share.change(at_ps, 0.5 + at_ps % 2 / 4)
    # 0.75 and 0.5 in turn: 62.5 bytes every 100 ps, 100 bytes by 160
    assert len(share.lines(0, 160)) == 150
    assert link.ends_ps(170) == 175
    for at_ps in range(150, 300):
        share.change(at_ps, 0.5 + at_ps % 2 / 4)
    assert len(share.lines(0, 300)) < 200
