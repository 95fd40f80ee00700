"""The pace of streams: levels and rates, now and in the past, and how much of the past is kept."""

import pytest

from kb_engine.fabric.sharing.arrival_curve import FairShare, SteadyPace


def test_a_steady_pace_is_even_from_its_start_to_its_end():
    pace = SteadyPace(100, 300, 50)
    assert [pace.level_at(t) for t in (0, 100, 200, 300, 400)] == [0, 0, 25, 50, 50]
    assert [pace.rate_at(t) for t in (100, 299, 300)] == [0.25, 0.25, 0]
    assert pace.peak_since(0) == 0.25


def test_a_steady_pace_without_length_brings_all_bytes_at_once():
    pace = SteadyPace(100, 100, 50)
    assert (pace.level_at(99), pace.level_at(100), pace.rate_at(100)) == (0, 50, 0)


@pytest.fixture
def share() -> FairShare:
    """0 until 100, then 2 bytes a picosecond, 1 from 200 on, 4 from 300 on."""
    made = FairShare(0)
    made.look_back(1000)
    for at, rate in ((100, 2.0), (200, 1.0), (300, 4.0)):
        made.change(at, rate)
    return made


def test_a_share_knows_its_past(share):
    assert [share.level_at(t) for t in (50, 100, 150, 200, 250, 300, 310)] == [0, 0, 100, 200, 250, 300, 340]
    assert [share.rate_at(t) for t in (99, 100, 199, 200, 300, 900)] == [0, 2, 2, 1, 4, 4]
    assert [share.peak_since(t) for t in (300, 250, 150)] == [4, 4, 4]
    assert share.changes_after(100) == [300, 200]
    assert share.rises_after(0) == [100, 300]
    assert share.rises_after(100) == [300]


def test_two_changes_in_one_picosecond_leave_the_second():
    made = FairShare(0)
    made.change(10, 5.0)
    made.change(10, 1.0)
    assert (made.level_at(20), made.rate_at(10), made.changes_after(0)) == (10, 1, [10])


def test_a_share_keeps_no_more_of_its_past_than_somebody_asks_for():
    def kept(share: FairShare) -> int:
        for at in range(1, 1001):
            share.change(at * 10, float(at % 3))
        return len(share.changes_after(0))

    assert kept(FairShare(0)) < 50
    looked_back, held = FairShare(0), FairShare(0)
    looked_back.look_back(2000)
    assert 200 <= kept(looked_back) < 300
    holder = object()
    held.hold(holder, 5000)
    assert kept(held) >= 500
    held.release(holder)
    held.change(20000, 1.0)
    assert len(held.changes_after(0)) < 50
