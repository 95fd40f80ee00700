"""Check that a scheduler places a command again as it placed the command the first time.

A launch that repeats another has the commands of that one placed again, and runs none of them.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kb_engine.block.closable import ClosableWork
from kb_engine.block.in_flight import CommandInFlight
from kb_engine.testing.line import COMMAND
from kb_engine.testing.subject import PE, Subject
from kb_engine.testing.watch import picture_of
from kb_engine.timing.clock import Clock
from kb_messages import KbError, SubmittedCommand


def check_places_again(subject: Subject) -> None:
    """`place_again` of a command that the block wants closed cuts the buffers and registers that `place` cuts.

    Nothing is checked of a block that asks nobody to close its commands.
    """
    clock = Clock()
    block: Any = subject.build(clock)
    block.closer = _PlacesTwice(subject)
    submitted = SubmittedCommand(command_seq=0, pe=PE, line="the contract suite", command=COMMAND)

    def submit() -> None:
        plan, addresses = block.shared_plan(submitted)
        try:
            block.submit(CommandInFlight(submitted, plan, 0, block.complete, addresses=addresses))
            clock.drain()
        except KbError:
            return  # neighbours are missing, or no wires lead on from them

    subject.call("submit", submit)


class _PlacesTwice:
    """A Closer that has each command placed and put back, and then placed again. It closes every command."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def wants(self, _: CommandInFlight) -> bool:
        """As Closer says."""
        return True

    def missed(self, _: CommandInFlight) -> None:
        """As Closer says."""

    def close(self, work: ClosableWork) -> bool:
        """As Closer says."""
        command, before = work.command, work.cuts()
        work.place()
        placed, cuts = replace(command.placement), picture_of(work.cuts())
        work.put_back(before)
        again = CommandInFlight(command.submitted, command.shared_plan, 0, command.done, addresses=command.addresses)
        work.place_again(again)
        where = f"submit: {type(work).__name__}.place_again"
        if again.placement != placed:
            fix = "cut buffers and registers for the command that it is given"
            self._subject.fail(where, "a command whose slots are not those of `place`", "the same slots", fix)
        if picture_of(work.cuts()) != cuts:
            fix = "later commands would lie elsewhere"
            self._subject.fail(where, "cuts that are not those after `place`", "the same cuts", fix)
        return True
