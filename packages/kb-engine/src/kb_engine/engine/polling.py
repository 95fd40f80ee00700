"""The guard against kernels that poll: they load the same bytes again and again, and nothing is left that changes them.

A load has the value of its issue, and only stores, composites and atomics change memory. So when all kernels only
repeat loads that they have made before, and no other command comes on, every load gives the value that it gave before.
An atomic that leaves the bytes as they were, as of a barrier that adds 0, counts as a load.
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

MOST_REPEATED_LOADS: Final = 1 << 16
"""Loads in a row, over all kernels. Source: assumed. Some seconds of simulation."""
_LEAST_REPEATS: Final = 1 << 12
"""Times that one kernel repeats a load, so that many kernels that load the same a few times count as no poll."""
_FEW_PLACES: Final = 1 << 3
_FEWEST_REPEATS: Final = 1 << 7
"""Where more than a few places are polled, as by all PEs of a large chip, fewer repeats of one are enough, down to
these. Source: assumed. A launch on 128 PEs counts as stuck after some seconds, and not after a minute."""
_MOST_PLACES: Final = 1 << 16
_MOST_SHOWN: Final = 6

Place = tuple[str, str, int]
"""The PE, the kernel line and the address of a load."""


class PollingGuard(Observer):
    """Raises SimulationStuckError after *most_loads* loads in a row that repeat others, when nothing else comes on.

    A load from a new place ends the row, and so does a command that may change memory or give a new value. *launches*
    gives the launches under way. The row begins again when one of their kernels has a PE and has not begun, and when
    since the last look a PE has taken a program, or a tile of another command in flight has ended. So it does when all
    programs are known to end. A jump over programs or turns tells of all their loads at once, also of the last ones.
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
        """Keep the clock, and the names of memories."""
        self._clock = chip.clock
        self._label = chip.topology.address_map.label

    def on_launch(self) -> None:
        """Start anew: the host may have written what the kernels load."""
        self._modified.clear()
        self._repeats.clear()
        self._row = 0

    def on_issue(self, command: CommandInFlight) -> None:
        """Count a load that repeats an earlier one."""
        submitted = command.submitted
        what = submitted.command
        if type(what) is LoadCommand:
            address = what.src.address
        elif type(what) is AtomicCommand:
            if not self._is_as_before(what.target):
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

    def _is_as_before(self, target: Matrix) -> bool:
        """Whether an atomic of *target*, which has taken effect, left the bytes that the one before it had left."""
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
        """Look, when there were enough loads."""
        if self._row < self._most or max(self._repeats.values()) < self._least_repeats():
            return
        launches = list(self._launches())
        before, self._others = self._others, _others_in_flight(launches)
        queued, self._queued = self._queued, sum(each.queued for each in launches)
        if _has_closed(launches) or all(launch.will_end for launch in launches):
            self._row = 0
            return
        begun = all(launch.has_begun for launch in launches)
        if not begun or queued != self._queued or (self._others and self._others != before):
            self._row = 0
            return
        left, total = sum(each.unfinished for each in launches), sum(each.total for each in launches)
        when = f"up to {ns_text(self._clock.now_ps)}, with {left} of {total} kernels unfinished"
        raise _polling_error(self._repeats, self._label, when, queued_note(launches))

    def _least_repeats(self) -> int:
        """Times that a load from one place has to be repeated, by the number of places."""
        alone = min(_LEAST_REPEATS, self._most)
        return max(min(_FEWEST_REPEATS, alone), alone * _FEW_PLACES // max(_FEW_PLACES, len(self._repeats)))


def _changes_nothing(command: Command) -> bool:
    """Whether *command*, which was issued, gives no kernel a new value: a load, an atomic, or arithmetic on integers
    that stays in TCM.

    Integers are computed at once from what was loaded, so equal loads give equal integers. An atomic took effect when
    it was called.
    """
    if isinstance(command, LoadCommand | AtomicCommand):
        return True
    if isinstance(command, VectorCommand):
        return not any(output.dtype.is_float for output in command.outputs)
    return isinstance(command, MathCommand) and command.out_pinned and not command.out.dtype.is_float


def _has_closed(launches: Iterable[Launch]) -> bool:
    """Whether a command in flight is known to end, although no tile of it seems to."""
    in_flight = (
        each for launch in launches for runner in launch.runners for each in runner.commands.in_flight.values()
    )
    return any(context.is_isolated for context, _ in in_flight)


def _others_in_flight(launches: Iterable[Launch]) -> list[tuple[int, int]]:
    """The commands in flight that may give a kernel a new value: number, and tiles to go."""
    return [
        (seq, context.remaining)
        for launch in launches
        for runner in launch.runners
        for seq, (context, _) in runner.commands.in_flight.items()
        if not _changes_nothing(context.submitted.command)
    ]


def _polling_error(
    repeats: dict[Place, int], label: Callable[[int], str], when: str, note: str
) -> SimulationStuckError:
    by_place: dict[tuple[str, int], list[tuple[str, int]]] = {}
    for (pe_id, line, address), count in repeats.items():
        by_place.setdefault((line, address), []).append((pe_id, count))
    lines = [_polled(line, address, label, found) for (line, address), found in list(by_place.items())[:_MOST_SHOWN]]
    if len(by_place) > _MOST_SHOWN:
        lines.append(f"and {len(by_place) - _MOST_SHOWN} more places")
    fix = f"{note}let a kernel that runs at the same time store there, or end the loop by a count; who polls:"
    return SimulationStuckError(
        "simulation",
        f"{sum(repeats.values())} loads that only repeat each other, {when}",
        "a command that changes what they load",
        "\n  ".join([fix, *lines]),
    )


def _polled(line: str, address: int, label: Callable[[int], str], found: Sequence[tuple[str, int]]) -> str:
    owner, offset = split_address(address)
    where = f"{label(owner) or 'an unknown memory'} + {offset:#x}"
    others = len(found) - 1
    alike = f" (and {others} more PE{'s' if others > 1 else ''} alike, up to {found[-1][0]})" if others else ""
    return f"{found[0][0]}{alike}: the kernel has loaded {where} {found[0][1]} times at {line}"
