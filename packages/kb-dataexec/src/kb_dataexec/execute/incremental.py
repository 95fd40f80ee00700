"""A log that is still being written, executed as far as values are asked for.

What a value depends on is found by commands, exact to the byte, and executed by commands: their records in order, one
at a time, so that a value does not follow from what else happens to be executed with it. Nothing is executed twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.analysis.dependencies import Dependencies, dependencies
from kb_dataexec.analysis.provenance import explained
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.columns import RECTANGLE_COLUMNS
from kb_dataexec.log.schedule import Schedule
from kb_dataexec.log.tables import OPERAND_DTYPE, OPS_DTYPE, OpLog
from kb_dataexec.memory.store import MemoryStore, StoreError
from kb_dataexec.ops import one_by_one as tilewise
from kb_messages import DType, MemorySpace, Rectangle, Role, space_code_of

_PRIVATE_SPACES: Final = (MemorySpace.REG.code, MemorySpace.IMMEDIATE.code)
_WRITES: Final = tuple(role for role in Role if role.is_write)
_MOST_SCANS: Final = 4


class Unfinished(NamedTuple):
    """A command whose records are not all there, and the bytes it reads and writes in shared memory."""

    command_seq: int
    reads: Sequence[Rectangle]
    writes: Sequence[Rectangle]


class UnfinishedError(LookupError):
    """A value depends on commands that are not done: `command_seqs`, ascending."""

    def __init__(self, command_seqs: list[int]) -> None:
        super().__init__(command_seqs)
        self.command_seqs = command_seqs


class PartialExecution:
    """Executes the records it is given on a copy of *memory*, the initial one.

    Registers, immediates and the first `buffers[owner]` bytes of a memory are a command's own: what is in them is
    written and released by the same command. Commands meet in all other bytes.

    A command that is executed leaves what earlier ones read or wrote no more as it was, so those among them that share
    bytes with it are executed first, whether their results are asked for or not. What was looked through
    several times without being needed is executed too: the effort grows like n log n in the records, however often a
    value is asked for.
    """

    def __init__(self, memory: MemoryStore, buffers: Mapping[int, int]) -> None:
        self._store = memory.snapshot()
        self._store.add_region(0, 1 << 62, MemorySpace.IMMEDIATE)
        self._immediate_nbytes = 0
        self._buffers = buffers
        self._ops = np.empty(0, OPS_DTYPE)
        self._operands = np.empty(0, OPERAND_DTYPE)
        self._command_of = np.empty(0, np.int64)
        self._n_new = self._n_scanned = 0
        self.n_executed = 0

    def add(self, ops: Array, operands: Array, immediates: bytes = b"") -> None:
        """Take records that were written since the last time, and what was added to the blob of immediates."""
        if immediates:
            self._store.write(0, self._immediate_nbytes, immediates)
            self._immediate_nbytes += len(immediates)
        order = np.argsort(ops["op_id"])
        at = order[np.searchsorted(ops["op_id"], operands["op_id"], sorter=order)]
        self._ops = np.concatenate([self._ops, ops])
        self._operands = np.concatenate([self._operands, operands])
        self._command_of = np.concatenate([self._command_of, ops["command_seq"][at]])
        self._n_new += len(ops)

    def value(
        self, wanted: Rectangle, dtype: DType, strings: list[str], unfinished: Sequence[Unfinished] = ()
    ) -> Array:
        """The elements of *wanted* after all records so far, in command order: rows x cols, read-only.

        Records of *unfinished* commands are not executed. Raises UnfinishedError when the value depends on one, and
        LogError and StoreError as `Executor.run` does.
        """
        needed = self._needed(wanted, unfinished)
        open_seqs = [each.command_seq for each in unfinished]
        missing = sorted(needed.intersection(open_seqs))
        if missing:
            raise UnfinishedError(missing)
        self._run(np.isin(self._ops["command_seq"], sorted(needed)), strings)
        value = self._store.read(*wanted.in_memory, dtype).copy()
        value.flags.writeable = False
        return value

    def _needed(self, wanted: Rectangle, unfinished: Sequence[Unfinished]) -> set[int]:
        """The commands that the bytes of *wanted* follow from; all that can be executed when enough were passed over.

        Finds who wrote the bytes last by letting one more command read them.
        """
        open_seqs = [each.command_seq for each in unfinished]
        reader = int(max([-1, *open_seqs, *self._ops["command_seq"].max(initial=-1, keepdims=True).tolist()])) + 1
        log = self._by_command([*unfinished, Unfinished(reader, [wanted], [])])
        found = dependencies(log)
        before = _before(found, [reader])
        self._n_scanned += len(self._ops)
        if self._n_scanned <= _MOST_SCANS * self._n_new or before.intersection(open_seqs):
            return before - {reader}
        self._n_new = self._n_scanned = 0
        return set(found.op_id.tolist()) - _after(found, open_seqs) - {reader}

    def _by_command(self, extra: Sequence[Unfinished]) -> OpLog:
        """The records that wait, as a log of one op a command that reads and writes what its records do in shared
        bytes; of *extra* commands, what they say."""
        extra_seqs = [each.command_seq for each in extra]
        rows, seqs = self._operands, self._command_of
        owners, which = np.unique(rows["owner"], return_inverse=True)
        own = np.array([self._buffers.get(owner, 0) for owner in owners.tolist()], np.int64)
        shared = ~np.isin(rows["space"], _PRIVATE_SPACES) & ~np.isin(seqs, extra_seqs)
        if len(owners):
            shared &= rows["offset"] >= own[which]
        table = rows[shared]
        table["op_id"] = seqs[shared]
        table["role"] = np.where(np.isin(table["role"], _WRITES), Role.DST, Role.SRC)
        table = np.concatenate([table, *(_touches(each) for each in extra)])
        commands = np.union1d(self._ops["command_seq"], extra_seqs)
        ops = np.zeros(len(commands), OPS_DTYPE)
        ops["op_id"] = ops["command_seq"] = commands
        return OpLog(ops, table, ["command"])

    def _run(self, chosen: Array, strings: list[str]) -> None:
        """Execute the records *chosen* and strike them off."""
        if not chosen.any():
            return
        rows = np.isin(self._operands["op_id"], self._ops["op_id"][chosen])
        log = OpLog(self._ops[chosen], self._operands[rows], strings)
        schedule = Schedule(log)
        try:
            tilewise.run(schedule, self._store, 0, len(schedule.ops))
        except StoreError as error:
            raise explained(log, error) from error
        self.n_executed += len(schedule.ops)
        self._ops, self._operands = self._ops[~chosen], self._operands[~rows]
        self._command_of = self._command_of[~rows]


def _touches(command: Unfinished) -> Array:
    table = np.zeros(len(command.reads) + len(command.writes), OPERAND_DTYPE)
    roles = [Role.SRC] * len(command.reads) + [Role.DST] * len(command.writes)
    for row, role, rectangle in zip(table, roles, (*command.reads, *command.writes), strict=True):
        row["op_id"], row["role"] = command.command_seq, role
        for name, number in zip(RECTANGLE_COLUMNS, rectangle.in_memory, strict=True):
            row[name] = number
        row["space"] = space_code_of(row["owner"])
    return table


def _before(found: Dependencies, command_seqs: Iterable[int]) -> set[int]:
    """The commands that *command_seqs* follow, directly or not, and these."""
    ids, first, producer = found.op_id, found.first.tolist(), found.producer
    todo = np.searchsorted(ids, sorted(command_seqs)).tolist()
    seen = set(todo)
    while todo:
        at = todo.pop()
        new = [each for each in producer[first[at] : first[at + 1]].tolist() if each not in seen]
        seen.update(new)
        todo += new
    return set(ids[sorted(seen)].tolist())


def _after(found: Dependencies, command_seqs: Iterable[int]) -> set[int]:
    """The commands that follow *command_seqs*, directly or not, and these."""
    first, producer = found.first.tolist(), found.producer.tolist()
    seen = set(np.searchsorted(found.op_id, sorted(command_seqs)).tolist())
    for at in range(len(found.op_id)):
        if at not in seen and not seen.isdisjoint(producer[first[at] : first[at + 1]]):
            seen.add(at)
    return set(found.op_id[sorted(seen)].tolist())
