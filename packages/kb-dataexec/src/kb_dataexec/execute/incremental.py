"""PartialExecution: executes a log that is still being written, as far as values need it.

A record waits until a value depends on it. The bytes of tile buffers and registers are private to a command, except the
registers of a sum that a command leaves for the next one (`held_between_commands`).
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
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE, OPS_DTYPE
from kb_dataexec.log.tables import OpLog
from kb_dataexec.memory.store import MemoryStore, StoreError
from kb_dataexec.ops import one_by_one
from kb_dataexec.ops.slot_releases import insert_slots
from kb_messages import DType, MemorySpace, Rectangle, Role, space_code_of


def held_between_commands(rows: Array, command_seq: Array, listed: Array) -> Array:
    """Whether each of *rows*, operands of the commands *command_seq*, lies in registers of a sum that is held.

    A command holds a sum for others if it does not release the registers that it wrote, or reads registers that it did
    not write. Rows that are not *listed* do not count; they belong to commands whose records are not complete.
    """
    found = np.zeros(len(rows), bool)
    at = np.flatnonzero((rows["space"] == MemorySpace.REG.code) & listed)
    if not len(at):
        return found
    registers, seqs = rows[at], command_seq[at]
    columns = [registers[name] for name in RECTANGLE_COLUMNS]
    order = np.lexsort((registers["op_id"], *columns, seqs))
    keys = np.stack([seqs, *columns])[:, order]
    opens = np.append(True, (np.diff(keys) != 0).any(axis=0))
    first, last = order[opens], order[np.append(opens[1:], True)]
    is_held = ~np.isin(registers["role"][first], [role for role in Role if role.is_write])
    is_held |= registers["release"][last] == 0
    ends = registers["offset"] + (registers["rows"] - 1) * registers["stride"] + registers["row_nbytes"]
    sums = {(int(registers["owner"][n]), int(registers["offset"][n]), int(ends[n])) for n in first[is_held]}
    meets = np.zeros(len(at), bool)
    for owner, start, end in sorted(sums):
        meets |= (registers["owner"] == owner) & (registers["offset"] < end) & (ends > start)
    found[at] = meets
    return found


_PRIVATE_SPACES: Final = (MemorySpace.REG.code, MemorySpace.IMMEDIATE.code)
_WRITES: Final = tuple(role for role in Role if role.is_write)
_STEP: Final = 2
"""The distance of the numbers of two commands in a log by command, so that releases have numbers in between."""
_MOST_SCANS: Final = 4
"""The average number of searches through a waiting record before it is executed without being needed."""


class Unfinished(NamedTuple):
    """A command of which some records are missing, and the bytes that the command reads and writes in shared memory."""

    command_seq: int
    reads: Sequence[Rectangle]
    writes: Sequence[Rectangle]


class UnfinishedError(LookupError):
    """A value depends on unfinished commands. `command_seqs` has their numbers, ascending."""

    def __init__(self, command_seqs: list[int]) -> None:
        super().__init__(command_seqs)
        self.command_seqs = command_seqs


class PartialExecution:
    """Executes records on a snapshot of *memory*, the initial memory.

    Registers, immediates and the first `buffers[owner]` bytes of a memory are private to a command: the same command
    writes and releases them. Sums that stay in registers between commands are not private, nor is anything else in
    their bytes. All other bytes are shared between commands.

    The execution of a command changes bytes that earlier commands read or write. Earlier commands that share bytes with
    it are therefore executed first, even if nobody needs their results. The release of the slot of a message counts as
    a command that writes the slot. Records that were searched several times without being needed are executed too, so
    that the effort grows like n log n in the number of records, for any number of values.
    """

    def __init__(self, memory: MemoryStore, buffers: Mapping[int, int]) -> None:
        self._store = memory.snapshot()
        self._store.add_region(0, 1 << 62, MemorySpace.IMMEDIATE)
        self._immediate_nbytes = 0
        self._buffers = buffers
        self._ops = np.empty(0, OPS_DTYPE)
        self._operands = np.empty(0, OPERAND_DTYPE)
        self._command_of = np.empty(0, np.int64)
        self._releases = np.empty((0, 4), np.int64)
        self._n_new = self._n_scanned = 0
        self.n_executed = 0

    def release(self, slots: Array) -> None:
        """Adds slots of messages that came free: rows (command_seq, owner, offset, nbytes) of int64.

        The bytes are un-initialised before command *command_seq*.
        """
        self._releases = np.concatenate([self._releases, slots])

    def add(self, ops: Array, operands: Array, immediates: bytes = b"") -> None:
        """Adds new records: rows of both tables, and the bytes appended to the blob of immediates."""
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
        """Returns the elements of *wanted* after all records so far, in command order: a read-only array (rows, cols).

        Records of *unfinished* commands are not executed. Raises UnfinishedError if the value depends on such a
        command, LogError for an invalid log, and StoreError for a read of bytes that are not initialised or in no
        memory.
        """
        needed = self._needed(wanted, unfinished)
        missing = sorted(needed.commands.intersection(each.command_seq for each in unfinished))
        if missing:
            raise UnfinishedError(missing)
        self._run(needed, strings)
        value = self._store.read(*wanted.in_memory, dtype).copy()
        value.flags.writeable = False
        return value

    def _needed(self, wanted: Rectangle, unfinished: Sequence[Unfinished]) -> _Needed:
        """The work on which the bytes of *wanted* depends, found by one more command that reads these bytes.

        After enough searches in vain, this is all work that can be executed.
        """
        open_seqs = [each.command_seq for each in unfinished]
        reader = int(max([-1, *open_seqs, *self._ops["command_seq"].max(initial=-1, keepdims=True).tolist()])) + 1
        log = self._by_command([*unfinished, Unfinished(reader, [wanted], [])])
        found = dependencies(log)
        before = _before(found, [_STEP * reader + 1])
        self._n_scanned += len(self._ops)
        if self._n_scanned <= _MOST_SCANS * self._n_new or before.intersection(_STEP * each + 1 for each in open_seqs):
            return _Needed.of(before, reader)
        self._n_new = self._n_scanned = 0
        late = _after(found, [_STEP * each + 1 for each in open_seqs])
        return _Needed.of(set(found.op_id.tolist()) - late, reader)

    def _by_command(self, extra: Sequence[Unfinished]) -> OpLog:
        """The waiting records, releases and *extra* commands as a log of one op for each, on shared bytes alone.

        Command n has number _STEP * n + 1, and the releases before command n have _STEP * n.
        """
        extra_seqs = [each.command_seq for each in extra]
        rows, seqs = self._operands, self._command_of
        owners, which = np.unique(rows["owner"], return_inverse=True)
        own = np.array([self._buffers.get(owner, 0) for owner in owners.tolist()], np.int64)
        listed = ~np.isin(seqs, extra_seqs)
        shared = ~np.isin(rows["space"], _PRIVATE_SPACES) & listed
        if len(owners):
            shared &= rows["offset"] >= own[which]
        shared |= held_between_commands(rows, seqs, listed)
        table = rows[shared]
        table["op_id"] = _STEP * seqs[shared] + 1
        table["role"] = np.where(np.isin(table["role"], _WRITES), Role.DST, Role.SRC)
        released = _touches_of_releases(self._releases)
        table = np.concatenate([table, released, *(_touches(each) for each in extra)])
        commands = _STEP * np.union1d(self._ops["command_seq"], np.array(extra_seqs, np.int64)) + 1
        commands = np.union1d(commands, released["op_id"])
        ops = np.zeros(len(commands), OPS_DTYPE)
        ops["op_id"] = ops["command_seq"] = commands
        return OpLog(ops, table, ["command"], is_complete=False)

    def _run(self, needed: _Needed, strings: list[str]) -> None:
        """Executes the waiting records and releases that are *needed*, and removes them."""
        chosen = np.isin(self._ops["command_seq"], sorted(needed.commands))
        due = np.isin(self._releases[:, 0], sorted(needed.releases))
        if not chosen.any() and not due.any():
            return
        rows = np.isin(self._operands["op_id"], self._ops["op_id"][chosen])
        log = OpLog(self._ops[chosen], self._operands[rows], strings, is_complete=False)
        schedule = Schedule(log)
        insert_slots(schedule, self._releases[due])
        self._releases = self._releases[~due]
        try:
            one_by_one.run(schedule, self._store, 0, len(schedule.ops))
        except StoreError as error:
            raise explained(log, error) from error
        self.n_executed += log.n_ops
        self._ops, self._operands = self._ops[~chosen], self._operands[~rows]
        self._command_of = self._command_of[~rows]


class _Needed(NamedTuple):
    """The numbers of commands that a value needs, and those of commands before which slots have to be released."""

    commands: set[int]
    releases: set[int]

    @classmethod
    def of(cls, numbers: set[int], reader: int) -> _Needed:
        """The work with the *numbers* that `_by_command` gives, apart from command *reader*."""
        commands = {number // _STEP for number in numbers if number % _STEP}
        return cls(commands - {reader}, {number // _STEP for number in numbers if number % _STEP == 0})


def _touches_of_releases(releases: Array) -> Array:
    """The operands of releases, as writes."""
    table = np.zeros(len(releases), OPERAND_DTYPE)
    table["op_id"], table["owner"], table["offset"] = _STEP * releases[:, 0], releases[:, 1], releases[:, 2]
    table["role"], table["rows"], table["space"] = Role.DST, 1, releases[:, 1] >> 10 & 15
    table["row_nbytes"] = table["stride"] = releases[:, 3]
    return table


def _touches(command: Unfinished) -> Array:
    table = np.zeros(len(command.reads) + len(command.writes), OPERAND_DTYPE)
    roles = [Role.SRC] * len(command.reads) + [Role.DST] * len(command.writes)
    for row, role, rectangle in zip(table, roles, (*command.reads, *command.writes), strict=True):
        row["op_id"], row["role"] = _STEP * command.command_seq + 1, role
        for name, number in zip(RECTANGLE_COLUMNS, rectangle.in_memory, strict=True):
            row[name] = number
        row["space"] = space_code_of(row["owner"])
    return table


def _before(found: Dependencies, command_seqs: Iterable[int]) -> set[int]:
    """*command_seqs* and the commands that they follow, directly or not."""
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
    """*command_seqs* and the commands that follow them, directly or not."""
    first, producer = found.first.tolist(), found.producer.tolist()
    seen = set(np.searchsorted(found.op_id, sorted(command_seqs)).tolist())
    for at in range(len(found.op_id)):
        if at not in seen and not seen.isdisjoint(producer[first[at] : first[at + 1]]):
            seen.add(at)
    return set(found.op_id[sorted(seen)].tolist())
