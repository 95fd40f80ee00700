"""Listeners: the functions by which an engine tells its observers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kb_engine.observe.observer import HOOKS, Observer


class Listeners:
    """For each method of Observer, one function that calls all observers that override it, or None."""

    __slots__ = HOOKS
    on_built: Callable[..., None] | None
    on_launch: Callable[..., None] | None
    on_launched: Callable[..., None] | None
    on_return: Callable[..., None] | None
    on_issue: Callable[..., None] | None
    on_issue_again: Callable[..., None] | None
    on_stage: Callable[..., None] | None
    on_wait: Callable[..., None] | None
    on_chunk: Callable[..., None] | None
    on_trace: Callable[..., None] | None
    on_allocate: Callable[..., None] | None
    on_free: Callable[..., None] | None
    on_program_end: Callable[..., None] | None
    on_capture: Callable[..., None] | None
    on_look: Callable[..., None] | None
    on_wrapped_index: Callable[..., None] | None
    on_housekeeping: Callable[..., None] | None

    def __init__(self, observers: Sequence[Observer]) -> None:
        for name in HOOKS:
            setattr(self, name, listener(observers, name))


def listener(observers: Sequence[Observer], name: str) -> Callable[..., None] | None:
    """A function that calls the method *name* of all *observers* that override it; None if none does.

    For one observer it is that observer's own function, so that a call takes no detour.
    """
    heard = [getattr(each, name) for each in observers if _overrides(each, name)]
    if len(heard) < 2:
        return heard[0] if heard else None

    def tell(*arguments: Any) -> None:
        for hear in heard:
            hear(*arguments)

    return tell


def told_of_each(observers: Sequence[Observer], name: str, together: str) -> Callable[..., None] | None:
    """As `listener`, for those of *observers* that do not override the method *together*, which tells of many."""
    return listener([each for each in observers if not _overrides(each, together)], name)


def _overrides(observer: Observer, name: str) -> bool:
    return name in vars(observer) or getattr(type(observer), name) is not getattr(Observer, name)
