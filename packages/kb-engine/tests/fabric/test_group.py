"""A group hears of the changes of its pace that it has to hear of."""

import pytest

from kb_engine.fabric.group import Group
from kb_engine.fabric.pace import FairShare
from kb_engine.timing.clock import Clock


@pytest.fixture
def heard():
    """A share at rate 1, its group 10 ps away with a ceiling of 1, the clock, and (time, rate) of what is heard."""
    clock, share, times = Clock(), FairShare(0), []
    share.change(0, 1.0)
    group = Group(share, 10, 10, lambda g: times.append((clock.now_ps, share.rate_at(clock.now_ps - 10))))
    return clock, share, group, times


def change(clock, share, at, rate):
    def now(_):
        share.change(at, rate)
        share.announce(clock)

    clock.call_at(at, now, None)


def test_only_rates_above_the_ceiling_are_heard(heard):
    clock, share, _, times = heard
    for at, rate in ((20, 0.5), (30, 1.0), (40, 1.5)):
        change(clock, share, at, rate)
    clock.drain()
    assert times == [(50, 1.5)]


def test_a_group_that_hears_all_hears_of_changes_on_their_way(heard):
    clock, share, group, times = heard
    change(clock, share, 20, 0.5)
    clock.call_at(25, lambda _: group.hear_all(clock, 25), None)
    change(clock, share, 40, 0.25)
    clock.drain()
    assert times == [(30, 0.5), (50, 0.25)]


def test_two_changes_in_one_picosecond_are_heard_once(heard):
    clock, share, group, times = heard
    group.hear_all(clock, 10)
    change(clock, share, 20, 3.0)
    change(clock, share, 20, 0.5)
    clock.drain()
    assert times == [(30, 0.5)]


def test_a_change_after_the_first_was_heard_in_the_same_picosecond_is_heard_too():
    clock, share, times = Clock(), FairShare(0), []
    group = Group(share, 0, 0, lambda _: times.append((clock.now_ps, share.rate)))
    group.hear_all(clock, 0)
    change(clock, share, 20, 0.1)
    clock.call_at(20, lambda _: change(clock, share, 20, 0.05), None)
    clock.drain()
    assert times == [(20, 0.1), (20, 0.05)]


def test_an_empty_group_hears_nothing_more(heard):
    clock, share, group, times = heard
    group.retire()
    change(clock, share, 20, 9.0)
    clock.drain()
    assert times == []
