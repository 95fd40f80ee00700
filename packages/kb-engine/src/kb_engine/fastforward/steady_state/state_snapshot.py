"""What passes have in common, whatever it is that comes in periods: one kind looks at a state, another moves it on."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from kb_engine.block.in_flight import TileToken
from kb_engine.block.state_visitor import HasState, NotPeriodic, StateVisitor
from kb_engine.fabric.sharing.stream import Stream


class PartsVisitor(StateVisitor):
    """Visits each part once, when the part is met."""

    def part(self, part: HasState) -> None:
        """As StateVisitor says."""
        if self._is_new(part):
            part.visit_state(self)

    @abstractmethod
    def _is_new(self, part: object) -> bool:
        """Whether *part* is met for the first time."""


class StateSnapshot(PartsVisitor):
    """Writes a state down, at *now_ps*. Two states are equal when their `parts` are. `totals` grew so far."""

    def __init__(self, now_ps: int) -> None:
        self.now_ps = now_ps
        self.parts: list[object] = []
        self.totals: list[int] = []
        self._seen: dict[int, tuple[int, object]] = {}
        self._kept: list[object] = []

    @property
    def jumps(self) -> bool:
        """No."""
        return False

    def moment(self, t_ps: int) -> int:
        """As StateVisitor says."""
        self.parts.append(t_ps - self.now_ps)
        return t_ps

    def deadline(self, t_ps: int) -> int:
        """As StateVisitor says."""
        self.parts.append(max(0, t_ps - self.now_ps))
        return t_ps

    def count(self, count: int) -> int:
        """As StateVisitor says."""
        self.totals.append(count)
        return count

    def same(self, *values: object) -> None:
        """As StateVisitor says."""
        self.parts.append(values)

    def identical(self, *objects: object) -> None:
        """As StateVisitor says. What is kept keeps its identity, so no other object gets that."""
        self.parts += map(id, objects)
        self._kept += objects

    def _is_new(self, part: object) -> bool:
        """Whether *part* is met for the first time. Later only its number is written down."""
        known = self._seen.get(id(part))
        if known is not None:
            self.parts.append(known[0])
            return False
        number = len(self._seen)
        self._seen[id(part)] = number, part
        self.parts.append(number)
        return True


class StateShift(PartsVisitor):
    """Moves a state on by `ps`, and each total by what *grown* gives for it."""

    def __init__(self, ps: int, grown: Iterable[int]) -> None:
        self.ps = ps
        self._grown: Iterator[int] = iter(grown)
        self._seen: dict[int, object] = {}

    @property
    @abstractmethod
    def next_tile(self) -> int:
        """As StateVisitor says."""

    @property
    def jumps(self) -> bool:
        """Yes."""
        return True

    def moment(self, t_ps: int) -> int:
        """As StateVisitor says."""
        return t_ps + self.ps

    def deadline(self, t_ps: int) -> int:
        """As StateVisitor says."""
        return t_ps + self.ps

    def count(self, count: int) -> int:
        """As StateVisitor says."""
        return count + next(self._grown)

    def same(self, *values: object) -> None:
        """As StateVisitor says."""

    def identical(self, *objects: object) -> None:
        """As StateVisitor says."""

    def _is_new(self, part: object) -> bool:
        is_new = id(part) not in self._seen
        self._seen[id(part)] = part
        return is_new


_CALLBACK_LENGTH: Final = 5


def visit_entries(over: StateVisitor, entries: Sequence[Any]) -> None:
    """Hand *entries* of the clock to *over*, the next one first. Raises NotPeriodic for what nobody can say more of."""
    for argument in arguments_of(over, entries):
        _visit_argument(over, argument)


def arguments_of(over: StateVisitor, entries: Sequence[Any]) -> Iterator[Any]:
    """Hand all of *entries* to *over* but what their functions are given, which is yielded in its place."""
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
        stream, pace, delay_ps, offset = argument
        over.part(stream)
        over.part(pace)
        over.same(delay_ps, offset)
    elif hasattr(argument, "visit_state"):
        over.part(argument)
    else:
        raise NotPeriodic
