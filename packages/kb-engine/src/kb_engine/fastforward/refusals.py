"""SlowPathReasons for which an engine, as it was made, skips no part of a run or isolates no command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kb_engine.observe.listeners import listener, told_of_each
from kb_engine.observe.observer import Observer
from kb_engine.observe.slow_path import SkipRefusal

WITHOUT_TEMPLATES: Final = SkipRefusal(
    "the engine was made with `templates=False`",
    "make it with `templates=True`: `kb run` does so without --no-templates and --sanitize",
)
OF_STAGES: Final = ("on_stage", "on_wait")
"""Methods by which observers hear of every stage of every tile."""
_OF_PROGRAMS: Final = ("on_allocate", "on_free", "on_program_end")
"""Methods by which observers hear of programs that look at no values. They do not hear of skipped programs."""
_TIES: Final = SkipRefusal(
    "links of the chip decide who goes first when requests wait", "take a chip without such links"
)
_OUT: Final = "leave the observer out"
_TOGETHER: Final = "give the observer `on_issue_again`"
_HEARS: Final = {
    "on_stage": "each stage",
    "on_wait": "each wait of a tile",
    "on_trace": "each event, as `kb run --trace` asks",
    "on_issue": "each command, and there is no op log",
    "on_allocate": "TCM that is given",
    "on_free": "TCM that is free again",
    "on_program_end": "each end of a program",
}
"""What an observer is told of, by its method."""


def heard_of_programs(observers: Sequence[Observer]) -> list[str]:
    """The methods by which some of *observers* would miss a program that is skipped."""
    heard = [name for name in _OF_PROGRAMS if listener(observers, name) is not None]
    if told_of_each(observers, "on_issue", "on_issue_again") is not None:
        heard.insert(0, "on_issue")
    return heard


def why_nothing_skips(is_foreseen: bool, told: Sequence[str]) -> SkipRefusal:
    """The reason that no program and no tile is skipped.

    *is_foreseen* says whether the order of transfers follows from their times, and *told* names the methods by which
    observers hear of each event.
    """
    return why_heard(told) if is_foreseen else _TIES


def why_nothing_isolates(is_foreseen: bool, told: Sequence[str]) -> SkipRefusal:
    """The reason that no command is isolated, with the arguments of `why_nothing_skips`; *told* may be empty."""
    if told:
        return why_heard(told)
    if not is_foreseen:
        return _TIES
    cause = "a block of the chip begins transfers that no command of its PE asks for"
    return SkipRefusal(cause, "give the block's class `needs_no_queue`, if its transfers follow from tokens alone")


def why_heard(told: Sequence[str]) -> SkipRefusal:
    """The reason that observers are *told* of what is only known event by event."""
    hears = " and ".join([_HEARS.get(name, name) for name in told])
    change = f"keep the op log, or {_TOGETHER}" if list(told) == ["on_issue"] else _OUT
    return SkipRefusal(f"an observer is told of {hears}", change)
