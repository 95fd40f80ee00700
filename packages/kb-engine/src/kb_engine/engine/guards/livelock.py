"""Guards against runs without end: blocks that schedule themselves again and again, and kernels that poll.

Design: docs/design/trace-and-stuck-runs.md

Kernels that poll load the same bytes again and again. A load gives the value at its issue, and only stores, composites
and atomics change memory. So when all kernels only repeat earlier loads, and no other command makes progress, every
load repeats its earlier value. An atomic that does not change the bytes, as in a barrier that adds 0, counts as a
load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kb_engine.block.in_flight import CommandInFlight
from kb_engine.engine.stuck import queued_note
from kb_engine.launch.launch import Launch
from kb_engine.memory.device_memory import DeviceMemory
from kb_engine.observe.chip import Chip
from kb_engine.observe.observer import Observer
from kb_engine.timing.clock import HOUSEKEEPING_INTERVAL
from kb_engine.timing.units import ns_text
from kb_messages import (
    AtomicCommand,
    Command,
    LoadCommand,
    MathCommand,
    Matrix,
    Rectangle,
    SimulationStuckError,
    VectorCommand,
    split_address,
)

NO_PROGRESS_EVENTS: Final = 1 << 22
"""The limit of events without progress. Source: assumed; a block that counts the cycles of a long tile needs fewer."""


class ProgressGuard(Observer):
    """Calls *stuck* with a number of events when no stage service has ended, and no signal was sent, in these events.

    *launches* gives the launches under way, whose signals count: barriers of many PEs take many events and no stage. It
    checks once in *most_events* events, rounded up to intervals of the clock's housekeeping, so that the sum over
    all servers is cheap. It notices a livelock after at most twice as many events.
    """

    def __init__(
        self, most_events: int, stuck: Callable[[int], None], launches: Callable[[], Iterable[Launch]]
    ) -> None:
        self._stuck = stuck
        self._launches = launches
        self._interval = -(-most_events // HOUSEKEEPING_INTERVAL)
        self.on_launch()

    def on_built(self, chip: Chip) -> None:
        """Keeps the servers whose services are counted."""
        self._servers = chip.servers
        self._clock = chip.clock

    def on_launch(self) -> None:
        """Starts anew, because a simulation may have stood still before the launch."""
        self._left = self._interval
        self._served = -1

    def on_housekeeping(self) -> None:
        """Counts down, and checks when the count is over."""
        if self._clock.is_idle:
            return
        self._left -= 1
        if self._left:
            return
        served = sum(server.served for server in self._servers)
        served += sum(launch.exchange.n_signals for launch in self._launches())
        if served == self._served:
            self._stuck(self._interval * HOUSEKEEPING_INTERVAL)
        self._served, self._left = served, self._interval


MOST_REPEATED_LOADS: Final = 1 << 16
"""The limit of repeated loads in a row, over all kernels. Source: assumed. It takes some seconds of simulation."""
_LEAST_REPEATS: Final = 1 << 12
"""How often one kernel repeats a load at least. Many kernels that load the same bytes a few times are no poll."""
_FEW_PLACES: Final = 1 << 3
_FEWEST_REPEATS: Final = 1 << 7
"""The fewest repeats of one place. Where all PEs of a large chip poll, fewer repeats of each place are enough. Source:
assumed. A launch on 128 PEs counts as stuck after some seconds, and not after a minute."""
_MOST_PLACES: Final = 1 << 16
_MOST_SHOWN: Final = 6

Place = tuple[str, str, int]
"""The PE, the kernel line and the address of a load."""


class PollingGuard(Observer):
    """Raises SimulationStuckError after *most_loads* loads in a row that repeat others, when nothing else makes
    progress.

    A load from a new place ends the row, and so does a command that may change memory or give a new value. *launches*
    gives the launches under way. The row begins again when one of their kernels has a PE and has not begun. It also
    begins again when a PE has taken a program since the last check, or a tile of another command in flight has ended,
    and when all programs end for certain. A shift over programs reports all their loads at once.
    """

    def __init__(
        self, most_loads: int, launches: Callable[[], Iterable[Launch]], memory: Callable[[], DeviceMemory]
    ) -> None:
        self._most = most_loads
        self._launches = launches
        self._memory = memory
        self._modified: dict[Rectangle, bytes] = {}
        self._repeats: dict[Place, int] = {}
        self._row = 0
        self._others: list[tuple[int, int]] = []
        self._queued = 0

    def on_built(self, chip: Chip) -> None:
        """Keeps the clock, and the names of memories."""
        self._clock = chip.clock
        self._label = chip.topology.address_map.label

    def on_launch(self) -> None:
        """Starts anew, because the host may have written the bytes that the kernels load."""
        self._modified.clear()
        self._repeats.clear()
        self._row = 0

    def on_issue(self, command: CommandInFlight) -> None:
        """Counts a load that repeats an earlier one."""
        submitted = command.submitted
        what = submitted.command
        if type(what) is LoadCommand:
            address = what.src.address
        elif type(what) is AtomicCommand:
            if not self._left_bytes_unchanged(what.target):
                self._repeats.clear()
                self._row = 0
                return
            address = what.target.address
        else:
            if (self._repeats or self._modified) and not _changes_nothing(what):
                self.on_launch()
            return
        place = submitted.pe, submitted.line, address
        count = self._repeats.get(place, 0)
        if count:
            self._row += 1
        else:
            self._row = 0
            if len(self._repeats) == _MOST_PLACES:
                self._repeats.clear()
        self._repeats[place] = count + 1

    def _left_bytes_unchanged(self, target: Matrix) -> bool:
        """Whether an atomic of *target*, which has taken effect, left the same bytes as the atomic before it."""
        memory, where = self._memory(), target.rectangle
        if memory.pending.producer(target) is not None:
            self._modified.pop(where, None)
            return False
        before, now = self._modified.get(where), memory.read(target).tobytes()
        if len(self._modified) == _MOST_PLACES:
            self._modified.clear()
        self._modified[where] = now
        return now == before

    def on_housekeeping(self) -> None:
        """Checks for progress, when there were enough loads."""
        if self._row < self._most or max(self._repeats.values()) < self._least_repeats():
            return
        launches = list(self._launches())
        before, self._others = self._others, _others_in_flight(launches)
        queued, self._queued = self._queued, sum(each.queued for each in launches)
        if _has_isolated(launches) or all(launch.will_end for launch in launches):
            self._row = 0
            return
        begun = all(launch.has_begun for launch in launches)
        if not begun or queued != self._queued or (self._others and self._others != before):
            self._row = 0
            return
        left, total = sum(each.unfinished for each in launches), sum(each.total for each in launches)
        where, who = f"livelock at {ns_text(self._clock.now_ps)}", f"{left} of {total} kernels"
        raise _polling_error(self._repeats, self._label, where, who, queued_note(launches))

    def _least_repeats(self) -> int:
        """How often a load from one place has to be repeated, by the number of places."""
        alone = min(_LEAST_REPEATS, self._most)
        return max(min(_FEWEST_REPEATS, alone), alone * _FEW_PLACES // max(_FEW_PLACES, len(self._repeats)))


def _changes_nothing(command: Command) -> bool:
    """Whether *command*, which was issued, gives no kernel a new value.

    Such commands are loads, atomics, and arithmetic on integers that stays in TCM. Integers are computed at once from
    loaded integers, so equal loads give equal results. An atomic took effect when it was called.
    """
    if isinstance(command, LoadCommand | AtomicCommand):
        return True
    if isinstance(command, VectorCommand):
        return not any(output.dtype.is_float for output in command.outputs)
    return isinstance(command, MathCommand) and command.out_pinned and not command.out.dtype.is_float


def _has_isolated(launches: Iterable[Launch]) -> bool:
    """Whether a command in flight is isolated, and so ends although none of its tiles seems to make progress."""
    in_flight = (
        each for launch in launches for runner in launch.runners for each in runner.commands.in_flight.values()
    )
    return any(context.is_isolated for context, _ in in_flight)


def _others_in_flight(launches: Iterable[Launch]) -> list[tuple[int, int]]:
    """Returns number and tiles to go of each command in flight that may give a kernel a new value."""
    return [
        (seq, context.remaining)
        for launch in launches
        for runner in launch.runners
        for seq, (context, _) in runner.commands.in_flight.items()
        if not _changes_nothing(context.submitted.command)
    ]


def _polling_error(
    repeats: dict[Place, int], label: Callable[[int], str], where: str, who: str, note: str
) -> SimulationStuckError:
    by_place: dict[tuple[str, int], list[tuple[str, int]]] = {}
    for (pe_id, line, address), count in repeats.items():
        by_place.setdefault((line, address), []).append((pe_id, count))
    lines = [_polled(line, address, label, found) for (line, address), found in list(by_place.items())[:_MOST_SHOWN]]
    if len(by_place) > _MOST_SHOWN:
        lines.append(f"and {len(by_place) - _MOST_SHOWN} more places")
    return SimulationStuckError(
        where,
        f"{who} have polled the same bytes {sum(repeats.values()):,} times, and no command in flight writes them",
        "a kernel that stores there while they poll, or loops that end by a count",
        "\n  ".join([f"{note}kernels that poll:", *lines]),
    )


def _polled(line: str, address: int, label: Callable[[int], str], found: Sequence[tuple[str, int]]) -> str:
    owner, offset = split_address(address)
    where = f"{label(owner) or 'an unknown memory'} + {offset:#x}"
    others = len(found) - 1
    more = (
        f" (and {others} more PE{'s' if others > 1 else ''} at the same line, up to {found[-1][0]})" if others else ""
    )
    return f"{found[0][0]}{more}: the kernel has loaded {where} {found[0][1]:,} times at {line}"
