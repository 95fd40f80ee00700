"""Checks of the names of a block's state: every attribute that changes is named in `state` or `caches`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kb_engine.block.component import ComponentBase
from kb_engine.block.fabric_roles import MemoryComponent
from kb_engine.block.in_flight import CommandInFlight
from kb_engine.block.pe_roles import AddressTranslator, CommandScheduler
from kb_engine.testing.line import COMMAND, Line
from kb_engine.testing.subject import PE, Subject
from kb_engine.testing.watch import state_of
from kb_engine.timing.clock import Clock
from kb_messages import KbError, Rectangle, SubmittedCommand


def check_names_its_state(subject: Subject) -> None:
    """Every attribute that changes while the block works is in the `state` or `caches` of its class or of a base.

    All names there are attributes of the block.
    """
    block, work = at_work(subject)
    before = state_of(block, own=True)
    work()
    after = state_of(block, own=True)
    named = names_of(type(block), "state") | names_of(type(block), "caches")
    missing = sorted(name for name in named if not hasattr(block, name))
    if missing:
        subject.fail("state", f"the name {missing[0]}", "names of the block's attributes", "remove it")
    changed = sorted(name for name in before | after if before.get(name) != after.get(name) and name not in named)
    if changed:
        fix = "add each to `state`, or to `caches` if forgetting it changes nothing"
        subject.fail("state", f"a change of {', '.join(changed)}", "the names of all attributes that change", fix)


def check_counts(subject: Subject) -> None:
    """Every counter is an attribute of the block, an int of at least 0, and never falls while the block works."""
    block, work = at_work(subject)
    before = _counts(subject, block)
    work()
    after = _counts(subject, block)
    for name, count in before.items():
        if after[name] < count:
            subject.fail(f"counters: {name}", f"{after[name]} after {count}", "a number that never falls")


def _counts(subject: Subject, block: ComponentBase[Any]) -> dict[str, int]:
    named = sorted(names_of(type(block), "counters"))
    missing = [name for name in named if not hasattr(block, name)]
    if missing:
        subject.fail("counters", f"the name {missing[0]}", "names of the block's attributes", "remove it")
    counts = subject.call("counts", block.counts)
    for name, count in counts.items():
        if type(count) is not int or count < 0:
            subject.fail(f"counters: {name}", repr(count), "an int >= 0")
    return dict(counts)


def names_of(impl: type, kind: str) -> set[str]:
    """The attributes that *impl* and its bases name in their class attribute *kind*, such as `state`."""
    return {name for owner in impl.__mro__ for name in vars(owner).get(kind, ())}


def at_work(subject: Subject) -> tuple[ComponentBase[Any], Callable[[], object]]:
    """A block, and a function that makes the block work in its role."""
    if subject.impl.serves:
        line = Line(subject)
        return line.block, line.run
    clock = Clock()
    block = subject.build(clock)

    def work() -> None:
        if isinstance(block, MemoryComponent):
            for number in range(8):
                block.reserve(1000 * number, Rectangle(64 * number, 4, 64, 256), 1000 * number, bool(number % 2))
        elif isinstance(block, AddressTranslator):
            for number in range(8):
                block.lookup_ps(Rectangle(block.page_nbytes * (number // 2), 1, 64, 64))
        elif isinstance(block, CommandScheduler):
            _submit(block, clock)

    return block, work


def _submit(block: CommandScheduler[Any], clock: Clock) -> None:
    """Makes *block* plan, take and feed a GEMM, if its neighbours allow it."""
    submitted = SubmittedCommand(command_seq=0, pe=PE, line="the contract suite", command=COMMAND)
    try:
        block.submit(CommandInFlight(submitted, block.plan(submitted), 0, block.complete))
        clock.drain()
    except KbError:
        return  # neighbours are missing, or no wires lead on from them
