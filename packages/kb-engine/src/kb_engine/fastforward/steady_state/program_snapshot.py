"""The passes over a simulation of programs of a grid: one looks at its state, the other moves it on by whole periods.

A state is taken relative to now, and to the numbers of the ops, commands and programs that come next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from types import MethodType
from typing import Any, NamedTuple

from kb_dataexec.log.compressed import SlotRing
from kb_engine.block.buffers import Slots
from kb_engine.block.in_flight import CommandInFlight, Issued, TileToken
from kb_engine.block.state_visitor import HasState, NotPeriodic
from kb_engine.fastforward.steady_state.state_snapshot import PartsVisitor, StateShift, StateSnapshot
from kb_messages import Place


class Numbers(NamedTuple):
    """The numbers of ops, of commands and of programs so far."""

    ops: int
    commands: int
    programs: int


class _ProgramPass(PartsVisitor):
    """A pass without a command whose tiles are fed.

    Parts are visited in the order in which they are met, and not while others are. `drain` visits those that are left.
    """

    _to_visit: deque[HasState]

    @property
    def command(self) -> None:
        """As StateVisitor says: there is none."""

    @property
    def next_tile(self) -> int:
        """No tile is fed."""
        return 0

    def part(self, part: HasState) -> None:
        """As StateVisitor says."""
        if self._is_new(part):
            self._to_visit.append(part)

    def drain(self) -> None:
        """Visit what was met."""
        while self._to_visit:
            self._to_visit.popleft().visit_state(self)


class ProgramSnapshot(_ProgramPass, StateSnapshot):
    """The state at *now_ps*, when the numbers had come to `so_far`. The launch began with *first* ones."""

    def __init__(self, now_ps: int, so_far: Numbers, first: Numbers) -> None:
        super().__init__(now_ps)
        self.so_far = so_far
        self.turned: list[tuple[tuple[str, Slots], int]] = []
        self.unlikes: list[int] = []
        self.in_flight: list[CommandInFlight] = []
        self.first = first
        self._to_visit = deque()

    def op(self, op_id: int) -> int:
        """As StateVisitor says. An op before the launch has a number of its own."""
        is_own = op_id >= self.first.ops
        self.parts.append((is_own, op_id - self.so_far.ops if is_own else op_id))
        return op_id

    def seq(self, command_seq: int) -> int:
        """As StateVisitor says."""
        is_own = command_seq >= self.first.commands
        self.parts.append((is_own, command_seq - self.so_far.commands if is_own else command_seq))
        return command_seq

    def program(self, number: int) -> int:
        """As StateVisitor says."""
        self.parts.append(number - self.so_far.programs)
        return number

    def issued(self, command: Any) -> Issued:
        """As StateVisitor says. Its token refers to the command."""
        self._is_new(command)
        self.in_flight.append(command)
        self.seq(command.submitted.command_seq)
        return command.submitted, command.addresses

    def ring(self, last: Any, pieces: int, pe_id: str) -> Slots:
        """As StateVisitor says. `turns_like` tells whether it matters which slot comes next."""
        slots: Slots = last
        self.parts.append((slots.base, slots.nbytes, slots.count, pieces))
        self.turned.append(((pe_id, slots.turned(-slots.first)), slots.first))
        return slots

    def unlike(self, count: int) -> None:
        """As StateVisitor says."""
        self.unlikes.append(count)

    def is_like(self, earlier: ProgramSnapshot) -> bool:
        """Whether the state is that of the *earlier* look."""
        return self.parts == earlier.parts and self.turns_like(earlier)

    def turns_like(self, earlier: ProgramSnapshot) -> bool:
        """Whether slots lie as at the *earlier* look, or all those of a ring by as many further, and that is alike."""
        if self.turned == earlier.turned:
            return True
        turns: dict[tuple[str, Slots], int] = {}
        for (ring, first), (_, then) in zip(self.turned, earlier.turned, strict=True):
            turn = (first - then) % ring[1].count
            if turns.setdefault(ring, turn) != turn:
                return False
        return self.unlikes == earlier.unlikes

    def tiles_to_go(self, count: int) -> int:
        """As StateVisitor says, of a command of one tile."""
        self.same(count)
        return count

    def token(self, token: Any) -> None:
        """As StateVisitor says. Raises NotPeriodic for a tile of a command that no program waits for."""
        if token is None:
            self.parts.append(None)
        elif type(token) is not TileToken or id(token.context) not in self._seen:
            raise NotPeriodic
        elif self._is_new(token):
            self._is_new(token.context)
            token.visit_state(self)

    def call(self, function: Callable[..., Any]) -> None:
        """As StateVisitor says. What has no state stays, and others may take the place of what has one."""
        if type(function) is not MethodType:
            raise NotPeriodic
        of = function.__self__
        self.parts.append(function.__func__)
        if hasattr(of, "visit_state"):
            self.part(of)
        else:
            self.identical(of)

    def place(self, place: Place, slots: SlotRing | None, offset: int) -> int:
        """As StateVisitor says: tiles of commands of one tile take no buffers, and registers in their slot."""
        if place is not Place.REGISTERS or slots is None:
            raise NotPeriodic
        self.parts.append(place)
        return offset

    def places(self, claims: dict[int, int], rings: list[tuple[Place, SlotRing | None]]) -> dict[int, int]:
        """As StateVisitor says."""
        self.parts.append(sorted(claims.items()))
        return claims

    def moved(self, moved: dict[Place, dict[int, int]]) -> None:
        """As StateVisitor says."""
        if moved:
            raise NotPeriodic


class ProgramShift(_ProgramPass, StateShift):
    """*n* times what happened from the look *before* to the look *after*, which are at equal states.

    *issued* has what is in flight then, by the commands that are in flight now.
    """

    def __init__(
        self, before: ProgramSnapshot, after: ProgramSnapshot, n: int, issued: Mapping[CommandInFlight, Issued]
    ) -> None:
        grown = (n * (now - then) for then, now in zip(before.totals, after.totals, strict=True))
        super().__init__(n * (after.now_ps - before.now_ps), grown)
        self._turns = iter([n * (now[1] - then[1]) for then, now in zip(before.turned, after.turned, strict=True)])
        self._by = Numbers(*[n * (now - then) for then, now in zip(before.so_far, after.so_far, strict=True)])
        self._first = after.first
        self._issued = issued
        self._to_visit = deque()

    @property
    def numbers(self) -> Numbers:
        """By how much the numbers grow."""
        return self._by

    def op(self, op_id: int) -> int:
        """As StateVisitor says."""
        return op_id + self._by.ops if op_id >= self._first.ops else op_id

    def seq(self, command_seq: int) -> int:
        """As StateVisitor says."""
        return command_seq + self._by.commands if command_seq >= self._first.commands else command_seq

    def program(self, number: int) -> int:
        """As StateVisitor says."""
        return number + self._by.programs

    def issued(self, command: Any) -> Issued:
        """As StateVisitor says."""
        return self._issued[command]

    def ring(self, last: Any, pieces: int, pe_id: str) -> Slots:
        """As StateVisitor says."""
        slots: Slots = last
        return slots.turned(next(self._turns))

    def unlike(self, count: int) -> None:
        """As StateVisitor says."""

    def tiles_to_go(self, count: int) -> int:
        """As StateVisitor says."""
        return count

    def token(self, token: Any) -> None:
        """As StateVisitor says. The token carries the tile of a later command from now on."""
        if token is not None and self._is_new(token):
            token.become(token.context.tiles[0], token.context.first_op)
            token.visit_state(self)

    def call(self, function: Callable[..., Any]) -> None:
        """As StateVisitor says."""
        of = getattr(function, "__self__", None)
        if hasattr(of, "visit_state"):
            self.part(of)  # type: ignore[arg-type]  # it has what a part needs

    def place(self, place: Place, slots: SlotRing | None, offset: int) -> int:
        """As StateVisitor says. The ring of the token's command has turned already."""
        return offset if slots is None else slots.base + slots.first % slots.count * slots.nbytes

    def places(self, claims: dict[int, int], rings: list[tuple[Place, SlotRing | None]]) -> dict[int, int]:
        """As StateVisitor says."""
        return claims

    def moved(self, moved: dict[Place, dict[int, int]]) -> None:
        """As StateVisitor says."""
