"""Checks of a block's state: every attribute that changes is handed to a visitor, whole and as its own kind.

Design: docs/design/steady-state.md
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, Final

from kb_dataexec.log.compressed import SlotRing
from kb_engine.block.component import ComponentBase
from kb_engine.block.fabric_roles import MemoryComponent
from kb_engine.block.in_flight import TileToken
from kb_engine.block.state_rules import can_visit_state
from kb_engine.block.state_visitor import BY_HAND, SIZE, HasState, NotPeriodic, Stateful, StateVisitor, kinds_of
from kb_engine.testing.line import Line
from kb_engine.testing.state import at_work, names_of
from kb_engine.testing.subject import Subject
from kb_engine.timing.clock import Clock
from kb_messages import Place, Rectangle

_LATER_PS = 1_000_003
_GROWN = 1 << 20
_STEPS: Final = (*range(1, 65), *(1 << shift for shift in range(7, 40)))
"""Numbers that differ in each of their lowest 40 bits, and modulo each number up to 64."""


class _Visitor(StateVisitor):
    """Visits a block of the contract suite: no tile is skipped, and all numbers stay unless a subclass changes them.

    With *deep*, parts of parts are visited too, each once.
    """

    def __init__(self, command: Any = None, deep: bool = True) -> None:
        self._command = command
        self._deep = deep
        self._seen: dict[int, object] = {}

    @property
    def command(self) -> Any:
        """The command of the tiles that the block serves, or None."""
        return self._command

    @property
    def next_tile(self) -> int:
        """Tile 0, because no tile is skipped."""
        return 0

    @property
    def jumps(self) -> bool:
        """False, because no tile is skipped."""
        return False

    @abstractmethod
    def note(self, value: object) -> None:
        """Takes each value that is handed over."""

    def _number(self, number: int, /) -> int:
        """Notes the number, which stays."""
        self.note(number)
        return number

    moment = deadline = count = op = tiles_to_go = _number

    def same(self, *values: object) -> None:
        """Notes the values."""
        self.note(values)

    def identical(self, *objects: object) -> None:
        """Notes the identity of the objects."""
        self.note([id(each) for each in objects])

    def token(self, token: Any) -> None:
        """Visits the token, if it is not None."""
        self.note(id(token))
        if token is not None:
            self.part(token)

    def part(self, part: HasState) -> None:
        """Visits the part where it is met first."""
        self.note(id(part))
        if self._deep and id(part) not in self._seen:
            self._seen[id(part)] = part
            part.visit_state(self)

    def call(self, function: Callable[..., Any]) -> None:
        """Notes the function and the object to which it belongs."""
        self.note((id(getattr(function, "__self__", None)), getattr(function, "__name__", None)))

    def place(self, place: Place, slots: SlotRing | None, offset: int) -> int:
        """Notes the offset."""
        self.note(offset)
        return offset

    def places(self, claims: dict[int, int], rings: list[tuple[Place, SlotRing | None]]) -> dict[int, int]:
        """Notes the claims."""
        self.note(sorted(claims.items()))
        return dict(claims)

    def moved(self, moved: dict[Place, dict[int, int]]) -> None:
        """Notes the pieces."""
        self.note(sorted((place, *numbers.items()) for place, numbers in moved.items()))


class Later(_Visitor):
    """Moves parts on by `_LATER_PS`. Counts grow by some number, because no time depends on them."""

    def note(self, value: object) -> None:
        """Forgets the value."""

    def moment(self, t_ps: int) -> int:
        """The moment `_LATER_PS` later."""
        return t_ps + _LATER_PS

    deadline = moment

    def count(self, count: int) -> int:
        """A larger count."""
        return count + _GROWN


class View(_Visitor):
    """Writes down a state at *now_ps*, without the parts of parts. Two states have equal `values` if they are equal."""

    def __init__(self, now_ps: int, command: Any = None) -> None:
        super().__init__(command, deep=False)
        self.values: list[object] = []
        self._now_ps = now_ps

    def note(self, value: object) -> None:
        """Writes the value down."""
        self.values.append(value)

    def deadline(self, t_ps: int) -> int:
        """Writes down how far the moment is ahead of now."""
        self.note(max(0, t_ps - self._now_ps))
        return t_ps


def check_visits_what_it_names(subject: Subject) -> None:
    """A block that can be skipped hands over every attribute in `state`."""
    block = subject.build(Clock())
    if not can_visit_state(block):
        return
    missing = sorted(names_of(subject.impl, "state") - names_read(block))
    if missing:
        fix = "give each a kind in `state`, or hand it over in `visit_state` after super().visit_state(over)"
        subject.fail("visit_state", f"nothing about {', '.join(missing)}", "all attributes in `state`", fix)


def names_read(part: Any) -> set[str]:
    """The attributes of *part* that its `visit_state` reads."""
    read: set[str] = set()
    kind = type(part)

    class Watched(kind):  # type: ignore[misc,valid-type]  # the class of any part
        __slots__ = ()

        def __getattribute__(self, name: str) -> Any:
            read.add(name)
            return super().__getattribute__(name)

    part.__class__ = Watched
    try:
        part.visit_state(Later(deep=False))
    finally:
        part.__class__ = kind
    return read


def check_views_differ(subject: Subject) -> None:
    """Two states of a block that differ in one attribute of `state` have different views.

    The block works first. Then the check changes one attribute after another, of the block and of the parts in its
    `state`: numbers, flags, texts, tokens, and collections of these. Values of other types are not changed.
    """
    block = _half_way(subject)
    if not can_visit_state(block):
        return
    seen: dict[int, object] = {}
    todo: list[tuple[str, Any]] = [("", block)]
    while todo:
        path, part = todo.pop()
        seen[id(part)] = part
        for name in sorted(names_of(type(part), "state")):
            if _is_by_hand(part, name):
                continue
            for first, second in _twins(part, name, block.clock.now_ps):
                got = f"equal views of {path}{name} = {first!r} and {path}{name} = {second!r}"
                fix = "hand the attribute over whole, or give it the kind BY_HAND if it matters under a condition alone"
                subject.fail("visit_state", got, "different views of different states", fix)
            value = getattr(part, name)
            if isinstance(value, Stateful) and id(value) not in seen:
                todo.append((f"{path}{name}.", value))


def _half_way(subject: Subject) -> ComponentBase[Any]:
    """A block that has worked: half of its tiles are served, or some requests."""
    if subject.impl.serves:
        n_events = Line(subject).run()
        line = Line(subject)
        line.run(n_events // 2)
        return line.block
    block, work = at_work(subject)
    work()
    return block


def _is_by_hand(part: object, name: str) -> bool:
    """Whether *name* matters only under a condition of its class, or only its size does."""
    kinds = [(kinds_of(owner) or {}).get(name) for owner in type(part).__mro__]
    return any(kind in (BY_HAND, SIZE) or kind.needs for kind in kinds if kind is not None)


def _twins(part: Any, name: str, now_ps: int) -> Iterator[tuple[object, object]]:
    """Pairs of unequal values of the attribute *name* of *part* that have equal views."""
    kept = getattr(part, name)
    views: list[tuple[object, list[object]]] = []
    try:
        for value in _others(kept, now_ps):
            if any(value == earlier for earlier, _ in views):
                continue
            view = View(now_ps)
            setattr(part, name, copy(value))
            part.visit_state(view)
            yield from ((earlier, value) for earlier, values in views if values == view.values)
            views.append((value, view.values))
    except NotPeriodic:
        return
    finally:
        setattr(part, name, kept)


def _others(value: Any, now_ps: int) -> Iterator[object]:
    """Values of the type of *value*, and *value* itself where nothing else is known. Times are after *now_ps*."""
    if isinstance(value, bool):
        yield from (False, True)
    elif isinstance(value, int):
        yield from (now_ps + step for step in _STEPS)
    elif isinstance(value, float):
        yield from (value + step / 8 for step in _STEPS)
    elif isinstance(value, str):
        yield from (value, value + "x", "x" + value)
    elif isinstance(value, TileToken):
        yield from (value, None)
    elif type(value) in (list, deque) and value:
        items, kind = list(value), type(value)
        yield from (value, kind(items[1:]))
        for number, item in enumerate(items):
            for other in _others(item, now_ps):
                yield kind([*items[:number], other, *items[number + 1 :]])


def check_goes_on_after_a_shift(subject: Subject) -> None:
    """A block that is moved on half-way does later what it would have done without the move."""
    if not can_visit_state(subject.build(Clock())):
        return
    found = _tiles_moved_on(subject) if subject.impl.serves else _requests_moved_on(subject)
    for number, (now, later) in enumerate(found):
        if later != now:
            got, needs = f"{later} ps for number {number} after a shift", f"{now} ps, and as much later as the shift is"
            fix = "give moments the kind MOMENT or DEADLINE, and COUNT only to numbers on which no time depends"
            subject.fail("visit_state", got, needs, fix)


def _tiles_moved_on(subject: Subject) -> list[tuple[Any, Any]]:
    """The times at which tiles leave a block that is moved on half-way, and the times without that."""
    plain, moved = Line(subject), Line(subject)
    n_events = plain.run()
    moved.run(n_events // 2)
    n_before = len(moved.outs)
    over = Later(moved.command)
    for block in (moved.block, moved.stub):
        over.part(block)
        for server in block.servers.values():
            over.part(server)
            for gate in server.own_gates:
                over.part(gate)
    moved.clock.skip(_LATER_PS)
    moved.run()
    later = [*moved.outs[:n_before], *((*out[:2], *_earlier(out[2:])) for out in moved.outs[n_before:])]
    return list(zip(plain.outs, later, strict=True))


def _requests_moved_on(subject: Subject) -> list[tuple[Any, Any]]:
    """The times of requests to a memory that is moved on half-way, and the times without that."""
    plain, moved = subject.build(Clock()), subject.build(Clock())
    if not isinstance(plain, MemoryComponent) or not isinstance(moved, MemoryComponent):
        return []
    found = []
    for number in range(16):
        if number == 8:
            Later().part(moved)
        by_ps = _LATER_PS * (number >= 8)
        times = []
        for block, t_ps in ((plain, 1000 * number), (moved, 1000 * number + by_ps)):
            times.append(block.reserve(t_ps, Rectangle(64 * number, 4, 640, 256), t_ps, bool(number % 3 == 1)))
        found.append((times[0], tuple(t_ps - by_ps for t_ps in times[1])))
    return found


def _earlier(times_ps: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(t_ps - _LATER_PS for t_ps in times_ps)
