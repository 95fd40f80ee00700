"""StateSnapshot and StateShift: the parts of a snapshot and of a shift that tiles and programs share.

Design: docs/design/steady-state.md
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from kb_engine.block.in_flight import TileToken
from kb_engine.block.stage_server import StageServer
from kb_engine.block.state_visitor import HasState, NotPeriodic, StateVisitor
from kb_engine.fabric.sharing.stream import Stream


class PartsVisitor(StateVisitor):
    """Visits each part once, when the part is met."""

    def part(self, part: HasState) -> None:
        """Visits *part*, if it is new."""
        if self._is_new(part):
            part.visit_state(self)

    @abstractmethod
    def _is_new(self, part: object) -> bool:
        """Whether *part* is met for the first time."""


class StateSnapshot(PartsVisitor):
    """Writes a state down, at *now_ps*. States with equal `parts` are equal. `totals` has the counts that only grow."""

    def __init__(self, now_ps: int) -> None:
        self.now_ps = now_ps
        self.parts: list[object] = []
        self.totals: list[int] = []
        self._seen: dict[int, tuple[int, object]] = {}
        self._kept: list[object] = []

    @property
    def jumps(self) -> bool:
        """False: a snapshot changes nothing."""
        return False

    def moment(self, t_ps: int) -> int:
        """Writes *t_ps* down, relative to now."""
        self.parts.append(t_ps - self.now_ps)
        return t_ps

    def deadline(self, t_ps: int) -> int:
        """Writes *t_ps* down, relative to now, if it is ahead."""
        self.parts.append(max(0, t_ps - self.now_ps))
        return t_ps

    def count(self, count: int) -> int:
        """Writes *count* down among the totals."""
        self.totals.append(count)
        return count

    def same(self, *values: object) -> None:
        """Writes *values* down."""
        self.parts.append(values)

    def identical(self, *objects: object) -> None:
        """Writes the identities of *objects* down. It keeps the objects alive, so that no new object gets an old
        identity."""
        self.parts += map(id, objects)
        self._kept += objects

    def _is_new(self, part: object) -> bool:
        """Whether *part* is met for the first time. At later visits only its number is written down."""
        known = self._seen.get(id(part))
        if known is not None:
            self.parts.append(known[0])
            return False
        number = len(self._seen)
        self._seen[id(part)] = number, part
        self.parts.append(number)
        return True


class StateShift(PartsVisitor):
    """Moves a state on by *n* times the period from snapshot *before* to snapshot *after*, and so by `ps`."""

    def __init__(self, before: StateSnapshot, after: StateSnapshot, n: int) -> None:
        self.ps = n * (after.now_ps - before.now_ps)
        self._grown = iter([n * (now - then) for then, now in zip(before.totals, after.totals, strict=True)])
        self._seen: dict[int, object] = {}

    @property
    @abstractmethod
    def next_tile(self) -> int:
        """The tile that is fed next, after the shift."""

    @property
    def jumps(self) -> bool:
        """True: a shift changes the state."""
        return True

    def moment(self, t_ps: int) -> int:
        """Returns *t_ps*, moved on."""
        return t_ps + self.ps

    def deadline(self, t_ps: int) -> int:
        """Returns *t_ps*, moved on."""
        return t_ps + self.ps

    def count(self, count: int) -> int:
        """Returns *count*, with its growth."""
        return count + next(self._grown)

    def same(self, *values: object) -> None:
        """Changes nothing."""

    def identical(self, *objects: object) -> None:
        """Changes nothing."""

    def _is_new(self, part: object) -> bool:
        is_new = id(part) not in self._seen
        self._seen[id(part)] = part
        return is_new


_CALLBACK_LENGTH: Final = 5


def visit_entries(over: StateVisitor, entries: Sequence[Any]) -> None:
    """Hands *entries* of the clock to *over*, the next one first. Raises NotPeriodic for an argument without state."""
    for argument in arguments_of(over, entries):
        _visit_argument(over, argument)


def visit_servers(over: StateVisitor, servers: Iterable[StageServer]) -> None:
    """Hands *servers* and their gates to *over*."""
    for server in servers:
        over.part(server)
        for gate in server.own_gates:
            over.part(gate)


def arguments_of(over: StateVisitor, entries: Sequence[Any]) -> Iterator[Any]:
    """Hands *entries* to *over* without the arguments of their functions. Yields each argument in its turn."""
    over.same(len(entries))
    for entry in entries:
        if len(entry) < _CALLBACK_LENGTH:
            raise NotPeriodic
        t_ps, priority, _, function, argument = entry
        over.moment(t_ps)
        over.same(priority)
        over.call(function)
        yield argument


def _visit_argument(over: StateVisitor, argument: Any) -> None:
    if argument is None or type(argument) is int:
        over.same(argument)
    elif type(argument) is TileToken:
        over.token(argument)
    elif type(argument) is tuple and type(argument[0]) is Stream:
        stream, curve, delay_ps, offset = argument
        over.part(stream)
        over.part(curve)
        over.same(delay_ps, offset)
    elif hasattr(argument, "visit_state"):
        over.part(argument)
    else:
        raise NotPeriodic
