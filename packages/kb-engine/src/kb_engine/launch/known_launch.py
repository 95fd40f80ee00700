"""KnownLaunch: what a launch did whose commands were all closed, to be done again by a launch with its key.

All moments are those of the launch that was run; one that does the same is later by some picoseconds, commands and ops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from kb_engine.block.closable import ClosableWork
from kb_engine.block.in_flight import CommandInFlight
from kb_engine.block.placement import Placement
from kb_engine.closed.closed_commands import ClosedCommands, NotedCommand
from kb_engine.closed.joined_outcomes import JoinedOutcomes
from kb_engine.launch.launch import LaunchResult
from kb_engine.launch.launch_key import LaunchKey
from kb_engine.launch.noted_port import Notes
from kb_engine.observe.recorder import LogMark, Recorder
from kb_engine.observe.run_tables import ToldRows
from kb_engine.program.late_places import WorkByPe
from kb_engine.program.session import Session
from kb_messages import ADDRESS_BITS, GemmCommand, Matrix, SubmittedCommand, matrices_of

Move = Callable[[int], int]
"""Gives the address, in the tensors of another launch, of a byte of this one's."""


class Begin(NamedTuple):
    """How far a chip was when a launch was called: time, commands, ops, commands that were opened, and the log."""

    ps: int
    commands: int
    ops: int
    opened: int
    mark: LogMark | None
    told: tuple[int, int]


def begin_of(session: Session, closed: ClosedCommands) -> Begin:
    """Where the chip is now."""
    recorder = session.recorder
    mark, told = (None, (0, 0)) if recorder is None else (recorder.mark(), recorder.tables.n_rows)
    return Begin(session.clock.now_ps, session.commands_issued, session.n_ops, closed.n_opened, mark, told)


class KnownLaunch:
    """What a launch with *key* did since *begin*, which has just ended with *result*.

    *notes* are those of its programs, and *commands* all that it issued, in the order in which they were closed. `told`
    are its rows of programs and messages in the log.
    """

    def __init__(
        self,
        session: Session,
        key: LaunchKey,
        begin: Begin,
        result: LaunchResult,
        notes: Notes,
        commands: Sequence[NotedCommand],
    ) -> None:
        self.begin = begin
        self.key = key
        self.commands = commands
        self.n_ops = session.n_ops - begin.ops
        self.duration_ps = session.clock.now_ps - begin.ps
        self._result = result
        self._marks = notes.marks
        self._known = list(dict.fromkeys([each.known for each in commands]))
        recorder = session.recorder
        self._was_repeated = False
        self.told = ToldRows([], []) if recorder is None else recorder.tables.rows_since(begin.told)

    @cached_property
    def joined(self) -> JoinedOutcomes:
        """What its commands came to. The first repetition does without, because this takes longer than it saves."""
        began_ps = self.begin.ps
        return JoinedOutcomes((each.footprint, each.outcome, each.begin_ps - began_ps) for each in self.commands)

    @cached_property
    def _places(self) -> dict[int, tuple[int, int]]:
        """For each address that is used, the number of its block, and bytes from the begin of that. There are none
        where one of them lies in no tensor of the key."""
        issued = [each.work.command for each in self.commands]
        used = {matrix.address for matrix, _ in self._marks}
        for each in issued:
            used.update(each.addresses or each.shared_plan.addresses)
            used.update([matrix.address for matrix in matrices_of(each.submitted.command)])
        blocks = iter(sorted((begin, end, number) for number, (begin, end) in enumerate(self.key.spans)))
        block, following = _BEFORE_ALL, next(blocks, _BEHIND_ALL)
        found: dict[int, tuple[int, int]] = {}
        for address in sorted(used):
            while following[0] <= address:
                block, following = following, next(blocks, _BEHIND_ALL)
            begin, end, number = block
            if address >= end:
                return {}
            found[address] = number, address - begin
        return found

    @cached_property
    def _works(self) -> WorkByPe:
        found: dict[str, list[ClosableWork]] = {}
        for each in self.commands:
            found.setdefault(each.work.command.submitted.pe, []).append(each.work)
        return found

    @property
    def is_in_tensors(self) -> bool:
        """Whether it has commands, and all addresses that they use lie in tensors of the key."""
        return bool(self._places)

    def fits(self, now_ps: int) -> bool:
        """Whether a launch with its key would do the same now, where nothing is scheduled."""
        if self._was_repeated:
            return self.joined.fits(now_ps)
        return all(each.footprint.is_idle(now_ps) and each.footprint.fits(each.outcome) for each in self.commands)

    @property
    def is_steady(self) -> bool:
        """Whether the log knew before how long each of its transfers takes that meets nobody."""
        outcomes = {id(each.outcome): each.outcome for each in self.commands}
        return all(outcome.is_steady for outcome in outcomes.values())

    def steady(self, closed: ClosedCommands, now_ps: int) -> KnownLaunch | None:
        """This launch as it would be now, where the log knows of its transfers and nothing is scheduled; None where it
        would not be the same otherwise."""
        if not all(each.footprint.is_idle(now_ps) for each in self.commands):
            return None
        commands = []
        for each in self.commands:
            outcome = closed.outcome_now(each)
            if outcome is None or not outcome.is_steady or outcome.moved:
                return None
            if outcome.duration_ps != each.outcome.duration_ps:
                return None
            commands.append(each._replace(outcome=outcome))
        found = copy(self)
        found.came_to(commands)
        return found

    def came_to(self, commands: Sequence[NotedCommand]) -> None:
        """In place of its commands there are *commands*, which differ in what came of them alone."""
        self.commands = commands
        vars(self).pop("joined", None)

    def result(self, later_ps: int) -> LaunchResult:
        """The times of a launch that did the same *later_ps* later."""
        found = self._result
        return replace(
            found,
            **{name: getattr(found, name) + later_ps for name in _MOMENTS},
            pe_start_ps={pe: t_ps + later_ps for pe, t_ps in found.pe_start_ps.items()},
            pe_end_ps={pe: t_ps + later_ps for pe, t_ps in found.pe_end_ps.items()},
        )

    def apply(self, session: Session, closed: ClosedCommands, begin: Begin, key: LaunchKey, number: int) -> None:
        """A launch with *key*, called at *begin*, has done the same by now. *number* is that of the launch."""
        move = self._move_to(key)
        mark = session.memory.pending.mark
        for matrix, producer in self._marks:
            mark(matrix if move is None else _at(matrix, move(matrix.address)), producer)
        session.skip(len(self.commands), self.n_ops)
        if self._was_repeated:
            self.joined.apply(begin.ps)
        else:
            later_ps = begin.ps - self.begin.ps
            for each in self.commands:
                each.footprint.apply(each.outcome, each.begin_ps + later_ps)
            self._was_repeated = True
        closed.take(self._known, len(self.commands))
        session.tell_again([each.work.command for each in self.commands])
        if session.recorder is None:
            session.late_places.add(self._works, len(self.commands))
        else:
            self._record(session.recorder, begin, move)
            session.recorder.tables.repeat(self.told, number, begin.ps - self.begin.ps)

    def differs_from(self, other: KnownLaunch) -> str:
        """What of this differs from *other*, which has the same key: the names of these parts, or ""."""
        mine, others = self._comparable(), other._comparable()
        names = [name for name, found in mine.items() if found != others[name]]
        return ", ".join([*names, *filter(None, [self.joined.differs_from(other.joined)])])

    def _move_to(self, key: LaunchKey) -> Move | None:
        """From addresses in the tensors of this launch to those in the tensors of *key*; None where both are one."""
        if self.key.spans == key.spans:
            return None
        places, spans = self._places, key.spans

        def move(address: int) -> int:
            number, offset = places[address]
            return spans[number][0] + offset

        return move

    def _record(self, recorder: Recorder, begin: Begin, move: Move | None) -> None:
        """Have the log tell of the commands of a launch that began at *begin*."""
        before = self.begin
        shift = begin.ps - before.ps, begin.ops - before.ops, begin.commands - before.commands
        again: dict[int, CommandInFlight] = {}
        for each in self.commands:
            command = _again(each.work.command, shift, move)
            each.work.place_again(command)
            again[command.submitted.command_seq] = command
        for seq in sorted(again):
            recorder.on_issue(again[seq])
        for each in self.commands:
            command, outcome = again[each.work.command.submitted.command_seq + shift[2]], each.outcome
            if outcome.rows is not None:
                span_ps = command.t_fed_ps, command.t_fed_ps + outcome.duration_ps
                recorder.expect(command, outcome.rows, span_ps, each.footprint.memories)

    def _comparable(self) -> dict[str, Any]:
        """What launches that do the same have in common, beside what their commands came to."""
        begin, commands = self.begin, [each.work.command for each in self.commands]
        commands.sort(key=lambda each: each.submitted.command_seq)
        issued = [(each.submitted.pe, each.submitted.line, each.t_call_ps - begin.ps) for each in commands]
        numbers = [(each.submitted.command_seq - begin.commands, each.first_op - begin.ops) for each in commands]
        return {
            "times": (self.duration_ps, self.result(-begin.ps)),
            "commands": (issued, numbers, self.n_ops),
            "pending bytes": [(mark.matrix.rows, mark.matrix.cols, mark.producer) for mark in self._marks],
        }


