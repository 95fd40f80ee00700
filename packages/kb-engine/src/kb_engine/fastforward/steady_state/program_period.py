"""Period: the programs between two equal states of a simulation, and what those leave behind that repeat them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kb_dataexec.log.compressed import CommandPeriods, CommandShift, LogMark, RepeatedCommand
from kb_engine.block.buffers import Slots
from kb_engine.block.in_flight import CommandInFlight, Issued
from kb_engine.fastforward.replay import (
    Loaded,
    LoadLook,
    MemoryStep,
    PendingMark,
    Repetition,
    Submission,
    Templates,
)
from kb_engine.fastforward.replay.placeholders import Build
from kb_engine.fastforward.steady_state.period_conflicts import periods_with_equal_conflicts
from kb_engine.fastforward.steady_state.program_snapshot import Numbers, ProgramSnapshot
from kb_engine.fastforward.steady_state.repeated_commands import IssuedAgain
from kb_engine.launch.grid_launch import GridLaunch, ProgramRun
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.pe_port import PePort
from kb_engine.program.session import Session
from kb_messages import OFFSET_BITS, KbError, Matrix, Rectangle


class PeriodStep(NamedTuple):
    """A step of program number `program` of a period, at `port`. The program was `given` addresses.

    `numbers` are those of the program, and of the one that does the same in each period that follows.
    """

    program: int
    step: MemoryStep
    given: Sequence[int]
    port: PePort
    numbers: Sequence[list[int]]

    def repeated(self, i: int, loaded: dict[int, Loaded] | None = None) -> Repetition:
        """The program that does the same *i* periods later, and has *loaded* that much."""
        run = Repetition(self.port, self.numbers[i], loaded=loaded)
        run.given += self.given
        return run


Again: TypeAlias = CommandInFlight | CommandPeriods
"""A command, or those of some periods."""


class GridSnapshot(ProgramSnapshot):
    """A look with how far records, commands and programs had come. `cuts` are those of the PEs' register files."""

    def __init__(self, now_ps: int, so_far: Numbers, first: Numbers) -> None:
        super().__init__(now_ps, so_far, first)
        self.mark: LogMark | None = None
        self.n_commands = self.n_issues = self.n_kept = 0
        self.running: Sequence[int] = ()
        self.going_on: Sequence[int] = ()
        self.cuts: dict[str, Any] = {}

    def note_records(self, mark: LogMark, n_commands: int) -> None:
        """So far the recorder has come, and so many commands has it."""
        self.mark, self.n_commands = mark, n_commands

    def note_kept(self, n_kept: int) -> None:
        """So many commands are kept without a log."""
        self.n_kept = n_kept

    def note_programs(
        self, n_issues: int, running: Sequence[int], going_on: Sequence[int], cuts: dict[str, Any]
    ) -> None:
        """The programs *running* run, of which *going_on* may call again. All with a template issued *n_issues*."""
        self.n_issues, self.running, self.going_on, self.cuts = n_issues, running, going_on, cuts


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
    told: Sequence[MemoryStep]
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
        self._played = played = templates.watch()
        self._pe = pe
        self._taken = launch.taken[before.so_far.programs : after.so_far.programs]
        self._issues = played.issues[before.n_issues : after.n_issues]
        recorder = session.recorder
        known = after.in_flight if recorder is None else recorder.rows.commands
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
        runs, told, in_tcm = self._played.runs, list[PeriodStep](), list[PeriodStep]()
        self.loaded = {number: runs[number][1].loaded for number in self.after.going_on if number in runs}
        for source in self._sources:
            port, numbers = source.run.port, self._numbers_of(source.program, n)
            for step in source.told:
                each = PeriodStep(source.program, step, source.given, port, numbers)
                if _is_in_tcm(source, step):
                    in_tcm.append(each)
                elif not _finds_bytes(each, n):
                    told.append(each)
        well = self._tell_in_order(told, n)
        for each in in_tcm if well else ():  # each period marks the same bytes of TCM, of which nobody loads
            each.step.repeat(each.repeated(well))
        return well

    def _tell_in_order(self, told: Sequence[PeriodStep], n: int) -> int:
        """Repeat the steps *told*, with the numbers of their programs in each period. Returns how many go well."""
        for i in range(1, n + 1):
            loaded = {number: dict(each) for number, each in self.loaded.items()}
            try:
                for each in told:
                    number = each.program + i * self.by.programs
                    each.step.repeat(each.repeated(i, self._loaded_by(number, loaded)))
            except KbError:
                return i - 1
            later = [number + i * self.by.programs for number in self.after.going_on]
            self.loaded = {number: self._loaded_by(number, loaded) for number in later}
        return n

    def _loaded_by(self, number: int, loaded: dict[int, dict[int, Loaded]]) -> dict[int, Loaded]:
        """What of *loaded*, by program, is that of program *number*, which may be about to begin."""
        return loaded.setdefault(number, {})

    def commands(
        self, n: int, tells_each: bool = False
    ) -> tuple[int, Mapping[CommandInFlight, Issued], Sequence[Again]]:
        """The commands from the begin of the period to the end of the *n*-th after it, in the order of their numbers.

        In front stands *n*, or the lower number of periods whose plans are those of this one, and what is in flight
        then, by the commands that are in flight now. For no period, there is nothing else. The commands between those
        of the first period and of the last one are CommandPeriods, or each is one where somebody *tells_each* of
        each.
        """
        if n <= 0:
            return 0, {}, ()
        try:
            return n, *self._commands_of(n, tells_each)
        except _OtherPlan as error:
            return self.commands(error.args[0] - 1, tells_each)

    def _commands_of(self, n: int, tells_each: bool) -> tuple[Mapping[CommandInFlight, Issued], Sequence[Again]]:
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
            if tells_each:
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
        """The programs of the next *n* periods, those of this one that are not done among them, as they were taken."""
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

    def _issued(self, source: _Source, first: int, n: int) -> IssuedAgain:
        """What a program that does as that of *source* did issues *first* to *n* periods later.

        Raises _OtherPlan where it is another kind of command.
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
        """*like*, which is a command of *source*, as it is *by* periods later, and so on, *issued* like that."""
        assert source.turns is not None
        operands, sums = source.turns
        shift = self.ps, self.by.ops, self.by.commands
        return like.again(issued, (by * shift[0], by * shift[1], by * shift[2]), (by * operands, by * sums))

    def _repeated(self, source: _Source, like: CommandInFlight, issued: IssuedAgain, n: int) -> RepeatedCommand:
        """*like*, which is the command of *source* in the first period, and what repeats it before period *n*."""
        assert source.turns is not None
        operands, sums = source.turns
        has_turned = operands or sums
        places = [like.placement.turned(i * operands, i * sums) for i in range(1, n)] if has_turned else None
        return RepeatedCommand(like, issued.columns(range(1, n), like.shared_plan), places)

    def _columns_of(self, program: int, n: int) -> Sequence[Any]:
        """As `_numbers_of`, an array of all periods for each number."""
        found = self._columns.get((program, n))
        if found is None:
            found = list(np.array(self._numbers_of(program, n)[: n + 1], dtype=np.int64).T)
            self._columns[program, n] = found
        return found

    def _numbers_of(self, program: int, n: int) -> list[list[int]]:
        """The numbers of *program* and of those that do what it did in each of the next *n* periods."""
        found = self._numbers.get(program, [])
        if len(found) <= n:
            by = self.by.programs
            found = self._numbers[program] = self._templates.numbers_of(range(program, program + n * by + 1, by))
        return found


def _finds_bytes(told: PeriodStep, n: int) -> bool:
    """Whether a step looks for loads that lie, in the next *n* periods, between bytes that are or were all known, and
    whose elements nobody stores.

    Then each of them finds its bytes, known or pending.
    """
    if not isinstance(told.step, LoadLook) or told.step.kept is not None:
        return False
    return all(_are_all_known(told, make, n) for make in told.step.matrices)


def _are_all_known(told: PeriodStep, make: Build, n: int) -> bool:
    """Whether the bytes of a matrix in each of the next *n* periods, and all between them, are known in one memory."""
    first: Matrix = make(told.numbers[1], told.given)
    columns = list(np.array(told.numbers[1 : n + 1], dtype=np.int64).T)  # matrices of all periods at once
    address: Any = make(columns, told.given).address
    bases = np.broadcast_to(np.asarray(address, dtype=np.int64), n)
    low, high, shape = int(bases.min()), int(bases.max()), first.rectangle
    if low >> OFFSET_BITS != high >> OFFSET_BITS or bool((bases % first.dtype.nbytes).any()):
        return False
    nbytes = high - low + shape.end - shape.base
    try:
        return told.port.memory.store.place(*Rectangle(low, 1, nbytes, nbytes).in_memory) is not None
    except KbError:  # not all of that is in the memory
        return False


def _is_in_tcm(source: _Source, step: MemoryStep) -> bool:
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
