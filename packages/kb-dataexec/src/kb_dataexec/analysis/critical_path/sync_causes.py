"""explain_syncs: the causes of the waits of kernels for messages, credits and signals of other programs."""

from __future__ import annotations

from typing import Final

import numpy as np

from kb_dataexec.analysis.critical_path.events import (
    CommandEvent,
    KernelEvent,
    OpEvent,
    PathEvents,
    SyncEvent,
    Work,
)
from kb_dataexec.analysis.critical_path.rows import PathRows
from kb_dataexec.analysis.critical_path.timestamp_index import TimestampIndex
from kb_dataexec.analysis.critical_path.transfer_parts import TransferParts
from kb_dataexec.arrays.dtypes import Array
from kb_messages import SyncReason

_EDGE_OF: Final = {
    SyncReason.MESSAGE: "message",
    SyncReason.CREDIT: "credit",
    SyncReason.SIGNAL: "signal",
    SyncReason.BARRIER: "barrier",
}


def explain_syncs(events: PathEvents, rows: PathRows, transfers: TransferParts) -> None:
    """Sets the causes of the events of all calls of *rows* that wait or signal, from the call itself on.

    A wait that nothing explains is unknown time since PE_CPU issued the call.
    """
    _SyncCauses(events, rows, transfers).explain()


class _SyncCauses:
    def __init__(self, events: PathEvents, rows: PathRows, transfers: TransferParts) -> None:
        self._events, self._rows, self._transfers = events, rows, transfers
        self._syncs = rows.syncs

    def explain(self) -> None:
        events, syncs = self._events, self._syncs
        every = np.arange(len(syncs))
        called, issued, went_on, between, origin = (self._sync(event, every) for event in SyncEvent)
        events.work_since(issued, called, Work.CALL, "program")
        events.explain(went_on, issued)
        waited = np.flatnonzero(syncs.waited)
        self._explain_messages(waited[syncs.reason[waited] == SyncReason.MESSAGE])
        signalled = waited[syncs.signal[waited] >= 0]
        events.explain(origin[signalled], self._sync(SyncEvent.ORIGIN, syncs.signal[signalled]))
        self._explain_releases(waited[(syncs.reason[waited] == SyncReason.CREDIT) | (syncs.by_seq[waited] < 0)])
        self._explain_leaving(every[syncs.n_waits :])
        known = waited[events.has_cause(origin[waited])]
        for reason, edge in _EDGE_OF.items():
            mine = known[syncs.reason[known] == reason]
            last, first = (Work.WAY, Work.CREDIT) if reason == SyncReason.CREDIT else (Work.DOORBELL, Work.WAY)
            events.work_since(went_on[mine], between[mine], last, edge)
            events.work_since(between[mine], origin[mine], first)
        events.give_up(went_on, issued)

    def _sync(self, event: SyncEvent, syncs: Array) -> Array:
        return np.where(syncs < 0, -1, self._events.numbers.sync(event, syncs))

    def _explain_messages(self, waits: Array) -> None:
        """A message was committed: its DMA_WRITE worked since its start, or since the memory was done with others."""
        ops, syncs = self._rows.ops, self._syncs
        command = self._rows.commands.find(syncs.by_seq[waits])
        last_op = np.full(len(self._rows.commands) + 1, -1)
        last_op[ops.command] = np.arange(len(ops))
        last_op[-1] = -1
        there = last_op[command] >= 0
        waits, op = waits[there], last_op[command][there]
        t_origin = syncs.t_origin[waits]
        within = (ops.t_start[op] <= t_origin) & (t_origin <= ops.t_end[op])
        waits, op, t_origin = waits[within], op[within], t_origin[within]
        served = self._events.numbers.op(OpEvent.SERVED, op)
        transfer = self._transfers.of_op[op]
        behind = np.append(self._transfers.behind, -1)[transfer] >= 0
        behind &= self._events.time[served] <= t_origin
        since = np.where(behind, served, self._events.numbers.op(OpEvent.START, op))
        self._events.work_since(self._sync(SyncEvent.ORIGIN, waits), since, Work.SERVICE)

    def _explain_releases(self, waits: Array) -> None:
        """The other program gave a slot back, or began: at an event of its PE, or after the call of a command."""
        if not len(waits):
            return
        events, rows, syncs = self._events, self._rows, self._syncs
        numbers, commands, kernels = events.numbers, rows.commands, rows.kernels
        pe, time, origin = syncs.other[waits], syncs.t_origin[waits], self._sync(SyncEvent.ORIGIN, waits)
        pe_of_kernel = kernels["pe"].astype(np.int64)
        done, is_tie = TimestampIndex(commands.pe, commands.t_done).first(pe, time)
        went_on, _ = TimestampIndex(syncs.pe, syncs.t_went_on).first(pe, time)
        submitted, _ = TimestampIndex(commands.pe, commands.t_submitted).first(pe, time)
        begun, _ = TimestampIndex(pe_of_kernel, kernels["t_start_ps"]).first(pe, time)
        ended, _ = TimestampIndex(pe_of_kernel, kernels["t_end_ps"]).first(pe, time)
        is_tie = is_tie | (done >= 0) & (went_on >= 0)
        for found, number in (
            (begun, numbers.kernel(KernelEvent.START, begun)),
            (done, numbers.command(CommandEvent.DONE, done)),
            (went_on, numbers.sync(SyncEvent.WENT_ON, went_on)),
            (submitted, numbers.command(CommandEvent.SUBMITTED, submitted)),
            (ended, numbers.kernel(KernelEvent.END, ended)),
        ):
            events.explain(origin, np.where(found < 0, -1, number), tie=is_tie)
        calls = TimestampIndex(commands.pe, commands.t_call)
        at = calls.latest_until(pe, time)
        last = np.append(calls.order, -1)[at]
        since = np.where(at < 0, -1, numbers.command(CommandEvent.CALL, last))
        events.work_since(origin, since, Work.ISSUE)

    def _explain_leaving(self, signals: Array) -> None:
        """A signal left: when PE_CPU had issued it, or when the last of the commands before it was done."""
        events, commands, syncs = self._events, self._rows.commands, self._syncs
        left, issued = self._sync(SyncEvent.ORIGIN, signals), self._sync(SyncEvent.ISSUED, signals)
        events.explain(left, issued)
        done, is_tie = TimestampIndex(commands.pe, commands.t_done).first(syncs.pe[signals], syncs.t_origin[signals])
        events.explain(left, np.where(done < 0, -1, events.numbers.command(CommandEvent.DONE, done)), tie=is_tie)
        events.give_up(left, issued)
