"""Period: the programs between two equal states of a simulation, and the commands of their repetitions.

Design: docs/design/steady-state.md
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kb_dataexec.log.compressed import CommandPeriods, CommandShift, RepeatedCommand
from kb_engine.block.buffers import Slots
from kb_engine.block.in_flight import CommandInFlight, Issued
from kb_engine.fastforward.replay import (
    LoadCheck,
    Loaded,
    MemoryStep,
    PendingMark,
    Repetition,
    Submission,
    Templates,
)
from kb_engine.fastforward.replay.placeholders import Build
from kb_engine.fastforward.replay.places_used import periods_with_equal_conflicts
from kb_engine.fastforward.steady_state.program_snapshot import Numbers, ProgramSnapshot
from kb_engine.fastforward.steady_state.repeated_commands import IssuedAgain
from kb_engine.launch.grid_launch import GridLaunch, ProgramRun
from kb_engine.observe.recorder import LogMark
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.pe_port import PePort
from kb_engine.program.session import Session
from kb_messages import OFFSET_BITS, KbError, Matrix, Rectangle


class PeriodStep(NamedTuple):
    """A step of program number `program` of a period, at `port`. The program was `given` addresses.

    `numbers` has the numbers of the program, and of its repetition in each period that follows.
    """

    program: int
    step: MemoryStep
    given: Sequence[int]
    port: PePort
    numbers: Sequence[list[int]]

    def repeated(self, i: int, loaded: dict[int, Loaded] | None = None) -> Repetition:
        """Returns the repetition of the program *i* periods later, which has *loaded* the given values."""
        run = Repetition(self.port, self.numbers[i], loaded=loaded)
        run.given += self.given
        return run


Again: TypeAlias = CommandInFlight | CommandPeriods
"""A command, or the commands of several periods."""


class GridSnapshot(ProgramSnapshot):
    """A snapshot with the counts of records, commands and programs, and the `cuts` of the PEs' register files."""

    def __init__(self, now_ps: int, so_far: Numbers, first: Numbers) -> None:
        super().__init__(now_ps, so_far, first)
        self.mark: LogMark | None = None
        self.n_issues = self.n_commands = 0
        self.running: Sequence[int] = ()
        self.cuts: dict[str, Any] = {}

    def note_commands(self, mark: LogMark | None, n_commands: int) -> None:
        """Notes the position of the recorder, and the number of commands that it or the session keeps."""
        self.mark, self.n_commands = mark, n_commands

    def note_programs(self, n_issues: int, running: Sequence[int], cuts: dict[str, Any]) -> None:
        """Notes the programs *running*, and the *n_issues* commands of all programs with a template."""
        self.n_issues, self.running, self.cuts = n_issues, running, cuts


class _Source(NamedTuple):
    """A command of a period, from which the commands of later periods are made.

    Program `program` issued it as number `number` of all commands, when `run` was at `submission`, after the memory
    steps `memory_steps`. The program is `given` addresses. `command` is the command itself, or None if the log has it
    already. `example` is the same command if it is done, or else the command of the period before. `turns` has the
    slots by which its registers move on in a period.
    """

    number: int
    program: int
    run: Repetition
    given: Sequence[int]
    memory_steps: Sequence[MemoryStep]
    submission: Submission
    pe: ProcessingElement
    command: CommandInFlight | None
    example: CommandInFlight | None
    turns: tuple[int, int] | None


class _OtherPlan(Exception):
    """A command has another plan than in the first period. The argument is the number of its period."""


