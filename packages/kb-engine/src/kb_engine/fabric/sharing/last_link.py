"""LastLink: the narrow link at the end of a leg, which one transfer has to itself.

A block with one read under way at a time gets the bytes of one transfer at a time over its own link. No flow competes
there, and no code needs the rate at which the bytes leave. So nothing is done while they come: the end follows from
their arrival curve.
"""

from __future__ import annotations

from math import ceil
from typing import ClassVar, NamedTuple

from kb_engine.block.state_visitor import MOMENT, PART, SAME, State, Stateful, only_with, optional, row
from kb_engine.fabric.sharing.arrival_curve import MORE, NO_BYTES, NO_TIME_PS, ArrivalCurve, FairShare, SteadyPace


class Narrowing(NamedTuple):
    """The last link of a leg, for transfers of one size.

    `bandwidth` is in bytes a picosecond, and `duration_ps` the time of the bytes on the link. The end of the leg is
    `after_ps` behind the link.
    """

    bandwidth: float
    duration_ps: int
    after_ps: int


class _Backlog(NamedTuple):
    """Bytes leave at `rate` from `since_ps` on, when `served` bytes had left."""

    since_ps: int
    served: float
    rate: float

    def left_by(self, t_ps: int) -> float:
        return self.served + self.rate * (t_ps - self.since_ps)


class LastLink(Stateful):
    """One transfer of *nbytes* on its last link. Bytes that come within the bandwidth pass, and others wait."""

    __slots__ = ("_backlog", "_delay_ps", "_from_ps", "_link", "_nbytes", "_offset", "_pace")
    state: ClassVar[State] = {
        "_link": SAME,
        "_pace": PART,
        "_from_ps": only_with("_pace", MOMENT),
        "_delay_ps": SAME,
        "_offset": SAME,
        "_backlog": optional(row(MOMENT, SAME, SAME)),
    }

    def __init__(self, link: Narrowing, nbytes: int) -> None:
        self._link = link
        self._nbytes = nbytes
        self._pace: ArrivalCurve | None = None
        self._from_ps = self._delay_ps = 0
        self._offset = 0.0
        self._backlog: _Backlog | None = None

    def comes(self, from_ps: int, pace: ArrivalCurve, delay_ps: int, offset: float) -> None:
        """From *from_ps* on, the bytes that have come are the level of *pace*, *delay_ps* ago, less *offset*."""
        link, before = self._link, self._pace
        if before is None:
            if type(pace) is SteadyPace and pace.rate > link.bandwidth:
                self._backlog = _Backlog(from_ps, 0.0, self._nbytes / link.duration_ps)
        else:
            backlog = self._backlog_at(from_ps)
            if backlog is not None and backlog.rate != link.bandwidth:
                backlog = _Backlog(from_ps, backlog.left_by(from_ps), link.bandwidth)
            self._backlog = backlog
            if type(before) is FairShare:
                before.release(self)
        self._pace, self._from_ps, self._delay_ps, self._offset = pace, from_ps, delay_ps, offset
        if type(pace) is FairShare:
            pace.hold(self, from_ps - delay_ps)

    def ends_ps(self, last_ps: int) -> int:
        """When the last byte is at the end of the leg, if it comes to the link at *last_ps*."""
        backlog, pace = self._backlog_at(last_ps), self._pace
        if type(pace) is FairShare:
            pace.release(self)
        if backlog is not None:
            rest_ps = (self._nbytes - backlog.served) / backlog.rate
            last_ps = max(last_ps, backlog.since_ps + ceil(rest_ps - NO_TIME_PS))
        return last_ps + self._link.after_ps

    def _backlog_at(self, until_ps: int) -> _Backlog | None:
        """The backlog at *until_ps*, from the arrival curve of the bytes."""
        pace, delay_ps, backlog, bandwidth = self._pace, self._delay_ps, self._backlog, self._link.bandwidth
        assert pace is not None
        if backlog is None:
            if pace.peak_since(self._from_ps - delay_ps) <= bandwidth * MORE:
                return None
        elif type(pace) is SteadyPace and until_ps - delay_ps <= pace.end_ps and pace.rate * MORE >= bandwidth:
            return backlog
        lines = pace.lines(self._from_ps - delay_ps, until_ps - delay_ps)
        for number, (t_ps, level, rate) in enumerate(lines):
            begin_ps = max(t_ps + delay_ps, self._from_ps)
            came = level + rate * (begin_ps - delay_ps - t_ps) - self._offset
            if backlog is None:
                if rate > bandwidth * MORE:
                    backlog = _Backlog(begin_ps, came, bandwidth)
            elif rate * MORE < bandwidth:
                end_ps = lines[number + 1][0] + delay_ps if number + 1 < len(lines) else until_ps
                waiting = came - backlog.left_by(begin_ps) - NO_BYTES
                if waiting <= 0 or begin_ps + ceil(waiting / (backlog.rate - rate) - NO_TIME_PS) <= end_ps:
                    backlog = None
        return backlog
