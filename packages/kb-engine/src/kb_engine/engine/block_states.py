"""The states of blocks after a launch, in values that two engines can compare.

A block hands its state to a visitor, whatever its class makes of the values. The state of a block that others wrote is
read from its attributes too, so a block that hands over other values than it has is found.

Design: docs/design/fast-forward.md
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

from kb_dataexec.log.compressed import SlotRing
from kb_engine.block.block_authors import is_foreign
from kb_engine.block.component import ComponentBase
from kb_engine.block.state_visitor import (
    COUNT,
    MOMENT,
    MOMENT_OR_NONE,
    OP,
    SAME,
    HasState,
    NotPeriodic,
    StateVisitor,
    kinds_of,
)
from kb_messages import Place

_PLAIN: Final = (int, float, str, bytes, Enum, type(None))
_AS_THEY_ARE: Final = (COUNT, MOMENT, MOMENT_OR_NONE, OP, SAME)
"""Kinds whose values do not depend on how the block came to its state."""


def state_of_block(block: ComponentBase[Any]) -> dict[str, object]:
    """The state of *block* by name: what it hands over, and the attributes of a block that others wrote.

    Attributes in `caches` do not count, and neither do attributes of which only the future part matters, such as
    deadlines that have passed.
    """
    found: dict[str, object] = {}
    view = _View(block.clock.now_ps)
    try:
        block.visit_state(view)
        found["state"] = view.values
    except NotPeriodic:
        found["state"] = None
    if is_foreign(type(block)):
        found |= {name: _plain(getattr(block, name), 0) for name in _names(block)}
    return found


def _names(block: ComponentBase[Any]) -> list[str]:
    """The attributes of *block* that two equal runs leave with equal values."""
    left_out, named = set[str](), set[str]()
    for owner in type(block).__mro__:
        left_out.update(vars(owner).get("caches", ()))
        kinds = kinds_of(owner) or {}
        left_out.update(name for name, kind in kinds.items() if kind not in _AS_THEY_ARE)
        named.update(vars(owner).get("state", ()))
    own = getattr(block, "__dict__", {})
    named.update(name for name, value in own.items() if isinstance(value, (int, float, str, list, dict, deque)))
    return sorted(name for name in named - left_out if hasattr(block, name))


_DEEPEST: Final = 8


def _plain(value: object, depth: int) -> object:
    """*value* in numbers, texts and collections of these. Of any other object the name of its type counts."""
    if isinstance(value, _PLAIN):
        return value if value == value else "nan"
    if depth < _DEEPEST:
        if isinstance(value, Mapping):
            return [(_plain(key, depth + 1), _plain(item, depth + 1)) for key, item in value.items()]
        if isinstance(value, (list, tuple, deque)):
            return [_plain(item, depth + 1) for item in value]
    return type(value).__name__


class _View(StateVisitor):
    """Writes down a state: times as they are, deadlines relative to now, and objects by their types."""

    def __init__(self, now_ps: int) -> None:
        self.values: list[object] = []
        self._now_ps = now_ps
        self._seen: dict[int, object] = {}

    def _number(self, number: int, /) -> int:
        """Writes the number down, which stays."""
        self.values.append(number)
        return number

    moment = count = op = tiles_to_go = _number

    def seq(self, command_seq: int) -> int:
        """Writes the number of the command down."""
        return self._number(command_seq)

    def program(self, number: int) -> int:
        """Writes the number of the program down."""
        return self._number(number)

    def deadline(self, t_ps: int, /) -> int:
        """Writes down how far the moment is ahead of now."""
        self.values.append(max(0, t_ps - self._now_ps))
        return t_ps

    def same(self, *values: object) -> None:
        """Writes the values down."""
        self.values.append(_plain(values, 0))

    def identical(self, *objects: object) -> None:
        """Writes down the types of the objects."""
        self.values.append([type(each).__name__ for each in objects])

    def token(self, token: Any) -> None:
        """Writes down the tile of the token, or None."""
        self.values.append(None if token is None else token.tile.tile_id)

    def part(self, part: HasState) -> None:
        """Visits the part where it is met first."""
        self.values.append(type(part).__name__)
        if id(part) not in self._seen:
            self._seen[id(part)] = part
            part.visit_state(self)

    def call(self, function: Callable[..., Any]) -> None:
        """Writes down the name of the function."""
        self.values.append(getattr(function, "__name__", None))

    def place(self, place: Place, slots: SlotRing | None, offset: int) -> int:
        """Writes the offset down."""
        self.values.append(offset)
        return offset

    def places(self, claims: dict[int, int], rings: list[tuple[Place, SlotRing | None]]) -> dict[int, int]:
        """Writes the claims down."""
        self.values.append(sorted(claims.items()))
        return claims

    def moved(self, moved: dict[Place, dict[int, int]]) -> None:
        """Writes the pieces down."""
        self.values.append(sorted((place, *numbers.items()) for place, numbers in moved.items()))

    @property
    def command(self) -> Any:
        """None, because no command is under way after a launch."""
        return None

    @property
    def next_tile(self) -> int:
        """Tile 0, because no tile is under way after a launch."""
        return 0

    @property
    def jumps(self) -> bool:
        """False, because nothing is moved."""
        return False
