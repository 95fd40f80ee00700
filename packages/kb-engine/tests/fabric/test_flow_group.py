"""A group hears of the changes of its pace that it has to hear of."""

import pytest

from kb_engine.fabric.sharing.arrival_curve import FairShare
from kb_engine.fabric.sharing.flow_group import FlowGroup
from kb_engine.timing.clock import Clock


class Link:
    """A link with *room* for so many more bytes a picosecond, which notes (time, rate) of what it hears."""

    def __init__(self, clock, share, room=0.0):
        self.clock = clock
        self.share = share
        self.room = room
        self.times = []

    def hear(self, group):
        self.times.append((self.clock.now_ps, self.share.rate_at(self.clock.now_ps - group.delay_ps)))

    def takes(self, more):
        self.room -= more
        return self.room >= 0


@pytest.fixture
def heard():
    """A share at rate 1, its group 10 ps away with a ceiling of 1, the clock, and (time, rate) of what is heard."""
    clock, share = Clock(), FairShare(0)
    share.change(0, 1.0)
    link = Link(clock, share)
    group = FlowGroup((share, 10), 10, link)
    group.passing["a stream"] = None
    return clock, share, group, link.times


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
    clock, share = Clock(), FairShare(0)
    link = Link(clock, share)
    group = FlowGroup((share, 0), 0, link)
    group.passing["a stream"] = None
    group.hear_all(clock, 0)
    change(clock, share, 20, 0.1)
    clock.call_at(20, lambda _: change(clock, share, 20, 0.05), None)
    clock.drain()
    assert link.times == [(20, 0.1), (20, 0.05)]


def test_an_empty_group_hears_nothing_more(heard):
    clock, share, group, times = heard
    group.retire()
    change(clock, share, 20, 9.0)
    clock.drain()
    assert times == []


def test_a_link_that_has_room_for_a_rate_promises_it_and_hears_of_rates_beyond():
    clock, share = Clock(), FairShare(0)
    share.change(0, 1.0)
    link = Link(clock, share, room=1.5)
    group = FlowGroup((share, 10), 10, link)
    group.passing.update({"a stream": None, "another": None})
    # two streams at 1.5 are 1.0 more than at 1.0; at 2.0 they would be another 1.0, and 0.5 are left
    for at, rate in ((20, 1.5), (30, 0.25), (40, 1.5), (50, 2.0)):
        change(clock, share, at, rate)
    clock.drain()
    assert link.times == [(60, 2.0)]
    assert group.ceiling == 1.5
