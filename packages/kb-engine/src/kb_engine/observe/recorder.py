"""The op log as pass 1 writes it: five integers a stage service, made into the two tables a chunk at a time.

Everything else a record says follows from the command's plan and its buffer slots, so it is computed for a whole
chunk at once, off the simulation's path. Op ids are given out when a command is issued, in pass 2's order.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from typing import Final

import numpy as np

from kb_dataexec import LogWriter, OpLog
from kb_dataexec.log import LogSummary
from kb_engine.block.in_flight import CommandInFlight
from kb_engine.observe.chip import Chip
from kb_engine.observe.observer import Observer
from kb_engine.observe.record_tables import CommandGroup, Ints, Rows, structure
from kb_messages import (
    OPERAND_COLUMNS,
    OPS_COLUMNS,
    LogError,
    Matrix,
    MemorySpace,
    OpKind,
    PhysAddr,
    Role,
    WaitReason,
    split_address,
)
from kb_topology import NodeKind

_FIELDS: Final = 5
_CHUNK_RECORDS: Final = 1 << 14
_CHUNK_RECORDS_A_PE: Final = 1 << 8
"""Filling a chunk costs by command that is in it, so chips with many PEs get longer ones."""
_OPS_DTYPE: Final = np.dtype(list(OPS_COLUMNS))
_OPERAND_DTYPE: Final = np.dtype(list(OPERAND_COLUMNS))
_OPERAND_BYTES: Final = np.dtype((np.void, _OPERAND_DTYPE.itemsize))
_TIMES: Final = ("t_ready_ps", "t_start_ps", "t_end_ps", "t_out_ps")


class Recorder(Observer):
    """Collects the records of all stages and writes them, a chunk at a time, to a LogWriter.

    The chip says in which memories, by PE id, the tile buffers and the registers of a PE lie.
    """

    def __init__(self, writer: LogWriter) -> None:
        self.writer = writer
        self._tcm_owner: dict[str, int] = {}
        self._reg_owner: dict[str, int] = {}
        self._chunk_records = _CHUNK_RECORDS
        self._pending: list[int] = []
        self._waits: list[tuple[int, int, int]] = []
        self._contexts: list[CommandInFlight] = []
        self._first_ops: list[int] = []
        self._constants: dict[bytes, tuple[int, int]] = {}
        self.on_stage = self._pending.extend  # type: ignore[method-assign]  # a call of C, and no frame of Python

    @property
    def unfinished(self) -> list[CommandInFlight]:
        """The commands that were issued and are not done, in the order in which they were issued."""
        return [context for context in self._contexts if context.remaining]

    def on_built(self, chip: Chip) -> None:
        """Look up the memories of every PE."""
        owners = {NodeKind.PE_TCM: self._tcm_owner, NodeKind.PE_FETCH_STORE: self._reg_owner}
        for node in chip.topology.graph.nodes.values():
            if node.kind in owners:
                owners[node.kind][str(node.pe_id)] = chip.topology.address_map.region_of_node(node.id).owner
        self._chunk_records = max(_CHUNK_RECORDS, _CHUNK_RECORDS_A_PE * len(self._tcm_owner))

    def on_issue(self, command: CommandInFlight) -> None:
        """Take note of *command* before its first record."""
        self._contexts.append(command)
        self._first_ops.append(command.first_op)

    def on_wait(self, op_id: int, reason: WaitReason, waited_ps: int) -> None:
        """Keep the wait until the record is written."""
        self._waits.append((op_id, reason, waited_ps))

    def on_housekeeping(self) -> None:
        """Write the pending records when they fill a chunk."""
        if len(self._pending) >= self._chunk_records * _FIELDS:
            self.flush()

    def flush(self) -> None:
        """Write the pending records."""
        if not self._pending:
            return
        dynamic = np.frombuffer(_int64(self._pending), dtype=np.int64).reshape(-1, _FIELDS)
        self._pending.clear()
        ops = np.zeros(len(dynamic), dtype=_OPS_DTYPE)
        ops["op_id"] = dynamic[:, 0]
        for column, name in enumerate(_TIMES, start=1):
            ops[name] = dynamic[:, column]
        self._fill_waits(ops)
        groups = self._groups(ops["op_id"])
        for group in groups:
            group.fill_ops(ops)
        self.writer.append(ops, self._operand_table(ops["op_id"], groups))
        self._forget_finished()

    def close(self) -> OpLog | LogSummary:
        """Write the pending records and end the log."""
        self.flush()
        return self.writer.close()

    def _groups(self, op_ids: Ints) -> list[CommandGroup]:
        """The records of a chunk by the structure of their commands, texts noted."""
        owner = np.searchsorted(np.asarray(self._first_ops), op_ids, side="right") - 1
        seen = np.flatnonzero(np.bincount(owner, minlength=len(self._contexts)))
        members: list[list[CommandInFlight]] = []
        group_of, number_of = (np.zeros(len(self._contexts), dtype=np.int64) for _ in range(2))
        known: dict[Hashable, int] = {}
        by_plan: dict[int, int] = {}  # commands may share a plan
        for at in seen.tolist():
            context = self._contexts[at]
            group = by_plan.get(id(context.plan))
            if group is None:
                group = by_plan[id(context.plan)] = known.setdefault(structure(context.plan), len(members))
                if group == len(members):
                    members.append([])
            group_of[at], number_of[at] = group, len(members[group])
            members[group].append(context)
        order = np.argsort(group_of[owner], kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(group_of[owner[order]])) + 1)
        groups = [
            CommandGroup(commands, rows, number_of[owner[rows]], op_ids, self._owners(commands))
            for commands, rows in zip(members, parts, strict=True)
        ]
        for at in seen.tolist():
            groups[group_of[at]].intern(int(number_of[at]), self.writer.intern)
        return groups

    def _owners(self, commands: list[CommandInFlight]) -> tuple[list[int], list[int]]:
        pes = [command.submitted.pe for command in commands]
        return [self._tcm_owner[pe] for pe in pes], [self._reg_owner.get(pe, 0) for pe in pes]

    def _forget_finished(self) -> None:
        """Drop the commands before the first that is still in flight: all their records are written."""
        done = 0
        while done < len(self._contexts) and not self._contexts[done].remaining:
            done += 1
        del self._contexts[:done], self._first_ops[:done]

    def constant(self, element: bytes, count: int) -> int:
        """Where the blob of immediates has *count* times the bytes *element*, written if it has not yet."""
        offset, known = self._constants.get(element, (0, 0))
        if known < count:
            offset = self.writer.immediate(element * count)
            self._constants[element] = offset, count
        return offset

    def host_write(self, matrix: Matrix, data: bytes, command_seq: int, op_id: int, times_ps: tuple[int, int]) -> None:
        """Record bytes that the host wrote between two launches, from its first to its second *times_ps*."""
        self.flush()
        writer = self.writer
        ops = np.zeros(1, dtype=_OPS_DTYPE)
        texts = {"name": "host_write", "component": "host", "line": "host", "params": "{}"}
        for column, text in texts.items():
            ops[column] = writer.intern(text)
        ops["op_id"], ops["command_seq"], ops["kind"] = op_id, command_seq, OpKind.MEMORY
        ops["t_ready_ps"] = ops["t_start_ps"] = times_ps[0]
        ops["t_end_ps"] = ops["t_out_ps"] = times_ps[1]
        operands = np.zeros(2, dtype=_OPERAND_DTYPE)
        operands["op_id"], operands["dtype"] = op_id, matrix.dtype.info.code
        operands["rows"], operands["row_nbytes"] = matrix.rows, matrix.row_nbytes
        operands["role"] = (Role.SRC, Role.DST)
        operands["space"] = (MemorySpace.IMMEDIATE.code, PhysAddr.decode(matrix.address).space.code)
        owner, offset = split_address(matrix.address)
        operands["owner"] = (0, owner)
        operands["offset"] = (writer.immediate(data), offset)
        operands["stride"] = (matrix.row_nbytes, matrix.stride)
        writer.append(ops, operands)

    def _fill_waits(self, ops: Rows) -> None:
        channel = ops["t_start_ps"] - ops["t_ready_ps"]
        if self._waits:
            waits = np.array(self._waits, dtype=np.int64)
            self._waits.clear()
            order = np.argsort(ops["op_id"], kind="stable")
            rows = order[np.searchsorted(ops["op_id"], waits[:, 0], sorter=order)]
            for reason in WaitReason:
                mine = waits[:, 1] == reason
                np.add.at(ops[f"wait_{reason.name.lower()}_ps"], rows[mine], waits[mine, 2])
                np.subtract.at(channel, rows[mine], waits[mine, 2])
        ops["wait_channel_ps"] = channel

    def _operand_table(self, op_ids: Ints, groups: list[CommandGroup]) -> Rows:
        """The operands of all groups' records, in the order of their ops."""
        counts = np.zeros(len(op_ids), dtype=np.int64)
        for group in groups:
            for template, mine in group.stages:
                for operand in template.operands:
                    counts[group.rows[group.users(operand, mine)]] += 1
        ends = np.cumsum(counts)
        table = np.empty(int(ends[-1]), dtype=_OPERAND_DTYPE)
        table_bytes = table.view(_OPERAND_BYTES)
        scratch = np.empty(len(op_ids), dtype=_OPERAND_DTYPE)
        scratch_bytes = scratch.view(_OPERAND_BYTES)
        free = ends - counts
        for group in groups:
            for stage, (template, mine) in enumerate(group.stages):
                for number, operand in enumerate(template.operands):
                    users = group.users(operand, mine)
                    if len(users):
                        rows = group.rows[users]
                        group.fill(scratch[: len(users)], stage, number, users)
                        table_bytes[free[rows]] = scratch_bytes[: len(users)]
                        free[rows] += 1
        table["op_id"] = np.repeat(op_ids, counts)
        return table


def _int64(values: list[int]) -> array[int]:
    try:
        return array("q", values)
    except OverflowError:
        got, needs = "a time that does not fit 64 bits", "less than 106 days of simulated time"
        raise LogError("op log", got, needs, "look for a latency or bandwidth of that size") from None
