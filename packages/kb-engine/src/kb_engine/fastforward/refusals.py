"""SkipRefusals of an engine that skips nothing at all, and refusals that several means of speed give.

Design: docs/design/fast-forward.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kb_engine.observe.observer import Observer, listener, listener_of_each
from kb_engine.observe.slow_path import SkipRefusal

VIRTUAL: Final = SkipRefusal("the command has virtual addresses", "pass tensors that are not mapped")
IN_PIECES: Final = SkipRefusal(
    "the command moves its rows in pieces", "load and store blocks whose rows lie behind each other"
)
COMBINES: Final = SkipRefusal(
    "the command combines the bytes that it stores with bytes in memory", "add up in TCM, and store once"
)
SPREAD: Final = SkipRefusal("an operand is spread over several memories", "place a tensor in one memory for each PE")
WITHOUT_TEMPLATES: Final = SkipRefusal(
    "the engine was made with `templates=False`",
    "make it with `templates=True`: `kb run` does so without --no-templates and --sanitize",
)
OTHERS_UNDER_WAY: Final = SkipRefusal(
    "another launch, or a transfer of the host, is under way at the same time", "one stream, or calls without streams"
)
OF_STAGES: Final = ("on_stage", "on_wait")
"""Methods of observers that are called for every stage of every tile."""
_OF_PROGRAMS: Final = ("on_allocate", "on_free", "on_program_end")
"""Methods of observers that are called for programs, but not for skipped programs."""
_TIES: Final = SkipRefusal("links of the chip choose among waiting requests", "take a chip without such links")
_NO_OBSERVER: Final = "leave the observer out"
_OF_MANY: Final = "give the observer `on_issue_again`"
_EVENTS_OF: Final = {
    "on_stage": "each stage",
    "on_wait": "each wait of a tile",
    "on_trace": "each event, as `kb run --trace` asks",
    "on_issue": "each command, and there is no op log",
    "on_allocate": "each allocation of TCM",
    "on_free": "each release of TCM",
    "on_program_end": "each end of a program",
}
"""The events that an observer listens to, by its method."""


def methods_of_programs(observers: Sequence[Observer]) -> list[str]:
    """Returns the methods of *observers* that would miss a program that is skipped."""
    listening = [name for name in _OF_PROGRAMS if listener(observers, name) is not None]
    if listener_of_each(observers, "on_issue", "on_issue_again") is not None:
        listening.insert(0, "on_issue")
    return listening


def why_nothing_skips(is_foreseen: bool, methods: Sequence[str]) -> SkipRefusal:
    """Returns the reason why no program and no tile is skipped.

    *is_foreseen* says whether the order of transfers follows from their times. *methods* names the methods of observers
    that are called for each event.
    """
    return _listening(methods) if is_foreseen else _TIES


def why_nothing_isolates(is_foreseen: bool, methods: Sequence[str]) -> SkipRefusal:
    """Returns the reason why no command is isolated. The arguments are as for `why_nothing_skips`; *methods* may be
    empty."""
    if methods:
        return _listening(methods)
    if not is_foreseen:
        return _TIES
    cause = "a block of the chip begins transfers without a command of its PE"
    return SkipRefusal(cause, "give the block's class `needs_no_queue`, if its transfers follow from tokens alone")


def _listening(methods: Sequence[str]) -> SkipRefusal:
    """Returns the reason that an observer listens to single events, by the methods *methods*."""
    hears = " and ".join([_EVENTS_OF.get(name, name) for name in methods])
    change = f"keep the op log, or {_OF_MANY}" if list(methods) == ["on_issue"] else _NO_OBSERVER
    return SkipRefusal(f"an observer listens to {hears}", change)
