"""Refresh of a pseudo-channel: a clock that stands still while all banks are refreshed."""

from __future__ import annotations


class RefreshClock:
    """Maps cycles of the controller (wall) to cycles in which commands can be sent (active), and back.

    A refresh begins at every multiple of `interval` cycles except 0. It takes `duration` cycles, in which no command
    can be sent. `interval` 0 means no refresh.
    """

    __slots__ = ("_active", "_duration", "_interval")

    def __init__(self, interval: int, duration: int) -> None:
        self._interval = interval
        self._duration = duration
        self._active = interval - duration

    def active(self, wall: int) -> int:
        """The first active cycle at or after *wall*."""
        if not self._interval or wall < self._interval:
            return wall
        number, into = divmod(wall, self._interval)
        return number * self._active + (into if into > self._duration else self._duration)

    def count(self, active: int) -> int:
        """The number of refreshes before *active*."""
        if not self._interval or active < self._interval:
            return 0
        return (active - self._interval) // self._active + 1

    def wall(self, active: int) -> int:
        """The wall cycle of *active*."""
        return active + self.count(active) * self._duration

    def after(self, count: int) -> int:
        """The first active cycle after refresh number *count* (from 1 on)."""
        return self._interval + (count - 1) * self._active
