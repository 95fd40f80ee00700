"""The order of messages, credits and signals, against paths in the graph of everything that programs do."""

from collections import deque
from itertools import combinations

import numpy as np
import pytest
from dataexec_tables import table_of
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_dataexec.analysis.races.message_order import MessageOrder
from kb_dataexec.log.table_dtypes import TABLE_DTYPES
from kb_messages import SyncReason

PES, DEPTH = 4, 2
STRINGS = [*(f"pe{number}" for number in range(PES)), "tag 0", "k.py:1"]
TAG, LINE = PES, PES + 1


class Programs:
    """Programs on PES PEs that do one thing after the other. Everything that is done is a node of `before`."""

    def __init__(self):
        self.seq = self.t_ps = 0
        self.before, self.last = [], [None] * PES
        self.commands, self.messages, self.signals, self.waits = [], [], [], []
        self.credits = {(a, b): deque((slot, None) for slot in range(DEPTH)) for a in range(PES) for b in range(PES)}
        self.coming, self.held, self.n_joined = {}, {}, {}

    def node(self, pe, *after):
        self.t_ps += 10
        self.before.append({each for each in (self.last[pe], *after) if each is not None})
        self.last[pe] = len(self.before) - 1
        return self.last[pe]

    def command(self, pe, _):
        self.commands.append((pe, self.seq, self.node(pe)))
        self.seq += 1

    def send(self, pe, to):
        if to == pe or not self.credits[pe, to]:
            return
        slot, freed = self.credits[pe, to].popleft()
        message = {"src": pe, "dst": to, "slot": slot, "command_seq": self.seq, "t_credit_ps": self.t_ps + 10}
        message["sent"] = self.node(pe, freed)
        self.commands.append((pe, self.seq, message["sent"]))
        self.seq += 1
        self.messages.append(message)
        self.coming.setdefault((pe, to), deque()).append(message)

    def take(self, pe, source):
        if self.coming.get((source, pe)):
            message = self.coming[source, pe].popleft()
            self.node(pe, message["sent"])
            message |= {"take_seq": self.seq, "t_taken_ps": self.t_ps}
            self.held.setdefault((source, pe), deque()).append(message)

    def free(self, pe, source):
        if self.held.get((source, pe)):
            message = self.held[source, pe].popleft()
            message |= {"free_seq": self.seq, "t_freed_ps": self.t_ps + 10}
            self.credits[source, pe].append((message["slot"], self.node(pe)))

    def signal(self, pe, to):
        if to != pe:
            node, number = self.node(pe), len(self.signals)
            times = self.t_ps, self.t_ps, self.t_ps + 5
            self.signals.append((node, (number, pe, to, TAG, 1, *times, LINE, self.seq)))

    def wait(self, pe, n):
        mine = [number for number, (_, row) in enumerate(self.signals) if row[2] == pe]
        if len(mine) > n:
            self.node(pe, *(self.signals[number][0] for number in mine[: n + 1]))
            self.waits.append((pe, LINE, SyncReason.SIGNAL, self.t_ps - 1, self.t_ps, mine[n], self.seq))

    def order(self):
        sends = np.full(len(self.messages), -1, TABLE_DTYPES["sends"])
        for row, message in zip(sends, self.messages, strict=True):
            for name in TABLE_DTYPES["sends"].names:
                row[name] = message.get(name, -1)
            row["tag"], row["line_taken"] = TAG, LINE
        signals = table_of("signals", [row for _, row in self.signals])
        waits = table_of("waits", self.waits)
        pe_of = {seq: pe for pe, seq, _ in self.commands}
        tables = {"sends": sends, "signals": signals, "waits": waits}
        numbers = {f"pe{number}": number for number in range(PES - 1)}  # the last PE has no record of its own
        return MessageOrder(
            tables, STRINGS, numbers, lambda seqs: np.array([pe_of[seq] for seq in seqs.tolist()], np.int64)
        )

    def after(self, node):
        seen, todo = set(), [node]
        while todo:
            at = todo.pop()
            todo += self.before[at] - seen
            seen |= self.before[at]
        return seen


actions = st.tuples(
    st.sampled_from(["command", "command", "send", "send", "take", "take", "free", "signal", "wait"]),
    st.integers(0, PES - 1),
    st.integers(0, PES - 1),
)


@settings(max_examples=examples(200))
@given(st.lists(actions, max_size=60))
def test_two_commands_are_in_order_where_a_path_leads_from_one_to_the_other(made):
    programs = Programs()
    for name, pe, other in made:
        getattr(programs, name)(pe, other)
    pairs = list(combinations(programs.commands, 2))
    columns = [np.array(column, np.int64) for column in zip(*((*a[:2], *b[:2]) for a, b in pairs), strict=True)]
    found = programs.order().ordered(*columns or [np.empty(0, np.int64)] * 4)
    wanted = [a[0] != b[0] and a[2] in programs.after(b[2]) for a, b in pairs]
    assert found.tolist() == wanted


def test_a_pe_that_sends_and_receives_nothing_is_in_no_order():
    programs = Programs()
    programs.command(PES - 1, None)
    programs.send(2, 0)
    programs.take(0, 2)
    programs.command(0, None)
    first, _, last = programs.commands
    asked = [np.array([each]) for each in (*first[:2], *last[:2])]
    assert programs.order().ordered(*asked).tolist() == [False]


def test_a_credit_puts_reads_of_a_slot_before_the_message_that_fills_it_next():
    programs = Programs()
    for _ in range(DEPTH):
        programs.send(0, 1)
    programs.take(1, 0)
    programs.command(1, None)
    programs.free(1, 0)
    programs.command(1, None)
    programs.send(0, 1)
    read, late, sent = programs.commands[-3:]
    order = programs.order()
    for command, is_before in ((read, True), (late, False)):
        asked = [np.array([each]) for each in (*command[:2], *sent[:2])]
        assert order.ordered(*asked).tolist() == [is_before]


@pytest.mark.parametrize("is_early", [True, False])
def test_a_wait_that_ended_after_the_call_of_a_signal_is_not_before_it(is_early):
    """PE 1 signals PE 2, which leaves late, and waits for PE 0 before or after the call, between the same commands."""
    tables = {
        "signals": table_of(
            "signals", [(0, 0, 1, TAG, 1, 10, 10, 20, LINE, 1), (1, 1, 2, TAG, 1, 40, 90, 95, LINE, 2)]
        ),
        "waits": table_of(
            "waits",
            [
                (1, LINE, SyncReason.SIGNAL, 20, 30 if is_early else 50, 0, 2),
                (2, LINE, SyncReason.BARRIER, 60, 95, 1, 3),
            ],
        ),
    }
    order = MessageOrder(tables, STRINGS, {"pe0": 0, "pe1": 1, "pe2": 2}, lambda seqs: seqs)
    asked = [np.array([each]) for each in (0, 0, 2, 3)]
    assert order.ordered(*asked).tolist() == [is_early]