class Period:
    """The simulated work from the snapshot *before* to the snapshot *after*, which have equal states."""

    def __init__(
        self,
        launch: GridLaunch,
        session: Session,
        templates: Templates,
        pe: Callable[[str], ProcessingElement],
        before: GridSnapshot,
        after: GridSnapshot,
    ) -> None:
        self.before, self.after = before, after
        self.ps = after.now_ps - before.now_ps
        self.by = Numbers(*[now - then for then, now in zip(before.so_far, after.so_far, strict=True)])
        self._launch = launch
        self._templates = templates
        self._replayed = replayed = templates.watch()
        self._pe = pe
        self._taken = launch.taken[before.so_far.programs : after.so_far.programs]
        self._issues = replayed.issues[before.n_issues : after.n_issues]
        recorder = session.recorder
        known = after.in_flight if recorder is None else recorder.commands
        self._commands = {each.submitted.command_seq: each for each in known}
        self._numbers: dict[int, list[list[int]]] = {}
        self._columns: dict[tuple[int, int], Sequence[Any]] = {}
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
        """Whether all programs that ran at the begin have ended, and each command can be repeated from a template."""
        if not all(self._launch.run_of(number).end_ps >= 0 for number in self.before.running):
            return False
        if not self.by.programs or len(self._issues) != self.by.commands:
            return False
        return all(source.turns is not None for source in self._sources)

    def n_with_equal_conflicts(self, n: int) -> int:
        """Returns for how many of the next *n* periods commands conflict with others on their PE as in this period."""
        runs = [self._launch.run_of(number) for number in (*self.before.running, *self._taken)]
        return periods_with_equal_conflicts(runs, self._templates.places_used, self.by.programs, n)

    def repeat_memory_steps(self, n: int) -> int:
        """Makes the memory steps of the programs of the next *n* periods. Returns the number of periods without an
        error.

        A program in a period with an error raises it when it is simulated. `loaded` has the loads of programs by then.
        """
        if not n:
            return 0
        runs, steps, in_tcm = self._replayed.runs, list[PeriodStep](), list[PeriodStep]()
        self.loaded = {number: runs[number][1].loaded for number in self.after.running if number in runs}
        for source in self._sources:
            port, numbers = source.run.port, self._numbers_of(source.program, n)
            for step in source.memory_steps:
                each = PeriodStep(source.program, step, source.given, port, numbers)
                if _is_in_tcm(source, step):
                    in_tcm.append(each)
                elif not _finds_bytes(each, n):
                    steps.append(each)
        well = self._repeat_in_order(steps, n)
        for each in in_tcm if well else ():  # each period marks the same bytes of TCM, so one mark stands for all
            each.step.repeat(each.repeated(well))
        return well

    def _repeat_in_order(self, steps: Sequence[PeriodStep], n: int) -> int:
        """Repeats the *steps* with the numbers of their programs in each period. Returns the periods without an
        error."""
        for i in range(1, n + 1):
            loaded = {number: dict(each) for number, each in self.loaded.items()}
            try:
                for each in steps:
                    number = each.program + i * self.by.programs
                    each.step.repeat(each.repeated(i, self._loaded_by(number, loaded)))
            except KbError:
                return i - 1
            later = [number + i * self.by.programs for number in self.after.running]
            self.loaded = {number: self._loaded_by(number, loaded) for number in later}
        return n

    def _loaded_by(self, number: int, loaded: dict[int, dict[int, Loaded]]) -> dict[int, Loaded]:
        """Returns the loads of program *number* in *loaded*, which are empty where the program is about to begin."""
        return loaded.setdefault(number, {})

    def commands(
        self, n: int, notes_each: bool = False
    ) -> tuple[int, Mapping[CommandInFlight, Issued], Sequence[Again]]:
        """Returns a number of periods, the commands in flight at their end, and all commands of these periods.

        The number is *n*, or less where later periods have other plans. Commands in flight then are keyed by the
        commands in flight now. All commands come in the order of their numbers, from the begin of this period. The
        commands between the first period and the last one are CommandPeriods, unless an observer *notes_each* of them.
        """
        if n <= 0:
            return 0, {}, ()
        try:
            return n, *self._commands_of(n, notes_each)
        except _OtherPlan as error:
            return self.commands(error.args[0] - 1, notes_each)

    def _commands_of(self, n: int, notes_each: bool) -> tuple[Mapping[CommandInFlight, Issued], Sequence[Again]]:
        in_flight: dict[CommandInFlight, Issued] = {}
        firsts, lasts = list[CommandInFlight](), list[CommandInFlight]()
        between, repeated = list[Sequence[CommandInFlight]](), list[RepeatedCommand]()
        for source in self._sources:
            command, first = source.command, source.example
            if command is None:
                continue
            issued = self._issued(source, int(command is first), n)
            if command is not first:
                in_flight[command] = issued.at(n)
                first = first and self._again(source, first, [issued.at(0)])[0]
            if first is None:
                lasts.append(command)
                continue
            firsts.append(first)
            if notes_each:
                between.append(self._again(source, first, [issued.at(i) for i in range(1, n)]))
            elif n > 1:
                repeated.append(self._repeated(source, first, issued, n))
            is_done = command not in in_flight
            lasts += self._again(source, first, [issued.at(n)], n) if is_done else [command]
        found: list[Again] = [*firsts, *chain.from_iterable(zip(*between, strict=True))]
        if repeated:
            found.append(CommandPeriods(repeated, n - 1, CommandShift(self.ps, self.by.ops, self.by.commands)))
        return in_flight, [*found, *lasts]

    def ran(self, n: int) -> Sequence[ProgramRun]:
        """Returns the programs of this period that are not done and of the next *n* periods, in the order of their
        begin."""
        ps, runs = self.ps, []
        for number in self._taken:
            run = self._launch.run_of(number)
            has_ended = run.end_ps >= 0
            end_ps = run.end_ps if has_ended else self._launch.run_of(number - self.by.programs).end_ps + ps
            runs.append((run, has_ended, end_ps))
        found: list[ProgramRun] = []
        for i in range(n + 1):
            by, by_ps = i * self.by.programs, i * ps
            for (number, pe_id, start_ps, _), has_ended, end_ps in runs:
                if i or not has_ended:
                    has_end = has_ended or i < n
                    found.append(ProgramRun(number + by, pe_id, start_ps + by_ps, end_ps + by_ps if has_end else -1))
        return found

    def _source(self, number: int, program: int, which: int) -> _Source:
        """Returns the source of command *number*, which *program* issued as its command *which*."""
        command = example = self._commands.get(number)
        if command is not None and command.remaining:
            example = self._commands.get(number - self.by.commands)
        has_ended = self._launch.run_of(program).end_ps >= 0
        template, run = self._replayed.runs[program]
        given = self._replayed.runs[program if has_ended else program - self.by.programs][1].given
        issue = template.issues[which]
        turns = (0, 0) if example is None else self._turns(example)
        pe = self._pe(run.port.pe_id)
        return _Source(number, program, run, given, issue.memory_steps, issue.submission, pe, command, example, turns)

    def _turns(self, command: CommandInFlight) -> tuple[int, int] | None:
        """Returns by how many slots the registers and accumulators of *command* move on in a period, or None."""
        placement, pe_id = command.placement, command.submitted.pe
        turns = []
        for which, slots in enumerate((placement.registers, placement.accumulators)):
            (then, _), (now, _) = self.before.cuts[pe_id][which], self.after.cuts[pe_id][which]
            turn = 0 if slots is None else (now.first - then.first) % now.count
            if turn and not _is_same_ring(slots, now):
                return None
            turns.append(turn)
        return turns[0], turns[1]

    def _issued(self, source: _Source, first: int, n: int) -> IssuedAgain:
        """Returns the commands that repetitions of *source* issue *first* to *n* periods later.

        Raises _OtherPlan where one of them has another plan.
        """
        assert source.command is not None
        submission, scheduler, plan = source.submission, source.pe.scheduler, source.command.shared_plan
        numbers, columns = self._numbers_of(source.program, n)[first : n + 1], self._columns_of(source.program, n)
        seq = source.number + first * self.by.commands
        issued = IssuedAgain(submission, source.pe.pe_id, source.given, numbers, first, seq, self.by.commands, ())
        together = submission.command([each[first:] for each in columns], source.given)
        found = scheduler.plan_of_all(issued.command(first), together)  # plans are looked up for all periods at once
        if found is not None and found[0] is plan:
            return issued._replace(addresses=found[1])
        addresses = []
        for i in range(first, n + 1):
            own, at = scheduler.shared_plan(issued.submitted(i))
            if own is not plan:
                raise _OtherPlan(i)
            addresses.append(at)
        return issued._replace(addresses=addresses, alone=True)

    def _again(
        self, source: _Source, like: CommandInFlight, issued: Sequence[Issued], by: int = 1
    ) -> list[CommandInFlight]:
        """Returns copies of *like*, a command of *source*, for each of *issued*, one every *by* periods."""
        assert source.turns is not None
        operands, sums = source.turns
        shift = self.ps, self.by.ops, self.by.commands
        return like.again(issued, (by * shift[0], by * shift[1], by * shift[2]), (by * operands, by * sums))

    def _repeated(self, source: _Source, like: CommandInFlight, issued: IssuedAgain, n: int) -> RepeatedCommand:
        """Returns *like*, the command of *source* in the first period, with its repetitions before period *n*."""
        assert source.turns is not None
        operands, sums = source.turns
        has_turned = operands or sums
        places = [like.placement.turned(i * operands, i * sums) for i in range(1, n)] if has_turned else None
        return RepeatedCommand(like, issued.columns(range(1, n), like.shared_plan), places)

    def _columns_of(self, program: int, n: int) -> Sequence[Any]:
        """Returns `_numbers_of` as one array of all periods for each number."""
        found = self._columns.get((program, n))
        if found is None:
            found = list(np.array(self._numbers_of(program, n)[: n + 1], dtype=np.int64).T)
            self._columns[program, n] = found
        return found

    def _numbers_of(self, program: int, n: int) -> list[list[int]]:
        """Returns the numbers of *program* and of its repetition in each of the next *n* periods."""
        found = self._numbers.get(program, [])
        if len(found) <= n:
            by = self.by.programs
            found = self._numbers[program] = self._templates.numbers_of(range(program, program + n * by + 1, by))
        return found


