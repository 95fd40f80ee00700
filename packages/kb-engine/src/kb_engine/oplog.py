"""The op log as pass 1 writes it: five integers a stage service, made into the two tables a chunk at a time.

Everything else a record says follows from the command's plan and its buffer slots, so it is computed for a whole
chunk at once, off the simulation's path. Op ids are given out when a command is issued, in pass 2's order.
"""

from __future__ import annotations

from array import array
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from kb_dataexec.logfile import LogWriter
from kb_engine.buffers import Slots
from kb_engine.pipeline import PipelineContext
from kb_messages.address import OFFSET_BITS, OFFSET_MASK, MemorySpace, PhysAddr
from kb_messages.commands import Matrix
from kb_messages.oplog import OPERAND_COLUMNS, OPS_COLUMNS, OpKind, Role, WaitReason
from kb_messages.stages import Axis, OperandTemplate, Place, StageTemplate, StageType, When

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.void]
_FIELDS: Final = 5
_CHUNK_RECORDS: Final = 1 << 14
_CHUNK_RECORDS_A_PE: Final = 1 << 8
"""Filling a chunk costs by command that is in it, so chips with many PEs get longer ones."""
_OPS_DTYPE: Final = np.dtype(list(OPS_COLUMNS))
_OPERAND_DTYPE: Final = np.dtype(list(OPERAND_COLUMNS))
_OPERAND_BYTES: Final = np.dtype((np.void, _OPERAND_DTYPE.itemsize))
_KINDS: Final = {StageType.GEMM: OpKind.GEMM, StageType.MATH: OpKind.MATH}
_TIMES: Final = ("t_ready_ps", "t_start_ps", "t_end_ps", "t_out_ps")


class OpLogger:
    """Collects what the ComponentBase hook reports and hands finished chunks to a LogWriter.

    `tcm_owner` and `reg_owner` give, by PE id, the memories a PE's buffers lie in.
    """

    def __init__(self, writer: LogWriter, tcm_owner: dict[str, int], reg_owner: dict[str, int]) -> None:
        self._writer = writer
        self._tcm_owner = tcm_owner
        self._reg_owner = reg_owner
        self._chunk_records = max(_CHUNK_RECORDS, _CHUNK_RECORDS_A_PE * len(tcm_owner))
        self._pending: list[int] = []
        self._waits: list[tuple[int, int, int]] = []
        self._contexts: list[PipelineContext] = []
        self._first_ops: list[int] = []
        self.record = self._pending.extend

    def add_command(self, context: PipelineContext) -> None:
        """Announce a command before its first record."""
        self._contexts.append(context)
        self._first_ops.append(context.first_op)

    def record_wait(self, op_id: int, reason: WaitReason, waited_ps: int) -> None:
        """A wait of an op whose record is written at the same time."""
        self._waits.append((op_id, reason, waited_ps))

    def flush_if_full(self) -> None:
        """Write the pending records when they fill a chunk."""
        if len(self._pending) >= self._chunk_records * _FIELDS:
            self.flush()

    def flush(self) -> None:
        """Write the pending records."""
        if not self._pending:
            return
        dynamic = np.frombuffer(array("q", self._pending), dtype=np.int64).reshape(-1, _FIELDS)
        self._pending.clear()
        ops = np.zeros(len(dynamic), dtype=_OPS_DTYPE)
        ops["op_id"] = dynamic[:, 0]
        for column, name in enumerate(_TIMES, start=1):
            ops[name] = dynamic[:, column]
        self._fill_waits(ops)
        owner = np.searchsorted(np.asarray(self._first_ops), ops["op_id"], side="right") - 1
        order = np.argsort(owner, kind="stable")
        bounds = np.flatnonzero(np.diff(owner[order])) + 1
        groups = [
            _StageRows(rows, context, ops["op_id"])
            for rows in np.split(order, bounds)
            for context in (self._contexts[owner[rows[0]]],)
        ]
        for group in groups:
            self._fill_ops(ops, group)
        self._writer.append(ops, self._operand_table(ops["op_id"], groups))
        self._forget_finished()

    def _forget_finished(self) -> None:
        """Drop the commands before the first that is still in flight: all their records are written."""
        done = 0
        while done < len(self._contexts) and not self._contexts[done].remaining:
            done += 1
        del self._contexts[:done], self._first_ops[:done]

    def host_write(self, matrix: Matrix, data: bytes, command_seq: int, op_id: int, times_ps: tuple[int, int]) -> None:
        """Record bytes that the host wrote between two launches, from its first to its second *times_ps*."""
        self.flush()
        writer = self._writer
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
        operands["owner"] = (0, matrix.address >> OFFSET_BITS)
        operands["offset"] = (writer.immediate(data), matrix.address & OFFSET_MASK)
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

    def _fill_ops(self, ops: Rows, group: _StageRows) -> None:
        """Everything but ids, times and waits."""
        submitted = group.context.submitted
        ops["command_seq"][group.rows] = submitted.command_seq
        ops["tile_id"][group.rows] = group.tile
        ops["line"][group.rows] = self._writer.intern(submitted.line)
        ops["stage_index"][group.rows] = group.position
        for template, mine in group.stages:
            at = group.rows[mine]
            if not len(at):
                continue
            ops["kind"][at] = _KINDS.get(template.stage_type, OpKind.MEMORY)
            ops["name"][at] = self._writer.intern(template.stage_type.name.lower())
            ops["component"][at] = self._writer.intern(template.component)
            ops["params"][at] = self._writer.intern(_params(template))
            for operand in template.operands:
                if operand.role is Role.ACC:
                    summing = group.rows[group.users(operand, mine)]
                    ops["params"][summing] = self._writer.intern('{"accumulate":true}')

    def _operand_table(self, op_ids: Ints, groups: list[_StageRows]) -> Rows:
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
            pe = group.context.submitted.pe
            owners = self._tcm_owner[pe], self._reg_owner.get(pe, 0)
            for template, mine in group.stages:
                for operand in template.operands:
                    users = group.users(operand, mine)
                    if len(users):
                        rows = group.rows[users]
                        group.fill(scratch[: len(users)], operand, users, owners)
                        table_bytes[free[rows]] = scratch_bytes[: len(users)]
                        free[rows] += 1
        table["op_id"] = np.repeat(op_ids, counts)
        return table


