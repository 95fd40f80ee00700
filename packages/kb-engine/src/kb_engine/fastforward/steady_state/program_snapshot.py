"""Snapshot and shift of the state of a simulation of programs of a grid.

Design: docs/design/steady-state.md

A snapshot is relative to now, and to the numbers of the ops, commands and programs that come next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any, NamedTuple, Self

from kb_dataexec.log.compressed import LogMark, SlotRing
from kb_engine.block.buffers import Slots
from kb_engine.block.component import ComponentBase
from kb_engine.block.in_flight import CommandInFlight, Issued, TileToken
from kb_engine.block.state_rules import can_visit_state
from kb_engine.block.state_visitor import HasState, NotPeriodic
from kb_engine.fastforward.steady_state.state_snapshot import PartsVisitor, StateShift, StateSnapshot
from kb_messages import Place


class Numbers(NamedTuple):
    """The counts of ops, commands and programs so far."""

    ops: int
    commands: int
    programs: int


class _ProgramVisitor(PartsVisitor):
    """A visitor of states between programs, when no command of many tiles is fed.

    A part that is met waits until the visit of the present part is over. `drain` visits the waiting parts.
    """

    _to_visit: deque[HasState]

    @property
    def command(self) -> None:
        """Always None: no command is fed."""

    @property
    def next_tile(self) -> int:
        """Always 0: no tile is fed."""
        return 0

    def part(self, part: HasState) -> None:
        """Plans a visit of *part*, if it is new."""
        if self._is_new(part):
            self._to_visit.append(part)

    def drain(self) -> None:
        """Visits the waiting parts."""
        while self._to_visit:
            self._to_visit.popleft().visit_state(self)


class ProgramSnapshot(_ProgramVisitor, StateSnapshot):
    """The state at *now_ps*, with the counts `so_far`. The launch began at the counts *first*.

    A snapshot is complete once `note_programs` has noted what no block hands over.
    """

    def __init__(self, now_ps: int, mark: LogMark | None, so_far: Numbers, first: Numbers) -> None:
        super().__init__(now_ps, mark, first.ops, so_far.ops)
        self.so_far = so_far
        self.turned: list[tuple[tuple[str, Slots], int]] = []
        self.unlikes: list[int] = []
        self.in_flight: list[CommandInFlight] = []
        self.first = first
        self.n_commands = self.n_issues = 0
        self.running: Sequence[int] = ()
        self.cuts: dict[str, Any] = {}
        self._to_visit = deque()

    def note_programs(self, n_commands: int, n_issues: int, running: Sequence[int], cuts: dict[str, Any]) -> None:
        """Notes the *n_commands* that the recorder or the session keeps, the *n_issues* commands of all programs with a
        template, the programs *running*, and the *cuts* of the PEs' register files."""
        self.n_commands, self.n_issues = n_commands, n_issues
        self.running, self.cuts = running, cuts

    def seq(self, command_seq: int) -> int:
        """Writes *command_seq* down, relative to the next command."""
        self._numbered(command_seq, self.first.commands, self.so_far.commands)
        return command_seq

    def program(self, number: int) -> int:
        """Writes *number* down, relative to the next program."""
        self.parts.append(number - self.so_far.programs)
        return number

    def issued(self, command: Any) -> Issued:
        """Writes *command* down. Its token refers to it."""
        self._is_new(command)
        self.in_flight.append(command)
        self.seq(command.submitted.command_seq)
        return command.submitted, command.addresses

    def ring(self, last: Any, pieces: int, pe_id: str) -> Slots:
        """Writes the ring of *last* down. `turns_like` decides whether the next slot matters."""
        slots: Slots = last
        self.parts.append((slots.base, slots.nbytes, slots.count, pieces))
        self.turned.append(((pe_id, slots.turned(-slots.first)), slots.first))
        return slots

    def unlike(self, count: int) -> None:
        """Notes how often the places of slots mattered so far."""
        self.unlikes.append(count)

    def is_like(self, earlier: Self) -> bool:
        """Whether the state is equal to the *earlier* snapshot."""
        return super().is_like(earlier) and self.turns_like(earlier)

    def turns_like(self, earlier: Self) -> bool:
        """Whether slots lie as in the *earlier* snapshot, or all slots of a ring have moved on equally, without
        effect."""
        if self.turned == earlier.turned:
            return True
        turns: dict[tuple[str, Slots], int] = {}
        for (ring, first), (_, then) in zip(self.turned, earlier.turned, strict=True):
            turn = (first - then) % ring[1].count
            if turns.setdefault(ring, turn) != turn:
                return False
        return self.unlikes == earlier.unlikes

    def tiles_to_go(self, count: int) -> int:
        """Writes the tiles of a command of one tile down."""
        self.same(count)
        return count

    def token(self, token: Any) -> None:
        """Writes *token* down. Raises NotPeriodic for a tile of a command that no program waits for."""
        if token is None:
            self.parts.append(None)
        elif type(token) is not TileToken or id(token.context) not in self._seen:
            raise NotPeriodic
        elif self._is_new(token):
            self._is_new(token.context)
            token.visit_state(self)

    def call(self, function: Callable[..., Any]) -> None:
        """Writes *function* down. An object without state has to be the same one; an object with state may be
        replaced. Raises NotPeriodic for a method of a block that does not state its state."""
        if type(function) is not MethodType:
            raise NotPeriodic
        of = function.__self__
        if isinstance(of, ComponentBase) and not can_visit_state(of):
            raise NotPeriodic
        self.parts.append(function.__func__)
        if hasattr(of, "visit_state"):
            self.part(of)
        else:
            self.identical(of)

    def place(self, place: Place, slots: SlotRing | None, offset: int) -> int:
        """Writes *place* down. Tiles of commands of one tile take no buffers, and registers in their slot."""
        if place is not Place.REGISTERS or slots is None:
            raise NotPeriodic
        self.parts.append(place)
        return offset

    def places(self, claims: dict[int, int], rings: list[tuple[Place, SlotRing | None]]) -> dict[int, int]:
        """Writes the claimed places down."""
        self.parts.append(sorted(claims.items()))
        return claims

    def moved(self, moved: dict[Place, dict[int, int]]) -> None:
        """Raises NotPeriodic for pieces outside of their slots."""
        if moved:
            raise NotPeriodic


