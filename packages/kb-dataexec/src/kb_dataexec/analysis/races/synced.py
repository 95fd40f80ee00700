"""Synced: the accesses of a log whose programs wait for each other, and the order that this gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kb_dataexec.analysis.hazards import pe_of
from kb_dataexec.analysis.races.far_accesses import Accesses
from kb_dataexec.analysis.races.message_order import MessageOrder
from kb_dataexec.analysis.races.race_pairs import homes
from kb_dataexec.analysis.races.slots import in_own_slots
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.table_dtypes import TABLE_DTYPES


class Synced(NamedTuple):
    """`pe` and `seq` are the PE and the command of each access. `by_protocol` marks accesses to slots that are in order
    by themselves."""

    order: MessageOrder
    pe: Array
    seq: Array
    by_protocol: Array

    @classmethod
    def of(cls, found: Accesses, tables: Mapping[str, Array], strings: Sequence[str], launch: Array) -> Synced | None:
        """Returns the order of the accesses *found* of launches *launch*; None if *tables* have no rows."""
        if not any(map(len, tables.values())):
            return None
        numbers: dict[str, int] = {}
        pe_of_component = np.full(len(strings), -1, np.int64)
        for index in np.unique(found.component).tolist():
            pe_of_component[index] = numbers.setdefault(pe_of(strings[index]), len(numbers))
        pe = pe_of_component[found.component]

        def pe_of_commands(command_seq: Array) -> Array:
            at = np.minimum(np.searchsorted(found.command_seq, command_seq), len(pe) - 1)
            return np.where(found.command_seq[at] == command_seq, pe[at], -1)

        sends = tables.get("sends", np.empty(0, TABLE_DTYPES["sends"]))
        order = MessageOrder(tables, strings, numbers, pe_of_commands)
        own = in_own_slots(found, homes(found.owner, launch), pe, sends, order.pe_of_text[sends["dst"]])
        return cls(order, pe, found.command_seq, own)

    def is_ordered(self, first: Array, second: Array) -> Array:
        """Whether messages, credits or signals put each access *first* before the access *second*, by their numbers."""
        return self.order.ordered(self.pe[first], self.seq[first], self.pe[second], self.seq[second])
