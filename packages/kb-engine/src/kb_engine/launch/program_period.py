"""Period: the programs between two equal states of a simulation, and what those leave behind that repeat them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np

from kb_engine.block.buffers import Slots
from kb_engine.block.in_flight import CommandInFlight, Issued
from kb_engine.fold.program_passes import Numbers, ProgramLook
from kb_engine.launch.grid_launch import GridLaunch, ProgramRun
from kb_engine.launch.loop_launch import LoopLaunch
from kb_engine.launch.period_conflicts import periods_with_equal_conflicts
from kb_engine.observe.recorder import LogMark
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.session import Session
from kb_engine.template import (
    Loaded,
    LoadLook,
    LoopTemplates,
    PendingMark,
    Put,
    Repetition,
    Submission,
    Templates,
    Told,
)
from kb_messages import OFFSET_BITS, OFFSET_MASK, KbError, SubmittedCommand


class GridLook(ProgramLook):
    """A look with how far records, commands and programs had come. `cuts` are those of the PEs' register files."""

    def __init__(self, now_ps: int, so_far: Numbers, first: Numbers) -> None:
        super().__init__(now_ps, so_far, first)
        self.mark: LogMark | None = None
        self.n_commands = self.n_issues = 0
        self.running: Sequence[int] = ()
        self.cuts: dict[str, Any] = {}

    def note_records(self, mark: LogMark, n_commands: int) -> None:
        """So far the recorder has come, and so many commands has it."""
        self.mark, self.n_commands = mark, n_commands

    def note_programs(self, n_issues: int, running: Sequence[int], cuts: dict[str, Any]) -> None:
        """The programs *running* run, and all that have a template have issued so many commands."""
        self.n_issues, self.running, self.cuts = n_issues, running, cuts


class _Source(NamedTuple):
    """A command of a period, as those of later periods are made of it.

    Program `program` issued it as number `number` of all, when `run` was at `submission`, and had `told` the memory
    something. The program is `given` addresses. It is `command`, if that is known, and `example` is done: it is the
    same, or that of the period before. `turns` are by how many slots its registers lie further a period later.
    """

    number: int
    program: int
    run: Repetition
    given: Sequence[int]
    told: Sequence[Told]
    submission: Submission
    pe: ProcessingElement
    command: CommandInFlight | None
    example: CommandInFlight | None
    turns: tuple[int, int] | None


class _OtherPlan(Exception):
    """A command of the period that is the argument has another plan than that of the first period."""