class ProgramShift(_ProgramVisitor, StateShift):
    """Moves the state on by *n* times the period from snapshot *before* to snapshot *after*, which are equal.

    *issued* has the commands in flight then, by the commands in flight now.
    """

    def __init__(
        self, before: ProgramSnapshot, after: ProgramSnapshot, n: int, issued: Mapping[CommandInFlight, Issued]
    ) -> None:
        super().__init__(before, after, n)
        self._turns = iter([n * (now[1] - then[1]) for then, now in zip(before.turned, after.turned, strict=True)])
        self._by = Numbers(*[n * (now - then) for then, now in zip(before.so_far, after.so_far, strict=True)])
        self._first = after.first
        self._issued = issued
        self._to_visit = deque()

    @property
    def numbers(self) -> Numbers:
        """The growth of the counts."""
        return self._by

    def seq(self, command_seq: int) -> int:
        """Returns the number of the command that takes the place of *command_seq*."""
        return command_seq + self._by.commands if command_seq >= self._first.commands else command_seq

    def program(self, number: int) -> int:
        """Returns the program that takes the place of *number*."""
        return number + self._by.programs

    def issued(self, command: Any) -> Issued:
        """Returns the command that takes the place of *command*."""
        return self._issued[command]

    def ring(self, last: Any, pieces: int, pe_id: str) -> Slots:
        """Returns the ring with its slots moved on."""
        slots: Slots = last
        return slots.turned(next(self._turns))

    def unlike(self, count: int) -> None:
        """Changes nothing."""

    def tiles_to_go(self, count: int) -> int:
        """Returns *count*: commands of one tile have equal counts a period later."""
        return count

    def token(self, token: Any) -> None:
        """Gives *token* the tile of a later command."""
        if token is not None and self._is_new(token):
            token.become(token.context.tiles[0], token.context.first_op)
            token.visit_state(self)

    def call(self, function: Callable[..., Any]) -> None:
        """Visits the object of the method *function*, if it has state."""
        of = getattr(function, "__self__", None)
        if hasattr(of, "visit_state"):
            self.part(of)  # type: ignore[arg-type]  # it has what a part needs

    def place(self, place: Place, slots: SlotRing | None, offset: int) -> int:
        """Returns the slot of a later command. The ring of the token's command has moved on already."""
        return offset if slots is None else slots.base + slots.first % slots.count * slots.nbytes

    def places(self, claims: dict[int, int], rings: list[tuple[Place, SlotRing | None]]) -> dict[int, int]:
        """Returns *claims*, which lie at the same places a period later."""
        return claims

    def moved(self, moved: dict[Place, dict[int, int]]) -> None:
        """Changes nothing, because no piece lies outside of its slot."""