def _finds_bytes(step: PeriodStep, n: int) -> bool:
    """Whether a step checks loads of bytes that are all known in the next *n* periods, and that no program stores.

    Then each check succeeds.
    """
    if not isinstance(step.step, LoadCheck) or step.step.kept is not None:
        return False
    return all(_are_all_known(step, make, n) for make in step.step.matrices)


def _are_all_known(step: PeriodStep, make: Build, n: int) -> bool:
    """Whether the bytes of a matrix in each of the next *n* periods, and all bytes between, are known in one memory."""
    first: Matrix = make(step.numbers[1], step.given)
    columns = list(np.array(step.numbers[1 : n + 1], dtype=np.int64).T)  # matrices of all periods at once
    address: Any = make(columns, step.given).address
    bases = np.broadcast_to(np.asarray(address, dtype=np.int64), n)
    low, high, shape = int(bases.min()), int(bases.max()), first.rectangle
    if low >> OFFSET_BITS != high >> OFFSET_BITS or bool((bases % first.dtype.nbytes).any()):
        return False
    nbytes = high - low + shape.end - shape.base
    try:
        return step.port.memory.store.place(*Rectangle(low, 1, nbytes, nbytes).in_memory) is not None
    except KbError:  # not all of that is in the memory
        return False


def _is_in_tcm(source: _Source, step: MemoryStep) -> bool:
    """Whether *step* marks bytes of TCM that a program was given. They are the same bytes in each period."""
    if not isinstance(step, PendingMark):
        return False
    try:
        address = step.matrix((), source.given).address
    except IndexError:
        return False
    return address >> OFFSET_BITS == source.pe.tcm.base >> OFFSET_BITS


def _is_same_ring(slots: Slots | None, last: Slots) -> bool:
    return slots is None or (slots.base, slots.nbytes, slots.count) == (last.base, last.nbytes, last.count)
