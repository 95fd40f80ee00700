"""SyncCalls: the calls of kernels that issue no command, because they wait for, or signal, other programs."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np

from kb_dataexec.analysis.programs import program_of_calls
from kb_dataexec.arrays.dtypes import Array
from kb_messages import SyncReason

SIGNALS: Final = -1
"""The reason of a call that signals, and so waits for nobody."""


class SyncCalls:
    """The rows of the tables `waits` and `signals`: one element for each wait, then one for each signal.

    A kernel on `pe` called at `t_called`, PE_CPU had issued the call at `t_issued`, and the kernel went on at
    `t_went_on`. `cause` and `cause_seq` let the kernel make the call. Commands of the PE from `next_seq` on come after
    the call. `reason` is a SyncReason, or SIGNALS. A wait that took time (`waited`) ended because of `by_seq`, on the
    PE `other`: because of an event there at `t_origin`. The doorbell or the credit, and the way, took the time up to
    `t_went_on`, and `t_between` is the moment between the two. `t_origin` of a signal is the moment at which it left.
    `signal` is the signal that ended the wait, as an element; -1 for none.
    """

    def __init__(self, waits: Array, signals: Array) -> None:
        self.n_waits = len(waits)
        zeros = np.zeros(len(signals), np.int64)

        def both(of_waits: str, of_signals: str | Array) -> Array:
            second = signals[of_signals] if isinstance(of_signals, str) else of_signals
            return np.concatenate([waits[of_waits].astype(np.int64), second.astype(np.int64)])

        self.pe, self.line, self.other = both("pe", "src"), both("line", "line"), both("other", "dst")
        self.issue_ps = np.maximum(both("issue_ps", "issue_ps"), 0)
        issued_ps = signals["t_call_ps"] + self.issue_ps[self.n_waits :]
        self.t_issued = np.maximum(both("from_ps", issued_ps), self.issue_ps)
        self.t_called = self.t_issued - self.issue_ps
        self.t_went_on = np.maximum(both("to_ps", issued_ps), self.t_issued)
        self.cause, self.cause_seq = both("cause", "cause"), both("cause_seq", "cause_seq")
        self.next_seq, self.by_seq = both("next_seq", "after_seq"), both("by_seq", zeros - 1)
        self.reason = both("reason", zeros + SIGNALS)
        self.waited = self.t_went_on > self.t_issued
        self.queue_ps, self.way_ps = both("queue_ps", zeros), both("way_ps", zeros)
        last = np.where(self.reason == SyncReason.CREDIT, self.way_ps, self.queue_ps)
        self.t_between = self.t_went_on - last
        self.t_origin = self.t_went_on - self.queue_ps - self.way_ps
        self.t_origin[self.n_waits :] = np.maximum(signals["t_sent_ps"], self.t_issued[self.n_waits :])
        self.signal = self._signal_of(signals["number"])

    def __len__(self) -> int:
        return len(self.pe)

    def _signal_of(self, numbers: Array) -> Array:
        order = np.argsort(numbers, kind="stable")
        at = np.searchsorted(numbers[order], self.by_seq)
        place = np.append(order, -1)[np.minimum(at, len(order))]
        fits = np.append(numbers, 0)[place] == self.by_seq
        fits &= (place >= 0) & np.isin(self.reason, (SyncReason.SIGNAL, SyncReason.BARRIER))
        return np.where(fits, self.n_waits + place, -1)

    @cached_property
    def _order(self) -> Array:
        """The calls by PE, in the order in which the kernel made them."""
        return np.lexsort((self.t_went_on, self.t_issued, self.next_seq, self.pe))

    @cached_property
    def before(self) -> Array:
        """The call before each call on its PE; -1 for the first one."""
        before, order = np.full(len(self), -1, np.int64), self._order
        same = self.pe[order[1:]] == self.pe[order[:-1]]
        before[order[1:][same]] = order[:-1][same]
        return before

    def before_commands(self, pe: Array, seq: Array) -> Array:
        """The last call on *pe* before each of the commands *seq*; -1 for none."""
        if not len(self):
            return np.full(len(seq), -1, np.int64)
        numbers, rank = np.unique(np.concatenate([self.next_seq, seq]), return_inverse=True)
        order, ranks = self._order, rank.reshape(-1)
        key = self.pe[order] * len(numbers) + ranks[order]
        at = np.searchsorted(key, pe * len(numbers) + ranks[len(self) :], side="right") - 1
        found = order[at]
        return np.where((at >= 0) & (self.pe[found] == pe), found, -1)

    def programs(self, kernels: Array) -> Array:
        """The row of the table *kernels* of each call's program; -1 if it has none."""
        return program_of_calls(kernels, self.pe, self.t_called)
