"""Raises the KeyboardInterrupts that Python drops. Python ignores exceptions within `__del__` or a callback of `gc`.

Design: docs/design/robustness.md

A kernel gives TCM back in `__del__`, so an interrupt may well come there. The release would be half done, and the
launch would go on. So a launch during which Python dropped a KeyboardInterrupt ends with a KeyboardInterrupt.
"""

from __future__ import annotations

import _thread
import sys
from collections.abc import Callable
from functools import wraps
from signal import SIGINT
from threading import get_ident, main_thread
from time import sleep
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from kb_engine.program.session import Session
from kb_engine.timing.collector import COLLECTOR

_AGAIN_S = 0.05
"""Seconds until the signal comes again. By then Python has left the code that drops exceptions."""


class _Engine(Protocol):
    @property
    def session(self) -> Session: ...


EngineT = TypeVar("EngineT", bound=_Engine)
P = ParamSpec("P")
ResultT = TypeVar("ResultT")


class _Watch:
    """Replaces `sys.unraisablehook` from `begin` to `end`, and passes all other dropped exceptions on to the old hook.

    `has_dropped` says whether Python has dropped a KeyboardInterrupt since `begin`.
    """

    def __init__(self) -> None:
        self.has_dropped = False
        self._is_on = False
        self._before = sys.unraisablehook

    def begin(self) -> None:
        """Installs the hook for dropped exceptions."""
        self._is_on = True
        sys.unraisablehook = self._on_dropped

    def end(self) -> None:
        """Removes the hook. Another hook that was installed meanwhile stays."""
        self._is_on = False
        if sys.unraisablehook == self._on_dropped:
            sys.unraisablehook = self._before

    def _on_dropped(self, dropped: Any) -> None:
        if not self._is_on or dropped.exc_type is not KeyboardInterrupt or get_ident() != main_thread().ident:
            self._before(dropped)
            return
        self.has_dropped = True
        if dropped.object == COLLECTOR.note:
            COLLECTOR.has_ended()
        _thread.start_new_thread(self._interrupt_again, ())  # a `Thread` waits, within the hook, until it has begun

    def _interrupt_again(self) -> None:
        """Interrupts a kernel that computes for long without a call of its language."""
        sleep(_AGAIN_S)
        if self._is_on:
            _thread.interrupt_main(SIGINT)


def raises_dropped_interrupts(
    launch: Callable[Concatenate[EngineT, P], ResultT],
) -> Callable[Concatenate[EngineT, P], ResultT]:
    """Decorates the method *launch* of an engine, so that it raises a KeyboardInterrupt that Python dropped meanwhile.

    Nothing more can be simulated then. Python raises KeyboardInterrupt in the main thread alone, so launches of other
    threads are left as they are.
    """

    @wraps(launch)
    def watched(engine: EngineT, /, *arguments: P.args, **named: P.kwargs) -> ResultT:
        COLLECTOR.has_ended()  # an interrupt between launches may have kept the collector's end from being noted
        if get_ident() != main_thread().ident:
            return launch(engine, *arguments, **named)
        watch = _Watch()
        watch.begin()
        try:
            result = launch(engine, *arguments, **named)
        except Exception:
            if not watch.has_dropped:  # else the error may follow from a release that the interrupt left half done
                raise
        finally:
            watch.end()
        if watch.has_dropped:
            engine.session.clock.mark_broken()
            raise KeyboardInterrupt
        return result

    return watched
