"""Checks of `visit_state`: it hands over every attribute that changes, each as what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kb_dataexec.log.compressed import SlotRing
from kb_engine.block.fabric_roles import MemoryComponent
from kb_engine.block.state_rules import can_visit_state
from kb_engine.block.state_visitor import HasState, StateVisitor
from kb_engine.testing.line import Line
from kb_engine.testing.state import names_of
from kb_engine.testing.subject import Subject
from kb_engine.timing.clock import Clock
from kb_messages import Place, Rectangle

_LATER_PS = 1_000_003
_GROWN = 1 << 20


class Later(StateVisitor):
    """Moves parts on by `_LATER_PS` and by no tile. Totals grow by any number, because nothing depends on them.

    With *deep*, the parts of parts are moved on, too.
    """

    def __init__(self, command: Any = None, deep: bool = True) -> None:
        self._command = command
        self._deep = deep
        self._seen: dict[int, object] = {}

    @property
    def command(self) -> Any:
        """As StateVisitor says."""
        return self._command

    @property
    def next_tile(self) -> int:
        """No tile is skipped."""
        return 0

    @property
    def jumps(self) -> bool:
        """No tile is skipped."""
        return False

    def moment(self, t_ps: int) -> int:
        """As StateVisitor says."""
        return t_ps + _LATER_PS

    def deadline(self, t_ps: int) -> int:
        """As StateVisitor says."""
        return t_ps + _LATER_PS

    def count(self, count: int) -> int:
        """As StateVisitor says."""
        return count + _GROWN

    def same(self, *values: object) -> None:
        """As StateVisitor says."""

    def identical(self, *objects: object) -> None:
        """As StateVisitor says."""

    def op(self, op_id: int) -> int:
        """As StateVisitor says."""
        return op_id

    def tiles_to_go(self, count: int) -> int:
        """As StateVisitor says."""
        return count

    def token(self, token: Any) -> None:
        """As StateVisitor says."""
        if token is not None:
            self.part(token)

    def part(self, part: HasState) -> None:
        """As StateVisitor says."""
        if self._deep and id(part) not in self._seen:
            self._seen[id(part)] = part
            part.visit_state(self)

    def call(self, function: Callable[..., Any]) -> None:
        """As StateVisitor says."""

    def place(self, place: Place, slots: SlotRing | None, offset: int) -> int:
        """As StateVisitor says."""
        return offset

    def places(self, claims: dict[int, int], rings: list[tuple[Place, SlotRing | None]]) -> dict[int, int]:
        """As StateVisitor says."""
        return dict(claims)

    def moved(self, moved: dict[Place, dict[int, int]]) -> None:
        """As StateVisitor says."""


def check_visits_what_it_names(subject: Subject) -> None:
    """The `visit_state` of a block that can be folded reads every attribute in `state`."""
    block = subject.build(Clock())
    if not can_visit_state(block):
        return
    missing = sorted(names_of(subject.impl, "state") - names_read(block))
    if missing:
        fix = "hand each to the pass, after super().visit_state(over)"
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


def check_goes_on_after_a_shift(subject: Subject) -> None:
    """A block that can be folded does later what it would do now, when the pass has moved it on."""
    if not can_visit_state(subject.build(Clock())):
        return
    found = _tiles_moved_on(subject) if subject.impl.serves else _requests_moved_on(subject)
    for number, (now, later) in enumerate(found):
        if later != now:
            got, needs = f"{later} ps for number {number} after a fold", f"{now} ps, and as much later as the fold is"
            fix = "hand moments to `moment` or `deadline`, and what nothing depends on alone to `count`"
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
