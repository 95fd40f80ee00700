"""What is scheduled, as a part of the state of a simulation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from kb_engine.block.in_flight import TileToken
from kb_engine.block.state_visitor import NotPeriodic, StateVisitor
from kb_engine.fabric.sharing.stream import Stream

_CALLBACK_LENGTH: Final = 5


def visit_entries(over: StateVisitor, entries: Sequence[Any]) -> None:
    """Hand *entries* of the clock to *over*, the next one first. Raises NotPeriodic for what nobody can say more of."""
    for argument in arguments_of(over, entries):
        _visit_argument(over, argument)


def arguments_of(over: StateVisitor, entries: Sequence[Any]) -> Iterator[Any]:
    """Hand all of *entries* to *over* but what their functions are given, which is yielded in its place."""
    over.same(len(entries))
    for entry in entries:
        if len(entry) < _CALLBACK_LENGTH:
            raise NotPeriodic
        t_ps, priority, _, function, argument = entry
        over.moment(t_ps)
        over.same(priority)
        over.call(function)
        yield argument


def _visit_argument(over: StateVisitor, argument: Any) -> None:
    if argument is None or type(argument) is int:
        over.same(argument)
    elif type(argument) is TileToken:
        over.token(argument)
    elif type(argument) is tuple and type(argument[0]) is Stream:
        stream, pace, delay_ps, offset = argument
        over.part(stream)
        over.part(pace)
        over.same(delay_ps, offset)
    elif hasattr(argument, "visit_state"):
        over.part(argument)
    else:
        raise NotPeriodic
