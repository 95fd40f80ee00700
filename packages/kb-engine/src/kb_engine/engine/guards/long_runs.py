"""Refuses a launch that would take hours by its first seconds, and ends one that is about to fill the memory.

Design: docs/design/robustness.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic
from typing import Final

from kb_dataexec.files import with_swap_nbytes
from kb_engine.engine.guards.limits import LEAST_FREE_NBYTES, Limits, time_text, too_long
from kb_engine.launch.launch import Launch
from kb_engine.observe.observer import Observer
from kb_engine.program.author.loop_turns import LoopTurns, frames_to, loops_of, share_done
from kb_messages import KernelError

_FIRST_S: Final = 20.0
"""Seconds of a launch before its first estimate. Source: assumed."""
_SEARCHING_S: Final = 120.0
"""The same while a period of programs may yet be found, after which all others are skipped. Source: assumed; on the
bundled chips a period is found within seconds."""
_MEMORY_S: Final = 1.0
"""Seconds between two looks at the free memory. Source: assumed; a look takes 50 us."""
_AGAIN: Final = 3.0
"""The factor from the time of one estimate to the time of the next."""


class LongRunGuard(Observer):
    """Raises KernelError when the launches under way take more than *limits* allow, by their progress so far.

    It raises KernelError, too, when the machine has less than 128 MiB of memory left, because the system would end the
    process without a word. *launches* gives the launches under way. *is_searching* says whether programs may yet be
    skipped. *seconds* is the clock of this machine. The estimate is the time so far over the share that is done. That
    share are the programs that have ended, and the turns of the loops of programs that wait. Without such progress
    there is no estimate.
    """

    def __init__(
        self,
        limits: Limits,
        launches: Callable[[], Iterable[Launch]],
        is_searching: Callable[[], bool],
        seconds: Callable[[], float] = monotonic,
    ) -> None:
        self._limits = limits
        self._launches = launches
        self._is_searching = is_searching
        self._seconds = seconds
        self.on_launch()

    def on_launch(self) -> None:
        """Starts anew."""
        self._began_s = self._last_s = self._seconds()
        self._next_s = self._began_s + _FIRST_S
        self._memory_s = self._began_s + _MEMORY_S
        self._last_done = 0.0

    def on_housekeeping(self) -> None:
        """Looks at the memory, and estimates the time of the launch, when the next look and estimate are due."""
        now_s = self._seconds()
        if now_s >= self._memory_s:
            self._memory_s = now_s + _MEMORY_S
            self._check_memory()
        if now_s >= self._next_s:
            self._estimate(now_s)

    def _check_memory(self) -> None:
        left = with_swap_nbytes()
        if left is not None and left < LEAST_FREE_NBYTES:
            ended, total = (sum(getattr(each, name) for each in self._launches()) for name in ("n_ended", "total"))
            got = f"{left >> 20:,} MiB of memory left on this machine when {ended:,} of {total:,} programs had ended"
            fix = (
                "launch fewer programs, make fewer turns of loops, or smaller sizes; without an op log a run needs less"
            )
            raise KernelError("launch", got, f"at least {LEAST_FREE_NBYTES >> 20} MiB", fix) from MemoryError(got)

    def _estimate(self, now_s: float) -> None:
        passed_s = now_s - self._began_s
        if passed_s < _SEARCHING_S and self._is_searching():
            return
        for launch in self._launches():
            loops = {runner.name: loops_of(frames_to(runner.kernel.frame)) for runner in launch.runners}
            done = launch.n_ended + sum(map(share_done, loops.values()))
            rate = max(done / passed_s, (done - self._last_done) / max(now_s - self._last_s, 1e-9))
            if rate > 0:
                hours = (passed_s + (launch.total - done) / rate) / 3600
                if hours > self._limits.max_hours:
                    raise self._too_long(launch, loops, passed_s, hours)
            self._last_done = done
        self._last_s, self._next_s = now_s, self._began_s + _AGAIN * passed_s

    def _too_long(self, launch: Launch, loops: dict[str, list[LoopTurns]], passed_s: float, hours: float) -> Exception:
        after = f"after {passed_s:.0f} s, which makes {time_text(hours)}"
        longest = max((each for each in loops.values() if each), key=lambda each: each[0].turns, default=None)
        if longest is None or launch.total > longest[0].turns:
            got = f"{launch.total:,} programs, of which {launch.n_ended:,} have ended {after}"
            return too_long("launch", got, self._limits, "give each program more to do, launch fewer, or smaller sizes")
        first = longest[0]
        name = next(name for name, each in loops.items() if each is longest)
        got = f"a loop of {first.turns:,} turns, of which {first.turn:,} are done {after}"
        return too_long(f"{first.line}, in {name}", got, self._limits, "make fewer turns, or smaller sizes")
