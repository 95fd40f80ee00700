"""Observer: the base of all objects that watch a run. Listeners: the calls by which an engine notifies them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from kb_engine.observe.capture import Capture
from kb_messages import TraceEvent, WaitReason

if TYPE_CHECKING:  # kb_engine.block imports simpy, and findings of kernels are read without a simulation
    from kb_engine.block.in_flight import CommandInFlight
    from kb_engine.observe.chip import Chip

Rows = npt.NDArray[np.void]
"""Rows of a structured array."""
StageTimes = tuple[int, int, int, int, int]
"""Op id, then the picoseconds at which a stage was ready, started, ended and left its block."""


class Observer:
    """Watches a run. Derive from it, override some methods, and give the object to `Engine(observers=[...])`.

    A method that no observer overrides is never called and costs nothing. Observers are notified in the order in which
    the engine has them. They change nothing: times, data and the op log are the same without them.
    """

    def on_built(self, chip: Chip) -> None:
        """The chip is finished. Called once, before anything runs."""

    def on_launch(self) -> None:
        """The host calls for a launch."""

    def on_launched(self) -> None:
        """The launch is answered. A launch that raises an error is not answered."""

    def on_return(self) -> None:
        """A call of the host is over, or was given up. Nothing more happens on the chip before the next one."""

    def on_issue(self, command: CommandInFlight) -> None:
        """A kernel issued *command*, which has its plan."""

    def on_issue_again(self, command: CommandInFlight, n: int) -> None:
        """Skipped programs issued *n* more commands like *command*, elsewhere in memory.

        An observer that overrides `on_issue` alone is notified of each of these commands. Then nothing is skipped
        without an op log.
        """

    def on_stage(self, times: StageTimes, /) -> None:
        """A tile has left a stage that does something with data. Called for every one: keep it short."""

    def on_wait(self, op_id: int, reason: WaitReason, waited_ps: int) -> None:
        """The stage of the last `on_stage` waited for *reason* before its service began."""

    def on_chunk(self, ops: Rows, strings: Sequence[str]) -> None:
        """A chunk of the op log was written: the table *ops*, with texts as numbers of *strings*. Change neither."""

    def on_trace(self, event: TraceEvent) -> None:
        """An event of the trace. Events come in the order of `trace_order`, a little after they happened."""

    def on_allocate(self, pe_id: str, address: int, nbytes: int, line: str) -> None:
        """The program on *pe_id* allocated *nbytes* of TCM at *address*, for the kernel's *line*."""

    def on_free(self, pe_id: str, address: int) -> None:
        """The program on *pe_id* gave back its allocation at *address* before its end."""

    def on_program_end(self, pe_id: str, held: Sequence[int]) -> None:
        """A program on *pe_id* ends, and gives back the TCM ranges at the addresses *held*."""

    def on_capture(self, capture: Capture) -> None:
        """A kernel captured a value, or prints one that pass 2 computes."""

    def on_look(self, pe_id: str, line: str, waited_ps: int) -> None:
        """The program on *pe_id* read a computed value at *line*, and waited *waited_ps* for it."""

    def on_wrapped_index(self, pe_id: str, line: str, wrapped_at: str) -> None:
        """The program on *pe_id* indexes at *line* by integers that follow from some that wrapped at *wrapped_at*."""

    def on_housekeeping(self) -> None:
        """Thousands of events have run since the last call: time to write rows that have piled up."""


class Callbacks(Observer):
    """An observer made of functions: `Callbacks(on_trace=events.append)`. Raises TypeError for an unknown name."""

    def __init__(self, **functions: Callable[..., None]) -> None:
        for name, function in functions.items():
            if name not in HOOKS:
                raise TypeError(f"got a callback {name}, needs one of {', '.join(HOOKS)}")
            setattr(self, name, function)


HOOKS: Final = tuple(name for name in vars(Observer) if name.startswith("on_"))
"""The methods of Observer."""


class Listeners:
    """For each method of Observer, one function that calls all observers that override it, or None."""

    __slots__ = HOOKS
    on_built: Callable[..., None] | None
    on_launch: Callable[..., None] | None
    on_launched: Callable[..., None] | None
    on_return: Callable[..., None] | None
    on_issue: Callable[..., None] | None
    on_issue_again: Callable[..., None] | None
    on_stage: Callable[..., None] | None
    on_wait: Callable[..., None] | None
    on_chunk: Callable[..., None] | None
    on_trace: Callable[..., None] | None
    on_allocate: Callable[..., None] | None
    on_free: Callable[..., None] | None
    on_program_end: Callable[..., None] | None
    on_capture: Callable[..., None] | None
    on_look: Callable[..., None] | None
    on_wrapped_index: Callable[..., None] | None
    on_housekeeping: Callable[..., None] | None

    def __init__(self, observers: Sequence[Observer]) -> None:
        for name in HOOKS:
            setattr(self, name, listener(observers, name))


def listener(observers: Sequence[Observer], name: str) -> Callable[..., None] | None:
    """A function that calls the method *name* of all *observers* that override it; None if none does.

    For one observer it is that observer's own function, so that a call takes no detour.
    """
    heard = [getattr(each, name) for each in observers if _overrides(each, name)]
    if len(heard) < 2:
        return heard[0] if heard else None

    def tell(*arguments: Any) -> None:
        for hear in heard:
            hear(*arguments)

    return tell


def listener_of_each(observers: Sequence[Observer], name: str, together: str) -> Callable[..., None] | None:
    """A function that calls the method *name* of *observers* that do not override the method *together*; None if none
    has it.

    *together* notifies of many commands at once.
    """
    return listener([each for each in observers if not _overrides(each, together)], name)


def _overrides(observer: Observer, name: str) -> bool:
    return name in vars(observer) or getattr(type(observer), name) is not getattr(Observer, name)
