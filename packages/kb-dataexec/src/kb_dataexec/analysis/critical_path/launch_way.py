"""LaunchWay: the way of a launch over the processors of the chip, hop by hop, down to the programs and back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kb_dataexec.analysis.critical_path.rows import PathRows
from kb_dataexec.analysis.stream_calls import LaunchCall
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.table_dtypes import TABLE_DTYPES
from kb_messages import MessageKind, SyncReason


class HopSegment(NamedTuple):
    """A hop of the way: `block` did the work `what` from `start_ps` to `end_ps`."""

    start_ps: int
    end_ps: int
    block: str
    what: str


class LaunchWay:
    """The messages of launch number *launch*, whose programs are the rows *kernels* of the table of kernels.

    The way of a launch of a stream begins at `call_ps` when the launch has waited for all that comes before it: for
    earlier calls and events at the host, and for the launch before it in the first processor.
    """

    def __init__(self, rows: PathRows, launch: int, kernels: Array) -> None:
        messages = rows.optional("messages")
        messages = messages[messages["launch"] == launch]
        self._strings = rows.log.strings
        self._requests = messages[messages["message"] == MessageKind.REQUEST]
        self._responses = messages[messages["message"] == MessageKind.RESPONSE]
        programs = rows.kernels[kernels]
        self.call_ps = int(programs["t_called_ps"].min())
        self.first_start_ps = int(programs["t_start_ps"].min())
        self.last_end_ps = int(programs["t_end_ps"].max())
        self._host = int(self._requests["src"][0]) if len(self._requests) else -1
        self._busy = np.empty(0, TABLE_DTYPES["waits"])
        call = LaunchCall.of(rows.optional("calls"), launch)
        if call is not None:
            self.call_ps = self._begin_ps(rows, call)
            waits = rows.optional("waits")
            self._busy = waits[(waits["reason"] == SyncReason.PE_BUSY) & (waits["next_seq"] == call.number)]
        answers = self._responses[self._responses["dst"] == self._host]
        self.answer_ps = max(int(answers["t_arrived_ps"].max(initial=0)), self.last_end_ps)

    def _begin_ps(self, rows: PathRows, call: LaunchCall) -> int:
        """When the launch of *call* did not wait for earlier work any more; the time of the call where it never did."""
        began_ps = call.called_ps if call.sent_ps == call.made_ps else call.sent_ps
        first = self._requests[self._requests["src"] == self._host]
        if call.before < 0 or not len(first):
            return began_ps
        processor, passed_on = first["dst"][0], self._requests[self._requests["src"] == first["dst"][0]]
        messages = rows.optional("messages")
        answers = messages[(messages["launch"] == call.before) & (messages["message"] == MessageKind.RESPONSE)]
        answers = answers["t_arrived_ps"][answers["dst"] == processor]
        waited = len(answers) and len(passed_on) and answers.max() == passed_on["t_sent_ps"].min()
        return max(began_ps, int(answers.max())) if waited else began_ps

    def down(self, start_ps: int) -> list[HopSegment]:
        """Returns the hops from the call to the start of a program at *start_ps*, the latest first.

        A program that starts later than its message comes waits for the PE that the launch reaches last, or for an
        earlier launch on its PE. Without messages there is no host: a program that starts later than the call starts up
        until then.
        """
        hops = self._down(self._left_to_it_ps(start_ps), start_ps)
        kept = [hop._replace(start_ps=max(hop.start_ps, self.call_ps)) for hop in hops]
        return [hop for hop in kept if hop.end_ps > hop.start_ps]

    def _left_to_it_ps(self, start_ps: int) -> tuple[int, int]:
        """The last wait of the launch for a PE before *start_ps*, from when to when; (start_ps, start_ps) for none."""
        busy = self._busy[self._busy["to_ps"] <= start_ps]
        if not len(busy):
            return start_ps, start_ps
        last = busy[np.argmax(busy["to_ps"])]
        return int(last["from_ps"]), int(last["to_ps"])

    def _down(self, busy_ps: tuple[int, int], start_ps: int) -> list[HopSegment]:
        due_ps, free_ps = busy_ps
        found: list[HopSegment] = []
        if free_ps > due_ps:
            found += [HopSegment(free_ps, start_ps, "pe_cpu", "startup"), HopSegment(due_ps, free_ps, "pe_cpu", "busy")]
        if not len(self._requests) and not len(self._responses) and due_ps > self.call_ps:
            return [*found, HopSegment(self.call_ps, due_ps, "pe_cpu", "startup")]
        last = ~np.isin(self._requests["dst"], self._requests["src"])
        at = self._latest(self._requests, last & (self._requests["t_arrived_ps"] <= due_ps))
        if at is None:
            return found + _unknown(self.call_ps, due_ps)
        time = due_ps
        while at is not None:
            hop = self._requests[at]
            sent, arrived = int(hop["t_sent_ps"]), int(hop["t_arrived_ps"])
            reads = "barrier" if time == due_ps else "dispatch"
            found.append(HopSegment(arrived, time, self._block(hop["dst"]), reads))
            found.append(HopSegment(sent, arrived, "links", "request"))
            time = sent
            came = (self._requests["dst"] == hop["src"]) & (self._requests["t_arrived_ps"] <= time)
            at = self._latest(self._requests, came)
        found.append(HopSegment(self.call_ps, time, self._block(self._host), "call"))
        return found

    def up(self) -> list[HopSegment]:
        """Returns the hops from the end of the last program to the last answer, the latest first."""
        found: list[HopSegment] = []
        time, node = self.answer_ps, self._host
        while time > self.last_end_ps:
            at = self._latest(
                self._responses, (self._responses["dst"] == node) & (self._responses["t_arrived_ps"] <= time)
            )
            if at is None:
                return found + _unknown(self.last_end_ps, time)
            hop = self._responses[at]
            sent, arrived = (max(int(hop[name]), self.last_end_ps) for name in ("t_sent_ps", "t_arrived_ps"))
            found.append(HopSegment(arrived, time, self._block(node), "answer"))
            found.append(HopSegment(sent, arrived, "links", "response"))
            time, node = sent, int(hop["src"])
        return found

    @staticmethod
    def _latest(messages: Array, among: Array) -> int | None:
        """The message that arrived last; of several, the first."""
        which = np.flatnonzero(among)
        return int(which[np.argmax(messages["t_arrived_ps"][which])]) if len(which) else None

    def _block(self, node: int) -> str:
        return self._strings[node].rpartition(".")[2]


def _unknown(start_ps: int, end_ps: int) -> list[HopSegment]:
    return [HopSegment(start_ps, end_ps, "unknown", "unknown")]