_BEFORE_ALL: Final = -1, -1, -1
_BEHIND_ALL: Final = 1 << ADDRESS_BITS, 1 << ADDRESS_BITS, -1
"""Blocks where no address lies."""
_MOMENTS = "call_ps", "target_start_ps", "start_ps", "end_ps", "response_ps"


def _again(command: CommandInFlight, shift: tuple[int, int, int], move: Move | None) -> CommandInFlight:
    """*command*, which is done, as one that did the same later by *shift*, and has yet to be placed."""
    submitted, addresses = command.submitted, command.addresses or command.shared_plan.addresses
    what = submitted.command
    if move is not None:
        what, addresses = _moved(what, move), tuple(map(move, addresses))
    seq = submitted.command_seq + shift[2]
    issued = SubmittedCommand(command_seq=seq, pe=submitted.pe, line=submitted.line, command=what)
    again = command.once_again((issued, addresses), shift)
    again.placement = Placement()
    return again


def _moved(value: Any, move: Move) -> Any:
    """*value*, a part of a command, with all matrices at other addresses."""
    if type(value) is Matrix:
        return _at(value, move(value.address))
    if type(value) is GemmCommand and not value.epilogue:
        a, b, out, acc = value.a, value.b, value.out, value.acc
        return replace(
            value,
            a=_at(a, move(a.address)),
            b=_at(b, move(b.address)),
            out=_at(out, move(out.address)),
            acc=None if acc is None else _at(acc, move(acc.address)),
        )
    if isinstance(value, tuple):
        return tuple([_moved(each, move) for each in value])
    if not isinstance(value, Struct):
        return value
    parts = {name: getattr(value, name) for name in value.__struct_fields__}
    return type(value)(**{name: _moved(each, move) for name, each in parts.items()})


def _at(matrix: Matrix, address: int) -> Matrix:
    return Matrix(address=address, rows=matrix.rows, cols=matrix.cols, stride=matrix.stride, dtype=matrix.dtype)
