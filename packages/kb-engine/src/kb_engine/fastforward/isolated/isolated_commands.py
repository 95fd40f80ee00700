"""IsolatedCommands: runs commands apart that nothing can meet, keeps what came of them, and opens those that are met.

A command is closed if its PE is idle otherwise, its program waits for it, and nothing is on its way to its memories and
on its links. It runs at once on a heap of its own (`private_run`). What came of it is kept by a key: the form of its
plan, of its PE and of the ways to its memories. A command with the same key takes that outcome and simulates nothing.
Everything that a command leaves behind is applied at once; only its end is an entry of the clock.

**Opening.** A request to a memory or a link of a closed command may come before the command has ended. Then the outcome
is undone, and the command runs again up to this very entry of the clock; its entries that are left join the others.
Nobody has looked at its memories and links in between, and entries of two PEs have an order that follows from the chip
(ADR 0078), so everything is as if the command had never been closed. From then on no command is closed that goes to
the place where they met, up to the next launch, because they would meet again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

from simpy.events import NORMAL

from kb_engine.block.in_flight import CommandInFlight
from kb_engine.block.pe_roles import IsolableWork
from kb_engine.fastforward.isolated.footprint import Footprint
from kb_engine.fastforward.isolated.isolated_result import IsolatedResult
from kb_engine.fastforward.isolated.pe_forms import PlanForm, form_of, why_out_of_reach
from kb_engine.fastforward.isolated.result_cache import ResultCache, ResultsOfKey
from kb_engine.observe.chip import Chip
from kb_engine.observe.recorder import Recorder
from kb_engine.observe.slow_path import COMMANDS, SkipRefusal, SlowPathReasons
from kb_engine.timing.clock import Clock
from kb_messages import PipelinePlan

Look = Callable[[list[Any]], None]
"""Called with the heap of a private run between two of its entries."""


def run_apart(clock: Clock, begin: Callable[[], None], look: Look | None = None) -> int:
    """Call *begin* now, and run all that follows from it, apart from the other entries of *clock*.

    Returns how many picoseconds after now the last entry ran.
    """
    began_ps = clock.now_ps
    with clock.apart() as heap:
        begin()
        if look is None:
            clock.run_out()
            return clock.now_ps - began_ps
        while heap:
            clock.run_next()
            look(heap)
        return clock.now_ps - began_ps


LEAST_ISOLATED_STAGES: Final = 256
"""Stages of a command that is worth closing. Source: assumed; a key and a footprint cost as much as some 50 stages."""
_MOST_PLANS: Final = 1 << 10
VIRTUAL: Final = SkipRefusal("the command has virtual addresses", "pass tensors that are not mapped")
NOT_ALONE: Final = SkipRefusal(
    "its program issues commands while another one is under way",
    "`tl.wait` for each command before the next one; such a kernel takes other times",
)
FIRST: Final = SkipRefusal(
    "it is the first of its kind on the one PE of the launch: one is simulated, so that others are known",
    "nothing: later commands of the kind are closed",
)
_SHARED: Final = SkipRefusal(
    "another program, or an earlier write, uses a memory or a link of the command at the same time",
    "place what each PE loads and stores in the memory near it",
)


class Shape:
    """What is known of commands of one plan on one PE: where they go, and what came of those with their key."""

    def __init__(self, footprint: Footprint, known: ResultsOfKey) -> None:
        self.footprint = footprint
        self.known = known


class IsolatedCommand:
    """A command that is closed: its work, since when, what came of it, and what it takes to undo that.

    The outcome is applied when this is made.
    """

    def __init__(
        self,
        work: IsolableWork,
        begin_ps: int,
        shape: Shape,
        outcome: IsolatedResult,
        end: Any,
        event_order: Iterator[int],
    ) -> None:
        self.work = work
        self.begin_ps = begin_ps
        self.footprint = shape.footprint
        self.outcome = outcome
        self.cuts: Any = work.cuts()
        work.place()
        work.command.isolate(outcome.moved, begin_ps)
        self.before = shape.footprint.free_ps(outcome)
        shape.footprint.apply(outcome, begin_ps)
        self._end = end
        self._at = begin_ps + outcome.duration_ps, NORMAL, next(event_order)

    @property
    def entry(self) -> Any:
        """That of its end. It is not kept, because it refers to this object."""
        return *self._at, self._end, self

    @property
    def memories(self) -> list[str]:
        """The ids of its memories."""
        return self.footprint.memories


class IsolatedCommands:
    """The closed commands of a chip. *recorder* has the op log, if there is one. *reasons* takes why others were open.

    `n_run` counts the commands that ran apart, `n_taken` those that took a known outcome, `n_opened` those that were
    met, and `n_isolated` those that were closed and not met. `known` has the outcomes. With *checks*, a share of those
    that would take a known outcome is run, too, and both are compared; `n_checked` counts them. Within the block of
    *event_by_event*, nothing skips a part of a run.
    """

    def __init__(
        self,
        chip: Chip,
        recorder: Recorder | None,
        event_by_event: Callable[[], AbstractContextManager[None]],
        reasons: SlowPathReasons,
    ) -> None:
        self._clock = chip.clock
        self._event_by_event = event_by_event
        self._recorder = recorder
        self._reasons = reasons
        self._forms: dict[Hashable, int] = {}
        self._plans: dict[int, tuple[PipelinePlan, PlanForm | SkipRefusal]] = {}
        self.known = ResultCache()
        self._closed: dict[object, IsolatedCommand] = {}
        self._met: set[object] = set()
        self._is_apart = False
        self._ran_ps = 0
        self._has_peers = True
        self.n_run = self.n_taken = self.n_opened = self.n_isolated = 0
        chip.fabric.watch(self._closed.keys(), self._meet)

    def begin_launch(self, n_pes: int) -> None:
        """A launch on *n_pes* PEs begins: its commands need not meet where those of earlier ones did."""
        self._met.clear()
        self._has_peers = n_pes > 1

    def open_all(self) -> None:
        """Open all closed commands, because somebody looks at what is not over yet, or an error ended all."""
        for closed in dict.fromkeys(self._closed.values()):
            self._open(closed)

    def number_of(self, form: Hashable) -> int:
        """A number for *form*, which is a quicker part of a key."""
        return self._forms.setdefault(form, len(self._forms))

    def form_of_plan(self, plan: PipelinePlan) -> PlanForm | SkipRefusal:
        """The form of *plan*, the origin of others, or why times of commands need not follow from it."""
        known = self._plans.get(id(plan))
        if known is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            why = why_out_of_reach(plan)
            form = why or PlanForm(plan, self.number_of(form_of(plan)))
            known = self._plans[id(plan)] = plan, form
        return known[1]

    def is_worth(self, plan: PipelinePlan) -> bool:
        """Whether a command of *plan* is worth closing."""
        return plan.n_stages >= LEAST_ISOLATED_STAGES

    def wants(self, command: CommandInFlight) -> bool:
        """Whether nothing can meet *command* on its PE, and it is worth closing."""
        if self._is_apart or not self.is_worth(command.shared_plan):
            return False
        if command.mapped:
            self.takes_slow_path(command, VIRTUAL)
            return False
        if not command.is_awaited:
            self.takes_slow_path(command, NOT_ALONE)
            return False
        return True

    def missed(self, command: CommandInFlight) -> None:
        """*command* is not alone on its PE."""
        if not self._is_apart and self.is_worth(command.shared_plan):
            self.takes_slow_path(command, NOT_ALONE)

    def takes_slow_path(self, command: CommandInFlight, why: SkipRefusal) -> None:
        """*command*, which is worth closing, is simulated event by event because of *why*."""
        self._reasons.note(COMMANDS, "", why._replace(line=command.submitted.line), 1)

    def isolate(self, work: IsolableWork, shape: Shape, event_order: Iterator[int]) -> bool:
        """Close *work* now, unless its places are in use. Its end takes one of the *event_order* of its PE."""
        footprint, now_ps = shape.footprint, self._clock.now_ps
        places = footprint.places
        is_free = self._met.isdisjoint(places) and self._closed.keys().isdisjoint(places)
        if not (is_free and footprint.is_idle(now_ps)):
            self.takes_slow_path(work.command, _SHARED)
            return False
        if not (shape.known.see() or self._has_peers):  # it may be the only one
            self.takes_slow_path(work.command, FIRST)
            self._reasons.first()
            return False
        outcome = self._outcome_for(shape, work)
        if outcome is None:
            outcome = self._find_out(shape, work)
            if outcome is None:
                self._leave_stuck(event_order)
                return True
            self.known.keep(shape.known, outcome)
            self.n_run += 1
        else:
            self.n_taken += 1
            self.known.use(shape.known)
        closed = IsolatedCommand(work, now_ps, shape, outcome, self._end, event_order)
        if self._recorder is not None and outcome.rows is not None:
            span_ps = now_ps, now_ps + outcome.duration_ps
            self._recorder.rows.expect(work.command.first_op, outcome.rows, span_ps, closed.memories)
        self.n_isolated += 1
        self._clock.push(closed.entry)
        self._closed.update(dict.fromkeys(places, closed))
        return True

    def _outcome_for(self, shape: Shape, work: IsolableWork) -> IsolatedResult | None:
        """An outcome that *work* would have, too. Where pieces lie in no slot depends on which slots are first."""
        firsts: tuple[int, ...] | None = None
        for outcome in shape.known.outcomes:
            if not shape.footprint.fits(outcome):
                continue
            if outcome.moved and firsts is None:
                cuts = work.cuts()
                work.place()
                firsts = work.command.placement.firsts
                work.put_back(cuts)
            if not outcome.moved or firsts == outcome.firsts:
                return outcome
        return None

    def _find_out(self, shape: Shape, work: IsolableWork) -> IsolatedResult | None:
        """Run *work* apart, and leave everything as it was before. None if *work* never ends."""
        footprint, command, recorder, now_ps = shape.footprint, work.command, self._recorder, self._clock.now_ps
        state, cuts = footprint.state(), work.cuts()
        mark = recorder.rows.mark() if recorder is not None else None
        ends_ps: list[int] = []
        self._is_apart = True
        try:
            with command.apart(lambda _: ends_ps.append(self._clock.now_ps)):
                self._ran_ps = run_apart(self._clock, work.begin)
        finally:
            self._is_apart = False
        if not ends_ps:
            return None
        rows = None
        if recorder is not None and mark is not None:
            rows = recorder.rows.cut(mark, command.first_op, now_ps, [path.dst for path in footprint.paths])
        changes = footprint.changes(state, now_ps)
        moved = {place: dict(pieces) for place, pieces in command.placement.moved.items()}
        outcome = IsolatedResult(ends_ps[0] - now_ps, *changes, moved, command.placement.firsts, rows)
        footprint.put_back(state)
        work.put_back(cuts)
        return outcome

    def _leave_stuck(self, event_order: Iterator[int]) -> None:
        """The command that ran last, apart, never ends: the clock has to come to where the command got stuck."""
        self._clock.push((self._clock.now_ps + self._ran_ps, NORMAL, next(event_order), _do_nothing, None))

    def _end(self, closed: IsolatedCommand) -> None:
        self._forget(closed)
        closed.work.end()

    def _forget(self, closed: IsolatedCommand) -> None:
        for place in closed.footprint.places:
            del self._closed[place]

    def _meet(self, places: frozenset[object]) -> None:
        """A transfer that goes to *places* begins now."""
        for place in places:
            closed = self._closed.get(place)
            if closed is not None:
                self._met.add(place)
                self._open(closed)

    def _open(self, closed: IsolatedCommand) -> None:
        """Have *closed* be as if it had never been closed, up to the entry that the clock is at."""
        clock, work, until, recorder = self._clock, closed.work, self._clock.current, self._recorder
        self._forget(closed)
        clock.cancel(closed.entry)
        closed.footprint.undo(closed.outcome, closed.before)
        mark = None
        if recorder is not None:
            recorder.rows.withdraw(work.command.first_op)
            mark = recorder.rows.mark()
        work.put_back(closed.cuts)
        with clock.apart() as heap, self._event_by_event():
            clock.turn_back(closed.begin_ps)
            work.begin()
            while heap and heap[0][:3] < until:
                clock.run_next()
        for entry in sorted(heap):
            clock.push(entry)
        if recorder is not None and mark is not None:
            recorder.rows.drop_written(mark)
        self.n_opened += 1
        self.n_isolated -= 1
        self.takes_slow_path(work.command, _SHARED)


def _do_nothing(_: Any) -> None:
    """An entry of the clock that only takes time."""