class Period:
    """What happened from the look *before* to the look *after*, which are at equal states."""

    def __init__(
        self,
        launch: GridLaunch | LoopLaunch,
        session: Session,
        templates: Templates | LoopTemplates,
        pe: Callable[[str], ProcessingElement],
        before: GridLook,
        after: GridLook,
    ) -> None:
        self.before, self.after = before, after
        self.ps = after.now_ps - before.now_ps
        self.by = Numbers(*[now - then for then, now in zip(before.so_far, after.so_far, strict=True)])
        self._launch = launch
        self._templates = templates
        self._played = played = templates.watch()
        self._pe = pe
        self._taken = launch.taken[before.so_far.programs : after.so_far.programs]
        self._issues = played.issues[before.n_issues : after.n_issues]
        recorder = session.recorder
        known = after.in_flight if recorder is None else recorder.commands
        self._commands = {each.submitted.command_seq: each for each in known}
        self._numbers: dict[int, list[list[int]]] = {}
        self.loaded: dict[int, dict[int, Loaded]] = {}

    @cached_property
    def _sources(self) -> Sequence[_Source]:
        first = self.before.so_far.commands
        return [self._source(first + at, *issue) for at, issue in enumerate(self._issues)]

    @property
    def lowest(self) -> int:
        """The lowest number of a program that ran."""
        return min((*self.before.running, *self._taken))

    @property
    def is_whole(self) -> bool:
        """Whether all that ran at the begin has ended, and each command can be repeated from a template."""
        if not all(self._launch.run_of(number).end_ps >= 0 for number in self.before.running):
            return False
        if not self.by.programs or len(self._issues) != self.by.commands:
            return False
        return all(source.turns is not None for source in self._sources)

    def n_with_equal_conflicts(self, n: int) -> int:
        """For how many of the next *n* periods commands meet the bytes of others on their PE as in this one."""
        runs = [self._launch.run_of(number) for number in (*self.before.running, *self._taken)]
        return periods_with_equal_conflicts(runs, self._templates.places_used, self.by.programs, n)

    def tell(self, n: int) -> int:
        """Tell the memory what the programs of the next *n* periods tell it. Returns how many periods of that go well.

        Where something does not, the program that repeats it says so. `loaded` has what programs have loaded then.
        """
        if not n:
            return 0
        told = [(each, step, self._numbers_of(each.program, n)) for each in self._sources for step in each.told]
        in_tcm = [_is_in_tcm(source, step) for source, step, _ in told]
        others = [
            each
            for each, is_in_tcm in zip(told, in_tcm, strict=True)
            if not is_in_tcm and not self._finds_bytes(each[0], each[1], n)
        ]
        well = self._tell_in_order(others, n)
        if well:  # each period marks the same bytes of TCM, of which nobody loads
            for (source, step, numbers), is_in_tcm in zip(told, in_tcm, strict=True):
                if is_in_tcm:
                    step.repeat(_repeated(source, numbers[well]))
        return well

    def _tell_in_order(self, told: Sequence[tuple[_Source, Told, list[list[int]]]], n: int) -> int:
        """Repeat the steps *told*, with the numbers of their programs in each period. Returns how many go well."""
        runs = self._played.runs
        self.loaded = {number: runs[number][1].loaded for number in self.after.running if number in runs}
        keeps = any(self.loaded.values()) or any(isinstance(step, Put) for _, step, _ in told)
        for i in range(1, n + 1) if keeps or told else ():
            loaded = {number: dict(each) for number, each in self.loaded.items()} if keeps else {}
            try:
                for source, step, numbers in told:
                    number = source.program + i * self.by.programs
                    step.repeat(_repeated(source, numbers[i], self._loaded_by(number, loaded) if keeps else None))
            except KbError:
                return i - 1
            if keeps:
                running = [number + i * self.by.programs for number in self.after.running]
                self.loaded = {number: self._loaded_by(number, loaded) for number in running}
        return n

    def _loaded_by(self, number: int, loaded: dict[int, dict[int, Loaded]]) -> dict[int, Loaded]:
        """What of *loaded*, by program, is that of program *number*, which may be about to begin."""
        if number not in loaded:
            loaded[number] = self._templates.loaded_before(number, loaded)
        return loaded[number]

    def _finds_bytes(self, source: _Source, step: Told, n: int) -> bool:
        """Whether *step* looks for loads of *source* that lie, in the next *n* periods, between bytes that are or were
        all known, and whose elements nobody stores.

        Then each of them finds its bytes, known or pending.
        """
        if not isinstance(step, LoadLook) or step.kept is not None:
            return False
        numbers = np.array(self._numbers_of(source.program, n)[1 : n + 1], dtype=np.int64)
        columns = cast(Sequence[int], list(numbers.T))  # matrices are made for all periods at once
        store = source.run.port.memory.store
        for make in step.matrices:
            rectangle = make(columns, source.given).rectangle
            lowest, highest = int(np.min(rectangle.base)), int(np.max(rectangle.base))
            owner, offset = lowest >> OFFSET_BITS, lowest & OFFSET_MASK
            nbytes = highest - lowest + (rectangle.rows - 1) * rectangle.stride + rectangle.row_nbytes
            try:
                is_whole = store.place(owner, offset, 1, nbytes, nbytes) is not None
            except KbError:  # not all of that is in the memory
                return False
            if not is_whole or highest >> OFFSET_BITS != owner:
                return False
        return True

    def commands(self, n: int) -> tuple[int, Mapping[CommandInFlight, Issued], Sequence[CommandInFlight]]:
        """The commands from the begin of the period to the end of the *n*-th after it, in the order of their numbers.

        In front stands *n*, or the lower number of periods whose plans are those of this one, and what is in flight
        then, by the commands that are in flight now. For no period, there is nothing else.
        """
        if n <= 0:
            return 0, {}, ()
        try:
            return n, *self._commands_of(n)
        except _OtherPlan as error:
            return self.commands(error.args[0] - 1)

    def _commands_of(self, n: int) -> tuple[Mapping[CommandInFlight, Issued], Sequence[CommandInFlight]]:
        found: list[CommandInFlight] = []
        in_flight: dict[CommandInFlight, Issued] = {}
        sources = [(each, self._numbers_of(each.program, n)) for each in self._sources]
        for i in range(n + 1):
            for source, numbers in sources:
                command, example = source.command, source.example
                if command is None or (i == 0 and command is example):
                    found += () if command is None else (command,)
                    continue
                issued = self._issued(source, numbers[i], i)
                if example is not None and (i < n or command is example):
                    found.append(self._again(example, source.turns, issued, i if command is example else i + 1))
                elif i == n:
                    in_flight[command] = issued
                    found.append(command)
        return in_flight, found

    def ran(self, n: int) -> Sequence[ProgramRun]:
        """The programs of the next *n* periods, those of this one that are not done among them, as they were taken."""
        found: list[ProgramRun] = []
        for i in range(n + 1):
            for number in self._taken:
                run = self._launch.run_of(number)
                if i == 0 and run.end_ps >= 0:
                    continue
                end_ps = run.end_ps + i * self.ps
                if run.end_ps < 0:
                    earlier = self._launch.run_of(number - self.by.programs)
                    end_ps = earlier.end_ps + (i + 1) * self.ps if i < n else -1
                later = number + i * self.by.programs
                found.append(ProgramRun(later, run.pe_id, run.start_ps + i * self.ps, end_ps))
        return found

    def _source(self, number: int, program: int, which: int) -> _Source:
        """What the command numbered *number*, which *program* issued as its command *which*, is repeated from."""
        command = example = self._commands.get(number)
        if command is not None and command.remaining:
            example = self._commands.get(number - self.by.commands)
        has_ended = self._launch.run_of(program).end_ps >= 0
        template, run = self._played.runs[program]
        given = self._played.runs[program if has_ended else program - self.by.programs][1].given
        issue = template.issues[which]
        turns = (0, 0) if example is None else self._turns(example)
        pe = self._pe(run.port.pe_id)
        return _Source(number, program, run, given, issue.told, issue.submission, pe, command, example, turns)

    def _turns(self, command: CommandInFlight) -> tuple[int, int] | None:
        """By how many slots what *command* has of the register file lies further a period later; None if not by any."""
        placement, pe_id = command.placement, command.submitted.pe
        turns = []
        for which, slots in enumerate((placement.registers, placement.accumulators)):
            (then, _), (now, _) = self.before.cuts[pe_id][which], self.after.cuts[pe_id][which]
            turn = 0 if slots is None else (now.first - then.first) % now.count
            if turn and not _is_cut_alike(slots, now):
                return None
            turns.append(turn)
        return turns[0], turns[1]

    def _issued(self, source: _Source, numbers: Sequence[int], i: int) -> Issued:
        """What a program of *numbers* issues *i* periods later than *source*.

        Raises _OtherPlan where it is another kind of command.
        """
        submitted = SubmittedCommand(
            command_seq=source.number + i * self.by.commands,
            pe=source.pe.pe_id,
            line=source.submission.line,
            command=source.submission.command(numbers, source.given),
        )
        plan, addresses = source.pe.scheduler.shared_plan(submitted)
        if source.command is not None and plan is not source.command.shared_plan:
            raise _OtherPlan(i)
        return submitted, addresses

    def _again(
        self, command: CommandInFlight, turns: tuple[int, int] | None, issued: Issued, i: int
    ) -> CommandInFlight:
        """*command* as it is *i* periods later."""
        assert turns is not None
        by = i * self.ps, i * self.by.ops, i * self.by.commands
        return command.again(issued, by, (i * turns[0], i * turns[1]))

    def _numbers_of(self, program: int, n: int) -> list[list[int]]:
        """The numbers of *program* and of those that do what it did in each of the next *n* periods."""
        found = self._numbers.get(program, [])
        if len(found) <= n:
            by = self.by.programs
            found = self._numbers[program] = self._templates.numbers_of(range(program, program + n * by + 1, by))
        return found


def _repeated(source: _Source, numbers: list[int], loaded: dict[int, Loaded] | None = None) -> Repetition:
    """A program that does what that of *source* did, has *numbers*, and has *loaded* that much."""
    run = Repetition(source.run.port, numbers, loaded=loaded)
    run.given += source.given
    return run


def _is_in_tcm(source: _Source, step: Told) -> bool:
    """Whether *step* marks bytes of TCM that a program was given, and so the same in each period."""
    if not isinstance(step, PendingMark):
        return False
    try:
        address = step.matrix((), source.given).address
    except IndexError:
        return False
    return address >> OFFSET_BITS == source.pe.tcm.base >> OFFSET_BITS


def _is_cut_alike(slots: Slots | None, last: Slots) -> bool:
    return slots is None or (slots.base, slots.nbytes, slots.count) == (last.base, last.nbytes, last.count)
