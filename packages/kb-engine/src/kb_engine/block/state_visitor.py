"""StateVisitor, and the kinds of state that the parts of a simulation hand to it.

A class names each of its attributes that changes while the simulation works, and gives each a kind:

    class Channel(Stateful):
        state: ClassVar[State] = {"free_ps": DEADLINE, "busy_ps": COUNT, "row": SAME, "token": TOKEN}

`Stateful.visit_state` follows from the kinds: it hands each attribute to a visitor and takes the answer as the new
value. One visitor writes all values down, relative to now and to the next tile, and another one moves them on by some
periods. So the values that are compared are the values that are moved. A class whose state depends on a condition
overrides `visit_state`.

Design: docs/design/steady-state.md
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias

from kb_dataexec.log.compressed import SlotRing
from kb_messages import Place


class NotPeriodic(Exception):
    """The simulation holds something whose future is known only by simulating it."""


class HasState(Protocol):
    """A part of the simulation that hands its state to a visitor."""

    def visit_state(self, over: StateVisitor) -> None:
        """Hands every attribute that changes to *over*, and takes each answer as the new value."""


class StateVisitor(ABC):
    """Visits the state of a simulation once, between two events."""

    @abstractmethod
    def moment(self, t_ps: int, /) -> int:
        """Takes a moment that matters wherever it lies, such as the begin of a service."""

    @abstractmethod
    def deadline(self, t_ps: int, /) -> int:
        """Takes a moment that matters only while it is ahead: a block that is free before now is free."""

    @abstractmethod
    def count(self, count: int, /) -> int:
        """Takes a number that grows with the work done, and on which no time depends."""

    @abstractmethod
    def same(self, *values: object) -> None:
        """Takes values that do not change in themselves, and have to be equal a period later."""

    @abstractmethod
    def identical(self, *objects: object) -> None:
        """Takes objects that have to be the same objects a period later. A snapshot keeps the objects alive."""

    @abstractmethod
    def op(self, op_id: int, /) -> int:
        """Takes the number of an op of the command or of an earlier command; -1 for none."""

    @abstractmethod
    def tiles_to_go(self, count: int, /) -> int:
        """Takes the number of tiles of the command that are not done."""

    @abstractmethod
    def token(self, token: Any) -> None:
        """Takes a TileToken or None. A token is visited where it is met first."""

    @abstractmethod
    def part(self, part: HasState) -> None:
        """Takes a part, which several others may hold. A part is visited where it is met first."""

    @abstractmethod
    def call(self, function: Callable[..., Any]) -> None:
        """Takes a function that will be called: a method of a part that stays. Raises NotPeriodic for any other."""

    @abstractmethod
    def place(self, place: Place, slots: SlotRing | None, offset: int) -> int:
        """Takes the offset of a piece, in bytes. The piece lies in one of *slots*, or elsewhere in *place*."""

    @abstractmethod
    def places(self, claims: dict[int, int], rings: list[tuple[Place, SlotRing | None]]) -> dict[int, int]:
        """Takes the claimed bytes by offset. Each claim lies in a slot of one of *rings*, or elsewhere."""

    @abstractmethod
    def moved(self, moved: dict[Place, dict[int, int]]) -> None:
        """Takes the pieces of the command that lie in no slot.

        With such pieces, a period ends only where the slots begin anew.
        """

    def seq(self, command_seq: int) -> int:
        """Takes the number of a command, or -1 for none."""
        raise NotPeriodic

    def program(self, number: int) -> int:
        """Takes the number of a program of a grid."""
        raise NotPeriodic

    def issued(self, command: Any) -> tuple[Any, Any]:
        """Takes *command*, a CommandInFlight of a program. Returns its SubmittedCommand and its addresses."""
        raise NotPeriodic

    def ring(self, last: Any, pieces: int, pe_id: str) -> Any:
        """Takes a cut of a ring of the registers of *pe_id*, from which *pieces* were to be taken."""
        raise NotPeriodic

    def unlike(self, count: int) -> None:
        """Takes how often it mattered so far where slots lie, in one region."""
        raise NotPeriodic

    @property
    @abstractmethod
    def command(self) -> Any:
        """The CommandInFlight whose tiles may be skipped. None between programs of a grid."""

    @property
    @abstractmethod
    def next_tile(self) -> int:
        """The number of the tile that is made next. A visitor that moves parts on gives the one after the jump."""

    @property
    @abstractmethod
    def jumps(self) -> bool:
        """Whether the visitor moves parts on."""


NO_MOMENT: Final = -1
"""Stands where there is no moment."""


def moment_or_none(over: StateVisitor, t_ps: int) -> int:
    """Hands *t_ps* to `over.moment`, or NO_MOMENT to `over.same`. Returns the new value."""
    if t_ps == NO_MOMENT:
        over.same(None)
        return t_ps
    return over.moment(t_ps)


class StateKind(NamedTuple):
    """One kind of state: `visit(over, value)` hands a value of the kind to *over* and returns the new value.

    `needs` names an attribute of the same part, if the value matters only under the condition of `only_with`.
    """

    name: str
    visit: Callable[[StateVisitor, Any], Any]
    needs: str = ""


State: TypeAlias = Mapping[str, StateKind] | tuple[str, ...]
"""The names of the attributes that change, each with a kind. A tuple of names alone gives no kinds."""


def _same(over: StateVisitor, value: Any) -> Any:
    # A snapshot keeps what it is given, so it needs a copy of a collection that changes in place.
    over.same(tuple(value.items()) if isinstance(value, Mapping) else value if _is_fixed(value) else tuple(value))
    return value


def _is_fixed(value: object) -> bool:
    return not hasattr(value, "__len__") or isinstance(value, (tuple, str, bytes, frozenset))


def _size(over: StateVisitor, value: Any) -> Any:
    over.same(len(value))
    return value


def _identical(over: StateVisitor, value: Any) -> Any:
    over.identical(value)
    return value


def _token(over: StateVisitor, token: Any) -> Any:
    over.token(token)
    return token


def _part(over: StateVisitor, part: Any) -> Any:
    if part is None:
        over.same(None)
    else:
        over.part(part)
    return part


def _call(over: StateVisitor, function: Any) -> Any:
    over.call(function)
    return function


MOMENT: Final = StateKind("MOMENT", lambda over, t_ps: over.moment(t_ps))
"""A time in picoseconds that matters wherever it lies, such as the begin of a service."""
MOMENT_OR_NONE: Final = StateKind("MOMENT_OR_NONE", moment_or_none)
"""A MOMENT, or NO_MOMENT."""
DEADLINE: Final = StateKind("DEADLINE", lambda over, t_ps: over.deadline(t_ps))
"""A time in picoseconds that matters while it is ahead of now, such as the time at which a port is free."""
COUNT: Final = StateKind("COUNT", lambda over, count: over.count(count))
"""A number that grows with the work done, and on which no time depends."""
OP: Final = StateKind("OP", lambda over, op_id: over.op(op_id))
"""The number of an op in the op log, -1 for none."""
SAME: Final = StateKind("SAME", _same)
"""A value that has to be equal a period later, such as a flag or the number of an open row."""
SIZE: Final = StateKind("SIZE", _size)
"""A collection whose length has to be equal a period later, and whose items do not matter."""
IDENTICAL: Final = StateKind("IDENTICAL", _identical)
"""An object that has to be the same object a period later."""
TOKEN: Final = StateKind("TOKEN", _token)
"""A TileToken, or None."""
PART: Final = StateKind("PART", _part)
"""An object with state of its own, which has a `visit_state`, or None."""
CALL: Final = StateKind("CALL", _call)
"""A method of a part, which will be called."""
BY_HAND: Final = StateKind("BY_HAND", lambda _, value: value)
"""A value that the class hands over in a `visit_state` of its own, because it matters only under a condition."""


def each(*kinds: StateKind) -> StateKind:
    """The kind of a collection whose items are all of one kind; None in place of the collection is allowed.

    With several *kinds*, each item is a tuple with one value of each kind. The number of items has to be equal a period
    later. Items of kinds that move are replaced in the collection, which then has to be a list or a deque.
    """
    visit_item = kinds[0].visit if len(kinds) == 1 else row(*kinds).visit

    def visit(over: StateVisitor, items: Any) -> Any:
        over.same(None if items is None else len(items))
        for number, item in enumerate(items or ()):
            moved = visit_item(over, item)
            if moved is not item:
                items[number] = moved
        return items

    return StateKind(f"each({', '.join(kind.name for kind in kinds)})", visit)


def each_value(kind: StateKind, key: StateKind | None = None) -> StateKind:
    """The kind of a dict whose values are all of *kind*. The keys stay; they are handed over if they have a kind."""

    def visit(over: StateVisitor, items: Any) -> Any:
        over.same(len(items))
        for each_key, value in items.items():
            if key is not None:
                key.visit(over, each_key)
            items[each_key] = kind.visit(over, value)
        return items

    return StateKind(f"each_value({kind.name})", visit)


def row(*kinds: StateKind) -> StateKind:
    """The kind of a tuple with one value of each of *kinds*."""

    def visit(over: StateVisitor, values: Any) -> Any:
        moved = [kind.visit(over, value) for kind, value in zip(kinds, values, strict=True)]
        if all(new is old for new, old in zip(moved, values, strict=True)):
            return values
        return values._make(moved) if hasattr(values, "_make") else tuple(moved)

    return StateKind(f"row({', '.join(kind.name for kind in kinds)})", visit)


def optional(kind: StateKind) -> StateKind:
    """The kind of a value of *kind*, or None."""

    def visit(over: StateVisitor, value: Any) -> Any:
        over.same(value is None)
        return None if value is None else kind.visit(over, value)

    return StateKind(f"optional({kind.name})", visit)


def only_with(attribute: str, kind: StateKind) -> StateKind:
    """The kind of a value of *kind* that matters only while *attribute* of its part is not None, False or empty."""
    return kind._replace(name=f"{kind.name} with {attribute}", needs=attribute)


class Stateful:
    """A part whose classes give each attribute in `state` a kind.

    `state` of a class names the attributes of that class alone; base classes have a `state` of their own.
    """

    __slots__ = ()
    state: ClassVar[State] = {}

    def visit_state(self, over: StateVisitor) -> None:
        """Hands each attribute that has a kind to *over*, those of base classes first."""
        kind: Any = type(self)  # mypy takes no class of objects for hashable
        for name, visit, needs in _visits_of(kind):
            if needs and not getattr(self, needs):
                continue
            value = getattr(self, name)
            moved = visit(over, value)
            if moved is not value:
                setattr(self, name, moved)


def kinds_of(owner: type) -> Mapping[str, StateKind] | None:
    """The kinds that the class *owner* itself states; None where it states none, or names alone."""
    stated = vars(owner).get("state")
    return stated if isinstance(stated, Mapping) else None


@lru_cache(maxsize=512)
def _visits_of(kind: type) -> list[tuple[str, Callable[[StateVisitor, Any], Any], str]]:
    """The attributes of *kind* that have a kind, how each is visited, and the attribute that it needs."""
    return [
        (name, stated.visit, stated.needs)
        for owner in reversed(kind.__mro__)
        for name, stated in (kinds_of(owner) or {}).items()
        if stated is not BY_HAND
    ]
