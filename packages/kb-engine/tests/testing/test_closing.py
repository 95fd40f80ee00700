"""The check that a scheduler places commands again, which launches that repeat others rely on."""

import pytest
from engine_said_by import said_by
from engine_toys import Scheduler

from kb_engine.block import ClosableWork
from kb_engine.block.buffers import Slots
from kb_engine.block.placement import Placement
from kb_engine.testing import component_checks

CHECK = "places_commands_again"


class Work(ClosableWork):
    """A command of *scheduler*, whose commands take its slots in turn."""

    def __init__(self, scheduler, command):
        self.scheduler, self.command = scheduler, command

    def begin(self):
        raise AssertionError

    def place(self):
        self.cut(self.command)

    def place_again(self, command):
        self.cut(command)

    def once_more(self, command):
        raise AssertionError

    def cut(self, command):
        command.placement.input = Slots(0, 512, 4, self.scheduler.next_slot)
        self.scheduler.next_slot = (self.scheduler.next_slot + 1) % 4

    def cuts(self):
        return [self.scheduler.next_slot]

    def put_back(self, cuts):
        (self.scheduler.next_slot,) = cuts
        self.command.placement = Placement()

    def end(self):
        raise AssertionError


class Idle(Work):
    """Places nothing again."""

    def place_again(self, command):
        pass


class Stays(Work):
    """Cuts the same slot again for each command that is placed again."""

    def place_again(self, command):
        next_slot = self.scheduler.next_slot
        self.cut(command)
        self.scheduler.next_slot = next_slot


class Lacking(ClosableWork):
    """As Work, without `place_again`."""

    __init__ = Work.__init__
    begin, place, once_more = Work.begin, Work.place, Work.once_more
    cuts, put_back, end = Work.cuts, Work.put_back, Work.end


class Closing(Scheduler):
    """Has its commands closed."""

    work = Work

    def __init__(self, spec, context):
        super().__init__(spec, context)
        self.next_slot = 0

    def submit(self, context):
        assert self.closer.close(self.work(self, context))


class ClosesIdly(Closing):
    work = Idle


class ClosesInOneSlot(Closing):
    work = Stays


class ClosesWithout(Closing):
    work = Lacking


def test_a_scheduler_passes_whose_commands_are_placed_again():
    (check,) = (each for each in component_checks(Closing, {}) if str(each) == CHECK)
    check()


SAID = {
    ClosesIdly: "Idle.place_again: got a command whose slots are not those of `place`, needs the same slots",
    ClosesInOneSlot: "Stays.place_again: got cuts that are not those after `place`, needs the same cuts",
}


@pytest.mark.parametrize("impl", SAID)
def test_a_scheduler_fails_whose_commands_are_not_placed_again(impl):
    assert f"{impl.__name__}.submit: {SAID[impl]}; " in said_by(CHECK, impl)


def test_a_scheduler_fails_whose_commands_cannot_be_placed_again():
    said = said_by(CHECK, ClosesWithout)
    assert "Can't instantiate abstract class Lacking" in said
    assert "place_again" in said
