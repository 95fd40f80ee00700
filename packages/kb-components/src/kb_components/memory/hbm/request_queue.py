"""The requests that wait at a pseudo-channel, and the choice of the next one."""

from __future__ import annotations

from typing import Generic, TypeVar

from kb_components.memory.hbm.pseudo_channel import PseudoChannel
from kb_components.memory.hbm.request_part import RequestPart

RequestT = TypeVar("RequestT")


class WaitingPart(Generic[RequestT]):
    """The part of `request` at one pseudo-channel, with the arguments of `PseudoChannel.serve`.

    `n_passed` later parts went before it.
    """

    __slots__ = ("arrival", "last_byte", "n_passed", "part", "request", "row", "write")

    def __init__(
        self, arrival: int, part: RequestPart, row: int, last_byte: int, write: bool, request: RequestT
    ) -> None:
        self.arrival, self.part, self.row = arrival, part, row
        self.last_byte, self.write, self.request = last_byte, write, request
        self.n_passed = 0

    def is_passed(self) -> None:
        """Counts one more later part that goes before."""
        self.n_passed += 1


class RequestQueue(Generic[RequestT]):
    """Parts in order of arrival. With `has_event`, the next choice is an event to come."""

    __slots__ = ("_most_passed", "_window", "has_event", "parts")

    def __init__(self, window: int, most_passed: int) -> None:
        self._window = window
        self._most_passed = most_passed
        self.parts: list[WaitingPart[RequestT]] = []
        self.has_event = False

    def add(self, part: WaitingPart[RequestT]) -> None:
        """Adds *part*, which has come."""
        self.parts.append(part)

    def expects(self, has_event: bool) -> None:
        """Sets whether the next choice is an event to come."""
        self.has_event = has_event

    def take(self, channel: PseudoChannel, now: int) -> tuple[WaitingPart[RequestT], int]:
        """(part that goes next at *now*, number of older parts that it passes). The part is removed from the queue."""
        parts, at = self.parts, 0
        if len(parts) > 1 and parts[0].n_passed < self._most_passed:
            soonest = [channel.soonest(now, each.part, each.row, each.write) for each in parts[: self._window]]
            at = soonest.index(min(soonest))
        for older in parts[:at]:
            older.is_passed()
        return parts.pop(at), at
