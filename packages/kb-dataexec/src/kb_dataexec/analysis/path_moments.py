"""When tiles left queues and when services ended, to be asked whose leaving or end a given moment is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kb_dataexec.analysis.moments import Moments
from kb_dataexec.analysis.path_rows import PathRows
from kb_dataexec.arrays.dtypes import Array
from kb_messages import StageType


class QueueLeaving:
    """When tiles left queues."""

    def __init__(self, rows: PathRows) -> None:
        ops = rows.ops
        enters = ops.is_first.copy()
        enters[1:] |= ops.server[1:] != ops.server[:-1]
        entered = ops.t_ready[np.maximum.accumulate(np.where(enters, np.arange(len(ops)), 0))]
        turn = np.empty(len(ops), np.int64)
        turn[np.argsort(entered, kind="stable")] = np.arange(len(ops))  # a transfer of no bytes is recorded at once
        self._which = np.flatnonzero(ops.leaves)
        order = np.argsort(ops.row[self._which], kind="stable")  # of two at the same time, the later record comes last
        self._which = self._which[order]
        self._row, self._turn = ((place, place[self._which]) for place in (ops.row, turn))
        self._moments = Moments(ops.server[self._which], ops.t_out[self._which])

    def last_before(self, server: Array, time: Array, op: Array) -> Array:
        """The op whose tile left *server* at *time*, the last one recorded before *op*; -1 for none."""
        return self._last(server, time, op, self._row)

    def last_ahead(self, server: Array, time: Array, op: Array) -> Array:
        """As `last_before`, the last one that came to the queue before *op*: a later transfer may leave first."""
        return self._last(server, time, op, self._turn)

    def _last(self, server: Array, time: Array, op: Array, places: tuple[Array, Array]) -> Array:
        of_ops, of_moments = places
        at = self._moments.last_before(server, time, of_moments, of_ops[op])
        return np.where(at < 0, -1, self._which[at]) if len(self._which) else at


class ServiceEnds:
    """When services ended, by a group. Those that took time come before those that took none."""

    def __init__(self, rows: PathRows, group: Array, stages: Sequence[StageType], those: Array | None = None) -> None:
        ops, strings = rows.ops, rows.log.strings
        names = {stage.name.lower() for stage in stages}
        is_wanted = np.array([not stages or strings[name] in names for name in ops.servers[1].tolist()], np.bool_)
        is_wanted = is_wanted[ops.server]
        if those is not None:
            is_wanted &= those
        took_time = ops.t_end > ops.t_start
        self._parts = []
        for part in (took_time, ~took_time):
            which = np.flatnonzero(is_wanted & part)
            self._parts.append((which, Moments(group[which], ops.t_end[which])))

    def at(self, group: Array, time: Array, before: Array | None) -> tuple[Array, Array]:
        """The first op whose service ended in *group* at *time*, -1 for none, and whether there were several.

        An op that took no time has to come before the op *before*, if that is given.
        """
        found, is_tie = np.full(len(group), -1, np.int64), np.zeros(len(group), np.bool_)
        for which, moments in self._parts:
            at, several = moments.first(group, time)
            ops = np.where(at < 0, -1, which[at]) if len(which) else at
            fits = (found < 0) & (ops >= 0)
            if which is self._parts[1][0] and before is not None:
                fits &= ops < before
            is_tie |= (found >= 0) & (ops >= 0) | fits & several
            found[fits] = ops[fits]
        return found, is_tie