class _StageRows:
    """The records of one command in a chunk: their rows, and which tile and stage each of them is.

    `stages` pairs each stage template with the positions, among the command's records, of its own.
    """

    def __init__(self, rows: npt.NDArray[np.intp], context: PipelineContext, op_ids: Ints) -> None:
        plan = context.plan
        _, n_grid, k_grid = plan.grid
        variants = [plan.stages_at(k) for k in (0, 1, k_grid - 1)]  # the first tile over K, those between, the last
        first, later = len(variants[0]), len(variants[1])
        self.rows = rows
        self.context = context
        self.mn, rest = np.divmod(op_ids[rows] - context.first_op, plan.n_stages // (plan.grid[0] * n_grid))
        self.k = np.clip((rest - first) // later + 1, 0, k_grid - 1)
        self.position = rest - np.where(self.k > 0, first + (self.k - 1) * later, 0)
        self.tile = self.mn * k_grid + self.k
        self.axes = (*np.divmod(self.mn, n_grid), self.k)
        variant = np.where(self.k == 0, 0, np.where(self.k == k_grid - 1, 2, 1))
        stage = _padded(variants)[variant, self.position]
        self.stages = [(template, np.flatnonzero(stage == number)) for number, template in enumerate(plan.stages)]

    def users(self, operand: OperandTemplate, mine: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Those of a stage's records that have *operand*: the first product of a sum reads no accumulator, say."""
        if operand.when is When.EVERY_TILE:
            return mine
        k = self.k[mine]
        last = self.context.plan.grid[2] - 1
        held: npt.NDArray[np.bool_] = {When.LAST_K: k == last, When.FIRST_K: k == 0, When.LATER_K: k > 0}[operand.when]
        return mine[held]

    def fill(self, part: Rows, operand: OperandTemplate, users: npt.NDArray[np.intp], owners: tuple[int, int]) -> None:
        """The operand's rows for the records *users*; *owners* are the PE's TCM and registers."""
        row, col = self._along(operand.rows, users), self._along(operand.cols, users)
        nbytes = operand.dtype.nbytes
        if operand.place is Place.MEMORY:
            owner, space = operand.base >> OFFSET_BITS, PhysAddr.decode(operand.base).space
            offset = row * (operand.rows.tile * operand.stride) + col * (operand.cols.tile * nbytes)
            offset += operand.base & OFFSET_MASK
        else:
            slots, number = self._slots(operand.place)
            in_registers = operand.place in (Place.REGISTERS, Place.ACCUMULATOR)
            owner, space = owners[in_registers], MemorySpace.REG if in_registers else MemorySpace.TCM
            offset = (slots.first + number[users]) % slots.count * slots.nbytes + (slots.base + operand.base)
        part["role"] = operand.role
        part["space"] = space.code
        part["dtype"] = operand.dtype.info.code
        part["release"] = operand.release
        part["owner"] = owner
        part["offset"] = offset
        part["rows"] = np.minimum(operand.rows.tile, operand.rows.total - row * operand.rows.tile)
        width = np.minimum(operand.cols.tile, operand.cols.total - col * operand.cols.tile)
        part["row_nbytes"] = width * nbytes
        part["stride"] = operand.stride

    def _along(self, axis: Axis, users: npt.NDArray[np.intp]) -> Ints:
        """Which piece of *axis* each of the records *users* has."""
        return np.zeros(len(users), dtype=np.int64) if axis.dimension is None else self.axes[axis.dimension][users]

    def _slots(self, place: Place) -> tuple[Slots, Ints]:
        """The ring a kind of buffer is taken from, and the number of each record's piece."""
        placement = self.context.placement
        slots, number = {
            Place.INPUT_BUFFER: (placement.input, self.tile),
            Place.OUTPUT_BUFFER: (placement.output, self.mn),
            Place.REGISTERS: (placement.registers, self.tile),
            Place.ACCUMULATOR: (placement.accumulators, self.mn),
        }[place]
        assert slots is not None, f"a plan uses {place.name} without slots"
        return slots, number


def _params(template: StageTemplate) -> str:
    return msgspec.json.encode(template.math).decode() if template.math is not None else "{}"


def _padded(lists: list[list[int]]) -> Ints:
    table = np.full((len(lists), max(map(len, lists))), -1, dtype=np.int64)
    for row, each in zip(table, lists, strict=True):
        row[: len(each)] = each
    return table
