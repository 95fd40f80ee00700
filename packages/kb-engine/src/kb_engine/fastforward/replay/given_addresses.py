"""Addresses that a program has been given, while it is traced: another program gets others in their place."""

from __future__ import annotations

from typing import Any

from kb_engine.program.values.symbols import Peers, plain


class GivenAddress:
    """`offset` bytes behind what the program was given as number `slot`, here at `value`.

    Arithmetic with anything but an offset ends what other programs can repeat.
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
        self._peers.leave("looks at an address that it was given")
        return self.value
