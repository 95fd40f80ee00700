"""The check of a block's futures: states with equal views go on alike, whatever the block did before.

A means of speed sees nothing of a block but its view. A block whose times follow from more than that, such as from an
attribute that it hands over in part, from a cache, or from something outside of the block, has two states with one view
and two futures.

Design: docs/design/steady-state.md
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final, NamedTuple

from kb_engine.block.component import ComponentBase
from kb_engine.block.fabric_roles import MemoryComponent
from kb_engine.block.pe_roles import AddressTranslator
from kb_engine.block.state_rules import can_visit_state
from kb_engine.block.state_visitor import NotPeriodic
from kb_engine.testing.line import Line
from kb_engine.testing.state_views import View
from kb_engine.testing.subject import Subject
from kb_engine.timing.clock import Clock
from kb_messages import Rectangle

_HISTORIES: Final = (0, 1, 0, 0, 1, 1, 0, 0, 0, 2, 0, 0, 1, 2, 0, 3, 0, 0, 0, 0)
"""The kinds of work that a block does in turn; 0 is the work whose times are compared."""
_N_REQUESTS: Final = 8
_STEP_PS: Final = 1000
_PAUSE_PS: Final = 10_000_019
"""The time between two rounds of work. Source: assumed; longer than any service, and no multiple of a likely period."""


class _Future(NamedTuple):
    """The view of a state in a hashable form, and the times of the same work after it, from its begin on."""

    view: Hashable
    times_ps: object


class _FutureView(View):
    """A view as a means of speed compares it: times relative to now, and no count, because no time depends on one."""

    def __init__(self, now_ps: int) -> None:
        super().__init__(now_ps)
        self._deep = True

    def moment(self, t_ps: int, /) -> int:
        """Writes down how far the moment is from now."""
        self.note(t_ps - self._now_ps)
        return t_ps

    def count(self, count: int, /) -> int:
        """Forgets the count."""
        return count

    def op(self, op_id: int, /) -> int:
        """Forgets the number of the op."""
        return op_id


def check_equal_views_go_on_alike(subject: Subject) -> None:
    """After different work, states of a block with equal views take equal times for the same work."""
    block = subject.build(Clock())
    if not can_visit_state(block):
        return
    seen: dict[Hashable, tuple[int, object]] = {}
    try:
        for number, (view, times_ps) in enumerate(_futures(subject, block)):
            at, earlier = seen.setdefault(view, (number, times_ps))
            if times_ps != earlier:
                got = (
                    f"{times_ps} ps in round {number} of equal work, and {earlier} ps in round {at}, after equal views"
                )
                fix = "name every attribute on which a time depends in `state`, and hand it over whole"
                subject.fail("visit_state", got, "equal times after equal views", fix)
    except NotPeriodic:
        return


def _futures(subject: Subject, block: ComponentBase[Any]) -> Iterator[_Future]:
    """The futures of states after different histories."""
    if subject.impl.serves:
        yield from _of_tiles(subject)
    elif isinstance(block, MemoryComponent):
        yield from _of_requests(block, lambda t_ps, rect, write: block.reserve(t_ps, rect, t_ps, write))
    elif isinstance(block, AddressTranslator):
        page = block.page_nbytes
        yield from _of_requests(
            block, lambda _, rect, __: block.lookup_ps(Rectangle(rect.base * page // 64, 1, 64, 64)), is_timed=False
        )


def _of_tiles(subject: Subject) -> Iterator[_Future]:
    line = Line(subject)
    for number, kind in enumerate(_HISTORIES):
        if number:
            line.begin_again(kind)
            line.clock.skip(_PAUSE_PS)
        begin_ps, n_before = line.clock.now_ps, len(line.outs)
        view = _view_of_line(line)
        line.run()
        if kind == 0:
            outs = tuple((*out[:2], *[t_ps - begin_ps for t_ps in out[2:]]) for out in line.outs[n_before:])
            yield _Future(view, outs)


def _view_of_line(line: Line) -> Hashable:
    """The view of the block, of the stubs around it and of their queues."""
    over = _FutureView(line.clock.now_ps)
    for block in (line.block, line.stub):
        over.part(block)
        for server in block.servers.values():
            over.part(server)
            for gate in server.own_gates:
                over.part(gate)
    return repr(over.values)


def _of_requests(
    block: ComponentBase[Any], ask: Callable[[int, Rectangle, bool], Any], is_timed: bool = True
) -> Iterator[_Future]:
    """The futures of requests to *block*, each made by *ask* at a time. Without *is_timed*, answers are durations."""
    for number, kind in enumerate(_HISTORIES):
        begin_ps = number * _PAUSE_PS
        over = _FutureView(begin_ps)
        over.part(block)
        times = []
        for each in range(_N_REQUESTS - kind):
            t_ps = begin_ps + _STEP_PS * each
            answer = ask(t_ps, Rectangle(64 * (each + 8 * kind), 4, 640, 256), (each + kind) % 3 == 1)
            times.append(tuple(end_ps - begin_ps for end_ps in answer) if is_timed else answer)
        if kind == 0:
            yield _Future(repr(over.values), tuple(times))
