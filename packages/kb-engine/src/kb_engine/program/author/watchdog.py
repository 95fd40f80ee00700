"""The watchdog of kernels: stops one that runs on and on without letting simulated time pass.

Design: docs/design/trace-and-stuck-runs.md

A kernel that loops without a command stops the clock, so nothing in the simulator sees it. A thread of its own looks
once in a while at the entry of the clock that runs. It raises KernelNeverYields in the thread of the launch.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Thread, get_ident
from time import monotonic, sleep
from types import CodeType, FrameType
from typing import Any, Final

from kb_engine.program.author.cells import file_name
from kb_engine.program.author.kernel_lines import is_own
from kb_engine.timing.clock import Clock

_LOOK_S: Final = 1.0
"""Seconds between two looks, or a quarter of the shortest limit. Source: assumed; a look takes 20 us."""
_AGAIN_S: Final = 5.0
"""Seconds until KernelNeverYields is raised again in a kernel that goes on. Source: assumed."""
_DEBUGGERS: Final = ("bdb", "pdb", "IPython.core.debugger", "pydevd", "debugpy")
"""Modules whose frames stand in the stack while a person looks at a kernel."""
_LONG_CALLS: Final = ("kb_engine.program.materialize",)
"""Modules whose work is that of kernbench, and may take long: a kernel reads a value that has to be computed."""


class KernelNeverYields(BaseException):
    """Raised in a kernel that has run for the watchdog's limit. No `except Exception` of the kernel catches it."""


class _Watched:
    """A launch of the thread `ident`. The entry of `clock` with the key `entry` has run for `still_s` seconds."""

    def __init__(self, clock: Clock, limit_s: float) -> None:
        self.ident = get_ident()
        self.clock = clock
        self.limit_s = limit_s
        self.entry = clock.current
        self.still_s = 0.0
        self.n_raised = 0
        self.stood_at = ""
        self._before: Callable[[Any], object] = sys.unraisablehook

    def look(self, passed_s: float) -> None:
        """Adds *passed_s* to the time of the entry that runs, and raises KernelNeverYields after the limit.

        Frames are looked at after the limit alone. A reference to a frame would keep the values of a kernel that
        returns, and with them TCM.
        """
        entry = self.clock.current
        if entry != self.entry:
            self.entry, self.still_s = entry, 0.0
            return
        self.still_s += passed_s
        if self.still_s < self.limit_s:
            return
        frame = sys._current_frames().get(self.ident)
        if not _is_running(frame):
            self.still_s = 0.0
            return
        self.still_s = max(0.0, self.limit_s - _AGAIN_S)
        self.raise_in_kernel(frame)

    def raise_in_kernel(self, frame: FrameType | None) -> None:
        """Has Python raise KernelNeverYields in the kernel, which stands in *frame*."""
        if not self.n_raised:
            self._before, sys.unraisablehook = sys.unraisablehook, self._on_dropped
        self.n_raised += 1
        self.stood_at = _position(frame)
        raises = ctypes.pythonapi.PyThreadState_SetAsyncExc
        raises(ctypes.c_ulong(self.ident), ctypes.py_object(KernelNeverYields))
        if self.n_raised == 2:  # the first time, it may come late
            sys.stderr.write(f"\n{self.stood_at}: {_GOES_ON}\n")

    def end(self) -> None:
        """Removes the hook for dropped exceptions. Another hook that was installed meanwhile stays."""
        if sys.unraisablehook == self._on_dropped:
            sys.unraisablehook = self._before

    def _on_dropped(self, dropped: Any) -> None:
        """Passes on what Python drops in `__del__`, apart from KernelNeverYields, which comes again."""
        if dropped.exc_type is not KernelNeverYields:
            self._before(dropped)


class _Watchdog:
    """The launches that are watched, and the thread that looks at them. The thread ends when none is left."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begins with no launch, in a new process or in one that was forked, which has no other thread."""
        self._lock = Lock()
        self._watched: list[_Watched] = []
        self._thread: Thread | None = None

    def add(self, each: _Watched) -> None:
        """Watches *each*, whose launch begins in this thread."""
        with self._lock:
            self._watched.append(each)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="kernbench watchdog", daemon=True)
                self._thread.start()

    def remove(self, each: _Watched) -> None:
        """Watches *each*, a launch of this thread, no more. An exception for it that comes late is dropped.

        Python raises the exception here, at the end of a call at the latest. It is not taken back by
        PyThreadState_SetAsyncExc without an exception, because Python 3.11 then looks for one at each step, and a
        thread that is traced never goes on.
        """
        while True:
            try:
                with self._lock:
                    if each in self._watched:  # it is not where the process was forked meanwhile
                        self._watched.remove(each)
                return
            except KernelNeverYields:
                continue

    def _run(self) -> None:
        looked_s = monotonic()
        while True:
            with self._lock:
                if not self._watched:
                    self._thread = None
                    return
                look_s = min(_LOOK_S, *(each.limit_s / 4 for each in self._watched))
            sleep(look_s)
            # A process that was stopped, or a thread that keeps Python's lock, does not count for longer than a look.
            passed_s, looked_s = min(monotonic() - looked_s, 2 * look_s), monotonic()
            with self._lock:
                for each in self._watched:
                    each.look(passed_s)


def _is_running(frame: FrameType | None) -> bool:
    """Whether *frame* is that of a kernel at work, which nobody debugs, and not that of the simulator."""
    root: CodeType | None = None
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if frame.f_trace is not None or name in _LONG_CALLS or str(name).startswith(_DEBUGGERS):
            return False
        root, frame = frame.f_code, frame.f_back
    return root in _ROOTS and not _has_monitor()


def _has_monitor() -> bool:
    """Whether a debugger uses `sys.monitoring`, which Python has from 3.12 on."""
    monitoring: Any = getattr(sys, "monitoring", None)
    return monitoring is not None and monitoring.get_tool(monitoring.DEBUGGER_ID) is not None


def _position(frame: FrameType | None) -> str:
    """The file and line of the author at which *frame* stands."""
    while frame is not None and is_own(frame.f_code.co_filename):
        frame = frame.f_back
    return "launch" if frame is None else f"{file_name(frame.f_code.co_filename)}:{frame.f_lineno}"


_GOES_ON: Final = (
    "the kernel could not be stopped so far, because it catches every exception or is in one call that Python does not "
    "interrupt; its launch fails when the kernel ends, or end this process"
)


_ROOTS: Final[set[CodeType]] = set()
"""The outermost functions of the greenlets of kernels."""
_WATCHDOG = _Watchdog()


def watch_below(code: CodeType) -> None:
    """Counts the frames above *code*, the outermost function of a greenlet, as those of a kernel."""
    _ROOTS.add(code)


@contextmanager
def watching(clock: Clock, limit_s: float) -> Iterator[None]:
    """Watches the kernels that *clock* runs in this thread, within the block.

    KernelNeverYields is raised in a kernel that has run for *limit_s* seconds without a command or a wait. It is raised
    at the end of the block too, where the kernel or Python has dropped it: a value that gave TCM back at that moment
    may have done half of it. Nothing is watched without a limit (infinity), and while a function traces the thread, as
    a debugger's does.
    """
    if limit_s == float("inf") or sys.gettrace() is not None or not hasattr(ctypes, "pythonapi"):
        yield
        return
    each = _Watched(clock, limit_s)
    _WATCHDOG.add(each)
    try:
        yield
    finally:
        _WATCHDOG.remove(each)
        each.end()
    if each.n_raised:
        raise KernelNeverYields(each.stood_at)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_WATCHDOG.begin)
