"""IsolatedCommands: runs commands that nothing can meet apart from all others, and reuses their results.

Design: docs/design/isolated-commands.md

A command is isolated if its PE is idle otherwise, its program waits for it, and no transfer is in flight to its
memories and on its links. It runs at once on a heap of its own (`run_apart`). A cache keeps its result by a key: the
form of its plan, of its PE and of the paths to its memories. A command with the same key takes the cached result and
simulates nothing. The result is applied as a whole; only the end of the command is an entry of the clock.

**Undoing.** A request to a memory or a link of an isolated command may begin before the command has ended. Then the
result is undone, and the command runs again up to the current entry of the clock; its remaining entries join the
others. Nothing has read its memories and links in between, and entries of two PEs have an order that follows from the
chip, so the simulation is as if the command had never been isolated. Until the next launch, no command is isolated that
uses the place where the two met, because they would meet again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

from simpy.events import NORMAL

from kb_engine.block.in_flight import CommandInFlight
from kb_engine.block.pe_roles import IsolableWork
from kb_engine.fastforward.isolated.footprint import Footprint
from kb_engine.fastforward.isolated.pe_forms import PlanForm, form_of, why_out_of_reach
from kb_engine.fastforward.isolated.result_cache import CachedResults, IsolatedResult, ResultCache
from kb_engine.fastforward.refusals import VIRTUAL
from kb_engine.observe.chip import Chip
from kb_engine.observe.recorder import Recorder
from kb_engine.observe.slow_path import COMMANDS, SkipRefusal, SlowPathReasons
from kb_engine.timing.clock import Clock
from kb_messages import PipelinePlan


def run_apart(clock: Clock, begin: Callable[[], None]) -> int:
    """Calls *begin* now, and runs all entries that follow from it, apart from the other entries of *clock*.

    Returns how many picoseconds after now the last entry ran.
    """
    began_ps = clock.now_ps
    with clock.apart():
        begin()
        clock.run_out()
        return clock.now_ps - began_ps


LEAST_ISOLATED_STAGES: Final = 256
"""The stages of a command that is worth isolating. Source: assumed; a key and a footprint cost as much as 50 stages."""
_MOST_PLANS: Final = 1 << 10
NOT_ALONE: Final = SkipRefusal(
    "its program issues commands while another one is under way",
    "`tl.wait` for each command before the next one; such a kernel takes other times",
)
FIRST: Final = SkipRefusal(
    "it is the first of its kind on the one PE of the launch, and is simulated so that the others can be isolated",
    "nothing: later commands of the kind are isolated",
)
_SHARED: Final = SkipRefusal(
    "another program, or an earlier write, uses a memory or a link of the command at the same time",
    "place what each PE loads and stores in the memory near it",
)


class Shape:
    """Commands of one plan on one PE: their footprint, and the cached results for their key."""

    def __init__(self, footprint: Footprint, cached: CachedResults) -> None:
        self.footprint = footprint
        self.cached = cached


class IsolatedCommand:
    """An isolated command: its work, its begin, its result, and the state that undoes the result.

    The constructor applies the result.
    """

    def __init__(
        self,
        work: IsolableWork,
        begin_ps: int,
        shape: Shape,
        result: IsolatedResult,
        end: Any,
        event_order: Iterator[int],
    ) -> None:
        self.work = work
        self.begin_ps = begin_ps
        self.footprint = shape.footprint
        self.result = result
        self.cuts: Any = work.cuts()
        work.place()
        work.command.isolate(result.moved, begin_ps)
        self.before = shape.footprint.free_ps(result)
        shape.footprint.apply(result, begin_ps)
        self._end = end
        self._at = begin_ps + result.duration_ps, NORMAL, next(event_order)

    @property
    def entry(self) -> Any:
        """The clock entry of the end. It is made anew each time, because it refers to this object."""
        return *self._at, self._end, self

    @property
    def memories(self) -> list[str]:
        """The ids of its memories."""
        return self.footprint.memories


class IsolatedCommands:
    """The isolated commands of a chip. *recorder* writes the op log, if there is one. *reasons* collects refusals.

    `n_simulated` counts the commands that ran apart, `n_reused` the commands that took a cached result, `n_undone` the
    commands that were met, and `n_isolated` the commands that were isolated and not met. `cache` keeps the results.
    Within the block of *event_by_event*, no part of a run is skipped.
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
        self.cache = ResultCache()
        self._isolated: dict[object, IsolatedCommand] = {}
        self._contended: set[object] = set()
        self._is_apart = False
        self._ran_ps = 0
        self._has_peers = True
        self.n_simulated = self.n_reused = self.n_undone = self.n_isolated = 0
        chip.fabric.watch(self._isolated.keys(), self._meet)

    def begin_launch(self, n_pes: int) -> None:
        """Notes that a launch on *n_pes* PEs begins. Its commands need not meet where commands of earlier launches
        met."""
        self._contended.clear()
        self._has_peers = n_pes > 1

    def undo_all(self) -> None:
        """Undoes all isolated commands, because an observer needs the present state, or an error ended the launch."""
        for isolated in dict.fromkeys(self._isolated.values()):
            self._undo(isolated)

    def number_of(self, form: Hashable) -> int:
        """Returns a number for *form*. Numbers are compared faster in keys."""
        return self._forms.setdefault(form, len(self._forms))

    def form_of_plan(self, plan: PipelinePlan) -> PlanForm | SkipRefusal:
        """Returns the form of *plan*, or why the times of its commands need not follow from the form."""
        known = self._plans.get(id(plan))
        if known is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            why = why_out_of_reach(plan)
            form = why or PlanForm(plan, self.number_of(form_of(plan)))
            known = self._plans[id(plan)] = plan, form
        return known[1]

    def is_worth(self, plan: PipelinePlan) -> bool:
        """Whether a command of *plan* is worth isolating."""
        return plan.n_stages >= LEAST_ISOLATED_STAGES

    def wants(self, command: CommandInFlight) -> bool:
        """Whether *command*, which is alone on its PE, is worth isolating, and its program waits for it."""
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
        """Notes that *command* is not alone on its PE."""
        if not self._is_apart and self.is_worth(command.shared_plan):
            self.takes_slow_path(command, NOT_ALONE)

    def takes_slow_path(self, command: CommandInFlight, why: SkipRefusal) -> None:
        """Notes that *command*, which is worth isolating, is simulated event by event because of *why*."""
        self._reasons.note(COMMANDS, "", why._replace(line=command.submitted.line), 1)

    def isolate(self, work: IsolableWork, shape: Shape, event_order: Iterator[int]) -> bool:
        """Isolates *work* now, unless its places are in use. The entry of its end takes one of *event_order* of its PE.

        Returns whether it did.
        """
        footprint, now_ps = shape.footprint, self._clock.now_ps
        places = footprint.places
        is_free = self._contended.isdisjoint(places) and self._isolated.keys().isdisjoint(places)
        if not (is_free and footprint.is_idle(now_ps)):
            self.takes_slow_path(work.command, _SHARED)
            return False
        if not (
            shape.cached.see() or self._has_peers
        ):  # the command may be the only one of its key, and an isolated run would gain nothing
            self.takes_slow_path(work.command, FIRST)
            self._reasons.first()
            return False
        result = self._cached_result(shape, work)
        if result is None:
            result = self._simulate_apart(shape, work)
            if result is None:
                self._leave_stuck(event_order)
                return True
            self.cache.keep(shape.cached, result)
            self.n_simulated += 1
        else:
            self.n_reused += 1
            self.cache.use(shape.cached)
        isolated = IsolatedCommand(work, now_ps, shape, result, self._end, event_order)
        if self._recorder is not None and result.rows is not None:
            span_ps = now_ps, now_ps + result.duration_ps
            self._recorder.expect(work.command, result.rows, span_ps, isolated.memories)
        self.n_isolated += 1
        self._clock.push(isolated.entry)
        self._isolated.update(dict.fromkeys(places, isolated))
        return True

    def _cached_result(self, shape: Shape, work: IsolableWork) -> IsolatedResult | None:
        """Returns a cached result that is right for *work*, or None.

        Where pieces lie outside of slots, the result depends on which slots come first.
        """
        firsts: tuple[int, ...] | None = None
        for result in shape.cached.results:
            if not shape.footprint.fits(result):
                continue
            if result.moved and firsts is None:
                cuts = work.cuts()
                work.place()
                firsts = work.command.placement.firsts
                work.put_back(cuts)
            if not result.moved or firsts == result.firsts:
                return result
        return None

    def _simulate_apart(self, shape: Shape, work: IsolableWork) -> IsolatedResult | None:
        """Runs *work* apart, and restores the state. Returns the result, or None if *work* never ends."""
        footprint, command, recorder, now_ps = shape.footprint, work.command, self._recorder, self._clock.now_ps
        state, cuts = footprint.state(), work.cuts()
        mark = recorder.mark() if recorder is not None else None
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
            rows = recorder.cut(mark, command, now_ps, [path.dst for path in footprint.paths])
        changes = footprint.changes(state, now_ps)
        moved = {place: dict(pieces) for place, pieces in command.placement.moved.items()}
        result = IsolatedResult(ends_ps[0] - now_ps, *changes, moved, command.placement.firsts, rows)
        footprint.put_back(state)
        work.put_back(cuts)
        return result

    def _leave_stuck(self, event_order: Iterator[int]) -> None:
        """Moves the clock to where the command that ran last got stuck, because it never ends."""
        self._clock.push((self._clock.now_ps + self._ran_ps, NORMAL, next(event_order), _do_nothing, None))

    def _end(self, isolated: IsolatedCommand) -> None:
        self._forget(isolated)
        isolated.work.end()

    def _forget(self, isolated: IsolatedCommand) -> None:
        for place in isolated.footprint.places:
            del self._isolated[place]

    def _meet(self, places: frozenset[object]) -> None:
        """Undoes the isolated commands on *places*, because a transfer to these places begins now."""
        for place in places:
            isolated = self._isolated.get(place)
            if isolated is not None:
                self._contended.add(place)
                self._undo(isolated)

    def _undo(self, isolated: IsolatedCommand) -> None:
        """Undoes *isolated*, and runs its command event by event up to the current entry of the clock."""
        clock, work, until, recorder = self._clock, isolated.work, self._clock.current, self._recorder
        self._forget(isolated)
        clock.cancel(isolated.entry)
        isolated.footprint.undo(isolated.result, isolated.before)
        mark = None
        if recorder is not None:
            recorder.drop(work.command)
            mark = recorder.mark()
        work.put_back(isolated.cuts)
        with clock.apart() as heap, self._event_by_event():
            clock.turn_back(isolated.begin_ps)
            work.begin()
            while heap and heap[0][:3] < until:
                clock.run_next()
        for entry in sorted(heap):
            clock.push(entry)
        if recorder is not None and mark is not None:
            recorder.drop_written(mark)
        self.n_undone += 1
        self.n_isolated -= 1
        self.takes_slow_path(work.command, _SHARED)


def _do_nothing(_: Any) -> None:
    """Does nothing: an entry of the clock that only takes time."""
