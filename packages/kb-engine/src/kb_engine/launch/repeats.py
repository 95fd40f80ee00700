"""LaunchRepeats: launches that do as an earlier one did are not run, but done at once.

A launch is known when all of its commands were closed, none of them was met, and its programs did nothing but issue
them and wait. Then the times of its programs and messages follow from its key, on a chip where nothing is under way.
Everything that it leaves behind is applied in one entry of the clock, at its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any, Final, cast

from kb_engine.block.control_roles import CommandDispatcher
from kb_engine.closed.closed_commands import ClosedCommands
from kb_engine.language.tl import Language
from kb_engine.launch.foreseen_launch import ForeseenLaunch
from kb_engine.launch.foreseen_programs import foreseen_programs
from kb_engine.launch.known_launch import Begin, KnownLaunch, begin_of
from kb_engine.launch.launch import Launch, LaunchResult
from kb_engine.launch.launch_at_once import LaunchAtOnce
from kb_engine.launch.launch_courses import LaunchCourses
from kb_engine.launch.launch_key import PARTS, LaunchKey, LaunchKeys
from kb_engine.launch.watched_launch import WatchedLaunch
from kb_engine.observe.by_event import NO_REMEDY, WhyNot
from kb_engine.observe.chip import Chip
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.runner import KernelCall, KernelRunner
from kb_engine.program.session import Session
from kb_messages import CubeTarget, KbError, KernelLaunch

_MOST_COMMANDS: Final = 1 << 14
"""Commands of launches that are known. Source: assumed; a command takes 2 kB."""
_FEW_PES: Final = 4
"""A kernel on fewer PEs is looked at when it is launched again. Source: assumed; most launches are on one PE, once."""
_MOST_TRIES: Final = 3
"""Launches with one key that do not become known, from which on no more are looked at. Of those that do, so many are
kept."""
_MOST_KEPT: Final = 1 << 10
"""Keys, and kernels, that are kept because of launches that did not become known. Source: assumed."""
_SHARE: Final = 8
"""With checks, one of so many launches that are known is run, too."""
_FIRST: Final = WhyNot(
    "no launch of the kernel was watched before: the first one on fewer than 4 PEs is not",
    "nothing: later launches with equal arguments are repeated",
)
_OTHER_FRONT: Final = WhyNot(
    "its kernel is no plain function that takes `tl`", "write the kernel as a function of `tl`"
)
_LEFT: Final = WhyNot(
    "programs of its kernel do more than issue commands and wait for them",
    "let the kernel look at no values, print nothing, and use its arguments alone",
)
_VALUES: Final = WhyNot(
    "programs of its kernel hold values in TCM, such as what `tl.load` gives",
    "compute with `tl.composite`, whose operands lie in memory",
)
_UNDER_WAY: Final = WhyNot("commands of a launch were under way at its end", "`tl.wait` for each command")
_NOT_CLOSED: Final = WhyNot(
    "commands of a launch like it were not closed: those of few stages never are, others have a reason of their own",
    "issue larger commands, and heed the reasons of commands",
)
_NOT_IN_TENSORS: Final = WhyNot(
    "its commands touch bytes that lie in none of its tensors", "pass each tensor as an argument of its own"
)
_OTHER_STATE: Final = WhyNot("memories, links or the op log are not as when earlier launches like it began", NO_REMEDY)
_NO_TRY: Final = 0, _FIRST


class RepeatedLaunch(Launch):
    """A launch on *pe_ids* that does what *known* did, in the tensors of *key*."""

    def __init__(
        self,
        number: int,
        session: Session,
        closed: ClosedCommands,
        pe_ids: Sequence[str],
        known: KnownLaunch,
        key: LaunchKey,
    ) -> None:
        super().__init__(number, session, (), len(pe_ids))
        self.pe_ids = list(pe_ids)
        self._closed = closed
        self._known = known
        self._key = key
        self._begin: Begin = begin_of(session, closed)

    @property
    def runners(self) -> Sequence[KernelRunner]:
        """None: no program runs."""
        return ()

    @property
    def queued(self) -> int:
        """None."""
        return 0

    def run(self) -> LaunchResult:
        """Be over. Returns the times."""
        session, known, begin = self._session, self._known, self._begin
        try:
            session.clock.call_at(begin.ps + known.duration_ps, self._apply, None)
            session.clock.drain()
        finally:
            if session.listeners.on_return is not None:
                session.listeners.on_return()
        return known.result(begin.ps - known.begin.ps)

    def _apply(self, _: None) -> None:
        self._known.apply(self._session, self._closed, self._begin, self._key, self.number)
        self.unfinished = 0

    def _run(self, pe_id: str) -> None:
        raise AssertionError(pe_id)


class LaunchRepeats:
    """The launches of a chip that are known.

    `n_repeated` counts those that were repeated, `n_checked` those that were run and compared, which is one of eight
    with *checks*, and `n_foreseen` those of which one program of each kind ran. `why_not` says why the launch that was
    looked at last was not repeated, if it was not.
    """

    def __init__(self, session: Session, closed: ClosedCommands, chip: Chip, checks: bool) -> None:
        self._session = session
        self._closed = closed
        self._checks = checks
        self._keys = LaunchKeys(session.memory.burst_nbytes)
        self._dispatchers = [each for each in chip.components.values() if isinstance(each, CommandDispatcher)]
        self._courses = LaunchCourses(checks)
        self._seen: set[CodeType] = set()
        self._left: dict[CodeType, WhyNot] = {}
        self._known: dict[Any, list[KnownLaunch]] = {}
        self._tries: dict[Any, tuple[int, WhyNot]] = {}
        self._forms: dict[CodeType, tuple[object, ...]] = {}
        self._n_commands = self._n_dropped = 0
        self._n_fitting = 0
        self.n_repeated = self.n_checked = self.n_foreseen = 0
        self.why_not = _FIRST

    def key_of(
        self, call: KernelCall, pes: Sequence[ProcessingElement], targets: Sequence[CubeTarget] | None
    ) -> LaunchKey | None:
        """The key of a launch of *call* now; None where nobody should look at it."""
        code, clock = getattr(call.kernel, "__code__", None), self._session.clock
        if code is None or call.front_end is not Language:
            self.why_not = _OTHER_FRONT
            return None
        if code in self._left:
            self.why_not = self._left[code]
            return None
        if not clock.is_idle or clock.is_broken:
            self.why_not = _UNDER_WAY
            return None
        if len(pes) < _FEW_PES and code not in self._seen:
            _make_room(self._seen)
            self._seen.add(code)
            self.why_not = _FIRST
            return None
        key = self._keys.of(call, [pe.pe_id for pe in pes], targets)
        if isinstance(key, WhyNot):
            self.why_not = key
            return None
        n_tries, why = self._tries.get(key.form, _NO_TRY)
        if n_tries >= _MOST_TRIES:
            self.why_not = why
            return None
        return key

    def find(self, key: LaunchKey) -> KnownLaunch | None:
        """A launch that did what one with *key* would do now. Without one, `why_not` says why."""
        if self._n_dropped != self._closed.known.n_dropped:
            self._n_dropped = self._closed.known.n_dropped
            self._forget()
        now_ps = self._session.clock.now_ps
        kept = self._known.get(key.form, [])
        for number, each in enumerate(kept):
            if not each.is_in_tensors:
                self._n_commands -= len(kept.pop(number).commands)
                self._tries[key.form] = _MOST_TRIES, _NOT_IN_TENSORS
                self.why_not = _NOT_IN_TENSORS
                return None
            if each.is_steady:
                if each.fits(now_ps):
                    return each
            else:
                found = self._steady(each)
                if found is not None:
                    kept[number] = found
                    return found
        self.why_not = _OTHER_STATE if kept else self._why_new(key)
        return None

    def _why_new(self, key: LaunchKey) -> WhyNot:
        """Why no launch with *key* is known: which part of the key is new, or what was not known of others with it."""
        form, code = cast(tuple[object, ...], key.form), key.code[0]
        before, tries = self._forms.get(code), self._tries.get(form)
        _make_room(self._forms)
        self._forms[code] = form
        if tries is not None:
            return tries[1]
        if before is None or before == form:
            return _FIRST
        return next(why for why, *parts in zip(PARTS, before, form, strict=True) if parts[0] != parts[1])

    def _steady(self, known: KnownLaunch) -> KnownLaunch | None:
        """*known* as it would be now, where the log knows how long its transfers take; None where it would differ, and
        where outcomes were dropped, of which some may be its own."""
        recorder, clock = self._session.recorder, self._session.clock
        if recorder is not None:
            recorder.on_launch()
        try:
            found = known.steady(self._closed, clock.now_ps)
        except BaseException:
            clock.mark_broken()  # a command that ran apart has left its work half done
            raise
        if found is None or self._n_dropped != self._closed.known.n_dropped:
            return None
        return found if found.fits(clock.now_ps) else None

    def wants_check(self) -> bool:
        """Whether a launch that is known is to be run now, and compared."""
        self._n_fitting += 1
        return self._checks and self._n_fitting % _SHARE == 1

    def launch(
        self, where: tuple[int, Session, Sequence[ProcessingElement]], key: LaunchKey, known: KnownLaunch
    ) -> RepeatedLaunch:
        """A launch with *key* that does as *known* did. *where* has its number and its PEs."""
        self.n_repeated += 1
        number, session, pes = where
        return RepeatedLaunch(number, session, self._closed, [pe.pe_id for pe in pes], known, key)

    def watched(
        self,
        where: tuple[int, Session, Sequence[ProcessingElement]],
        call: KernelCall,
        key: LaunchKey,
        known: KnownLaunch | None,
    ) -> WatchedLaunch:
        """A launch with *key* that runs, and may become known. *known* is what it is to be compared with, if any.

        Where its programs are foreseen, one of each kind runs. Where it is known, too, how messages go to its PEs and
        back, none is sent.
        """
        number, session, pes = where
        if known is None and len(pes) >= _FEW_PES and self._sends_no_bytes(number):
            programs = foreseen_programs(call, pes, session.clock.now_ps, session.recorder is not None)
            if programs is not None:
                self.n_foreseen += 1
                course = self._courses.find(key.where, programs)
                if course is None:
                    return ForeseenLaunch(where, call, key, programs, self._closed)
                return LaunchAtOnce(where, call, key, programs, self._closed, course)
        return WatchedLaunch(where, call, key, known)

    @contextmanager
    def watching(self, launch: WatchedLaunch) -> Iterator[None]:
        """Within the block, *launch* runs, from its call on."""
        launch.begins(begin_of(self._session, self._closed))
        self._closed.note(launch.commands)
        try:
            yield
        finally:
            self._closed.note(None)

    def ended(self, launch: WatchedLaunch, result: LaunchResult) -> None:
        """*launch* has ended with *result*. Raises KbError where it did not what it should."""
        launch.ends()
        form, before = launch.key.form, launch.known
        why = self._why_unknown(launch)
        if why is not None:
            if before is None:
                self._leave(launch, why)
            elif not self._was_written(launch):
                raise self._other("commands", launch)
            return
        found = KnownLaunch(self._session, launch.key, launch.begin, result, launch.notes, launch.commands)
        if not self._courses.ended(launch, result, found):
            raise self._other("messages", launch)
        if before is not None:
            self.n_checked += 1
            differs = before.differs_from(found)
            if differs:
                raise self._other(differs, launch)
            return
        self._n_commands += len(launch.commands)
        if self._n_commands > _MOST_COMMANDS:
            self._forget()
            self._n_commands = len(launch.commands)
        kept = self._known.setdefault(form, [])
        kept.append(found)
        if len(kept) > _MOST_TRIES:
            self._n_commands -= len(kept.pop(0).commands)

    def _leave(self, launch: WatchedLaunch, why: WhyNot) -> None:
        """Because of *why*, *launch* has not become known: others with its key, or of its kernel, need not either."""
        if launch.notes.left:
            _make_room(self._left)
            self._left[launch.key.code[0]] = why
        _make_room(self._tries)
        self._tries[launch.key.form] = self._tries.get(launch.key.form, _NO_TRY)[0] + 1, why

    def _was_written(self, launch: WatchedLaunch) -> bool:
        """Whether the log was written during *launch*, so that nobody can tell which rows are of it."""
        recorder, mark = self._session.recorder, launch.begin.mark
        return recorder is not None and mark is not None and not recorder.can_repeat(mark)

    def _forget(self) -> None:
        self._known.clear()
        self._n_commands = 0

    def _why_unknown(self, launch: WatchedLaunch) -> WhyNot | None:
        """Why not all that *launch* did is known and follows from its key; None if it is and does."""
        session, begin, commands, notes = self._session, launch.begin, launch.commands, launch.notes
        recorder, n_issued = session.recorder, session.commands_issued - begin.commands
        if notes.left:
            return _VALUES if notes.left_for_values else _LEFT
        if not n_issued == len(commands) == notes.n_commands or self._closed.n_opened != begin.opened:
            return _NOT_CLOSED
        if n_issued > _MOST_COMMANDS:
            return WhyNot(f"the launch issues more than {_MOST_COMMANDS} commands", "issue fewer and larger commands")
        if not session.clock.is_idle:
            return _UNDER_WAY
        if recorder is not None and recorder.mark() != begin.mark:
            return WhyNot("its op log was written while it ran", NO_REMEDY)
        if not self._sends_no_bytes(launch.number):
            return WhyNot("the chip's processors pass launches on as bytes, or with a state of their own", NO_REMEDY)
        if any(each.outcome.moved for each in commands):
            return WhyNot("a command moved pieces that lie in no slot of a buffer", NO_REMEDY)
        return None

    def _sends_no_bytes(self, number: int) -> bool:
        """Whether processors pass launch *number* on without bytes and without a state of their own."""
        message = KernelLaunch(launch=number, targets=())
        kept = CommandDispatcher.state
        return all(type(each).state == kept and not each.part_nbytes(message) for each in self._dispatchers)

    def _other(self, what: str, launch: Launch) -> KbError:
        self._session.clock.mark_broken()
        got = f"other {what} than those of a launch with the same key"
        return KbError(f"launch {launch.number}", got, "the same", "run with --exact events, and report the kernel")


def _make_room(kept: set[Any] | dict[Any, Any]) -> None:
    """Forget what is *kept* where that is a lot."""
    if len(kept) >= _MOST_KEPT:
        kept.clear()
