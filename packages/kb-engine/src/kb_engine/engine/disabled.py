"""Why an engine skips no part of a run, or closes no command, as it was made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kb_engine.observe.slow_path import SkipRefusal

WITHOUT_TEMPLATES: Final = SkipRefusal(
    "the engine was made with `templates=False`",
    "make it with `templates=True`: `kb run` does so without --no-templates and --sanitize",
)
_EVENTS: Final = SkipRefusal("`exact` is `events`", "simulate with `exact` as `closed`")
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


def why_nothing_skips(exact: str, is_foreseen: bool, told: Sequence[str]) -> SkipRefusal:
    """Why an engine skips no part of a run: *exact* as it was made with, whether its fabric *is_foreseen*, and what
    observers are *told*."""
    if exact == "events":
        return _EVENTS
    if not is_foreseen:
        return _TIES
    return why_heard(told)


def why_nothing_isolates(exact: str, is_foreseen: bool, told: Sequence[str]) -> SkipRefusal:
    """Why an engine closes no command: as `why_nothing_skips`, where *told* may be empty."""
    if exact == "events":
        return _EVENTS
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
