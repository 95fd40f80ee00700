"""A clock and a context that raise when a block uses them, and a search of all objects that a block holds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from fractions import Fraction
from itertools import count
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from msgspec import Struct

from kb_engine.block.component import ComponentBase, Context
from kb_engine.block.stage_server import StageServer
from kb_engine.testing.stub_fabric import StubFabric
from kb_engine.timing.clock import Clock

_PLAIN = (int, float, str, bytes, Enum, Fraction, type(None))
_OPAQUE = (type, ModuleType, Clock, Context, count)


class Asked(AssertionError):
    """A watched object was asked for an attribute; the argument is its name."""


class WatchedClock(Clock):
    """A clock that raises Asked while `WatchedClock.is_forbidden`."""

    is_forbidden = False

    def __getattribute__(self, name: str) -> Any:
        if WatchedClock.is_forbidden:
            raise Asked(f"clock.{name}")
        return super().__getattribute__(name)


class WatchedContext(Context):
    """A context that raises Asked while `WatchedClock.is_forbidden`."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if WatchedClock.is_forbidden:
            raise Asked(f"context.{name}")
        return super().__getattribute__(name)


@contextmanager
def forbidden() -> Iterator[None]:
    """Makes watched clocks and contexts raise Asked in the `with` block."""
    WatchedClock.is_forbidden = True
    try:
        yield
    finally:
        WatchedClock.is_forbidden = False


def state_of(block: ComponentBase[Any], own: bool = False) -> dict[str, object]:
    """The block's attributes by name, in values that are equal when nothing changed.

    With *own*, the contents of other blocks do not count.
    """
    opaque = (*_OPAQUE, ComponentBase, StageServer, StubFabric) if own else _OPAQUE
    return {name: _picture(value, set(), opaque) for name, value in _own(block) if name != "servers"}


def reachable(root: object) -> Iterator[tuple[str, object]]:
    """Every object that *root*'s attributes lead to, with the way there: `_queue[0].owner`."""
    todo: list[tuple[str, object]] = [("", root)]
    seen: dict[int, object] = {}  # kept alive, so that no id is used twice
    while todo:
        path, value = todo.pop()
        if id(value) in seen or isinstance(value, (*_PLAIN, type, ModuleType)):
            continue
        seen[id(value)] = value
        if path:
            yield path.removeprefix("."), value
        todo += [(f"{path}{step}", part) for step, part in _parts(value)]


def _parts(value: object) -> list[tuple[str, object]]:
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", part) for key, part in value.items()]
    if isinstance(value, (MethodType, FunctionType)):
        return _captured(value)
    if isinstance(value, np.ndarray):
        return []
    parts = [(f".{name}", part) for name, part in _attributes(value)]
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        parts += [(f"[{number}]", part) for number, part in enumerate(value)]
    return parts


def _captured(function: MethodType | FunctionType) -> list[tuple[str, object]]:
    if isinstance(function, MethodType):
        return [(".__self__", function.__self__)]
    cells = function.__closure__ or ()
    return [(f".{name}", cell.cell_contents) for name, cell in zip(function.__code__.co_freevars, cells, strict=True)]


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Struct):
        yield from ((name, getattr(value, name)) for name in value.__struct_fields__)
        return
    yield from _own(value)
    if isinstance(value, ComponentBase):
        for owner in type(value).__mro__:
            if owner not in ComponentBase.__mro__:
                yield from ((name, part) for name, part in vars(owner).items() if not _is_machinery(name, part))


def _own(value: object) -> Iterator[tuple[str, object]]:
    """The attributes in the object's dict and slots, without those of its class."""
    yield from getattr(value, "__dict__", {}).items()
    for owner in type(value).__mro__:
        slots = owner.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield name, getattr(value, name)


def _is_machinery(name: str, part: object) -> bool:
    return name.startswith("__") or callable(part) or hasattr(part, "__get__")


def _picture(value: object, seen: set[int], opaque: tuple[type, ...]) -> object:
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, opaque) or id(value) in seen:
        return id(value)
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, value))
    parts = _parts(value)
    return [(step, _picture(part, seen, opaque)) for step, part in parts] or repr(value)
