"""Placeholders: the parts of a command that differ between programs, such as addresses.

Design: docs/design/replay-and-purity.md
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from kb_engine.program.values.symbols import Ints, Peers, Symbol, plain
from kb_messages import Matrix, VectorProgram


class GivenAddress:
    """An address that a traced program was given: `offset` bytes after address number `slot`, here `value`.

    Another program gets another address in its place. After arithmetic with anything but an offset, no other program
    can repeat the steps.
    """

    __slots__ = ("_peers", "offset", "slot", "value")

    def __init__(self, peers: Peers, slot: int, offset: int, value: int) -> None:
        self._peers = peers
        self.slot = slot
        self.offset = offset
        self.value = value

    def _moved(self, by: int) -> GivenAddress:
        return GivenAddress(self._peers, self.slot, self.offset + by, self.value + by)

    def __add__(self, other: Any) -> Any:
        return self._moved(int(plain(other))) if isinstance(other, int) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, GivenAddress):
            return self.offset - other.offset if other.slot == self.slot else self._number() - other._number()
        return self._moved(-int(plain(other))) if isinstance(other, int) else NotImplemented

    def __eq__(self, other: object) -> bool:
        if isinstance(other, GivenAddress):
            return (self.slot, self.offset) == (other.slot, other.offset)
        return self._number() == other

    def __hash__(self) -> int:
        return hash((self.slot, self.offset))

    def __index__(self) -> int:
        return self._number()

    def __int__(self) -> int:
        return self._number()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._number(), name)

    def __lt__(self, other: Any) -> Any:
        return self._number() < other

    def __le__(self, other: Any) -> Any:
        return self._number() <= other

    def __gt__(self, other: Any) -> Any:
        return self._number() > other

    def __ge__(self, other: Any) -> Any:
        return self._number() >= other

    def __rshift__(self, other: Any) -> Any:
        return self._number() >> other

    def __floordiv__(self, other: Any) -> Any:
        return self._number() // other

    def __mod__(self, other: Any) -> Any:
        return self._number() % other

    def _number(self) -> int:
        self._peers.leave("reads the value of an address that it was given")
        return self.value


_MOST_NUMBERS: Final = 1 << 26
Numbers: TypeAlias = Sequence[int]
Build: TypeAlias = Callable[[Numbers, Numbers], Any]
"""Makes an object from the numbers of a program, and from the addresses that the program was given."""


class Placeholders:
    """The numbers that placeholders take: `columns` has one array of all programs for each placeholder."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self.columns: list[Ints] = []
        self._places: dict[int, int] = {}

    def parametrize(self, value: Any) -> tuple[Any, Build | None]:
        """Returns *value* of the traced program, and a function that makes it for another program, or None if all are
        equal.

        Addresses become placeholders. Any other number that follows from the program's number has to be equal.
        """
        if type(value) is GivenAddress:
            slot, offset = value.slot, value.offset
            return value.value, (lambda _, given: given[slot] + offset)
        if isinstance(value, tuple):
            return self._tuple(value)
        if isinstance(value, Struct) and not isinstance(value, VectorProgram):
            return self._struct(value)
        return plain(value), None

    def _tuple(self, value: tuple[Any, ...]) -> tuple[Any, Build | None]:
        parts = [self.parametrize(each) for each in value]
        kept = tuple(each for each, _ in parts)
        if not any(build for _, build in parts):
            return kept, None
        makers = [build or _always(each) for each, build in parts]
        return kept, lambda numbers, given: tuple([make(numbers, given) for make in makers])

    def _struct(self, value: Struct) -> tuple[Any, Build | None]:
        fixed: dict[str, Any] = {}
        makers: dict[str, Build] = {}
        for name in value.__struct_fields__:
            each = getattr(value, name)
            if type(each) is Symbol and name == "address":
                fixed[name], makers[name] = each.here, self._column(each.values)
                continue
            fixed[name], build = self.parametrize(each)
            if build is not None:
                makers[name] = build
        kept = type(value)(**fixed)
        if not makers:
            return kept, None
        if isinstance(kept, Matrix) and set(makers) == {"address"}:
            return kept, _matrix(kept, makers["address"])
        pairs = list(makers.items())
        return kept, lambda numbers, given: replace(kept, **{name: make(numbers, given) for name, make in pairs})

    def _column(self, values: Ints) -> Build:
        at = self._places.get(id(values))
        if at is None:
            at = self._places[id(values)] = len(self.columns)
            self.columns.append(values)  # so the array lives on, and no other array gets its id
            if at * len(values) > _MOST_NUMBERS:
                self._peers.leave("uses too many addresses")
                self.columns.clear()
                self._places.clear()
        return lambda numbers, _: numbers[at]


def _always(value: Any) -> Build:
    return lambda *_: value


def _matrix(like: Matrix, address: Build) -> Build:
    rows, cols, stride, dtype, virtual = like.rows, like.cols, like.stride, like.dtype, like.virtual
    return lambda numbers, given: Matrix(
        address=address(numbers, given), rows=rows, cols=cols, stride=stride, dtype=dtype, virtual=virtual
    )
