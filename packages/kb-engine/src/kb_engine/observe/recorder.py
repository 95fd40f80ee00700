"""Recorder: writes the op log while the simulation runs.

A stage service leaves five integers on the simulation's path. Everything else that a record says follows from the
command's plan and its buffers, so it is computed for a whole chunk of records at once, off that path. The rows of
`commands` are made from the commands themselves when they are done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from kb_dataexec import LogWriter, OpLog
from kb_dataexec.log import LogSummary
from kb_engine.block.in_flight import CommandInFlight
from kb_engine.observe.chip import Chip
from kb_engine.observe.command_rows import CommandRows, ExpectedRows, dispatches_of, relative, transfers_of
from kb_engine.observe.group_texts import Ints, intern_texts
from kb_engine.observe.host_record import host_write_tables
from kb_engine.observe.int64s import int64s
from kb_engine.observe.observer import Observer, Rows
from kb_engine.observe.operand_rows import OPERAND_DTYPE
from kb_engine.observe.record_tables import (
    FIELDS,
    Wait,
    groups_of,
    operand_table,
    ops_table,
)
from kb_engine.observe.repeated import repeated
from kb_engine.observe.row_order import Positions, RowOrder
from kb_engine.observe.run_tables import RunTables
from kb_engine.timing.clock import Clock
from kb_messages import Matrix, PipelinePlan, WaitReason
from kb_topology import NodeKind

_CHUNK_RECORDS: Final = 1 << 14
_CHUNK_RECORDS_A_PE: Final = 1 << 8
"""Each command in a chunk adds to the cost of filling the chunk, so chips with many PEs get longer chunks."""

_MOST_TEXTS: Final = 1 << 12
"""Plans whose texts are known to be in the log. Others are looked up anew."""


_HELD_CHUNKS: Final = 8
"""Chunks of records that are kept where some may be repeated. Source: assumed; longer periods are not repeated."""


class Recorder(Observer):
    """Collects the records of all stages and writes them to *writer*, a chunk at a time, in the order of `RowOrder`.

    Texts enter the log when a command with them is issued, so their numbers do not depend on the chunks. *on_chunk* is
    called with each chunk, as `Observer.on_chunk` is.
    """

    def __init__(self, writer: LogWriter, on_chunk: Callable[[Rows, Sequence[str]], None] | None = None) -> None:
        self.writer = writer
        self._tell_chunk = on_chunk
        self._tcm_owner: dict[str, int] = {}
        self._reg_owner: dict[str, int] = {}
        self._chunk_records = _CHUNK_RECORDS
        self._pending: list[int] = []
        self._waits: list[Wait] = []
        self._commands: list[CommandInFlight] = []
        self._constants: dict[bytes, tuple[int, int]] = {}
        self._expected: dict[int, ExpectedRows] = {}
        self._written_ps = 0
        self._texts: dict[tuple[int, str], PipelinePlan] = {}
        self._pe_numbers: dict[str, int] = {}
        self._clock: Clock
        self._held = self._flushes = 0
        self.tables = RunTables(writer.intern)
        self.on_stage = self._pending.extend  # type: ignore[method-assign]  # costs no Python frame

    @property
    def unfinished(self) -> list[CommandInFlight]:
        """The commands that were issued and are not done, in the order in which they were issued."""
        return [command for command in self._commands if command.remaining]

    def on_built(self, chip: Chip) -> None:
        """Look up the memories in which the tile buffers and the registers of every PE lie, and name the processors."""
        self._topology, self._clock = chip.topology, chip.clock
        self._pe_numbers = {pe_id: number for number, pe_id in enumerate(chip.topology.graph.pe_ids)}
        self.tables.watch(chip)
        owners = {NodeKind.PE_TCM: self._tcm_owner, NodeKind.PE_FETCH_STORE: self._reg_owner}
        for node in chip.topology.graph.nodes.values():
            if node.kind in owners:
                owners[node.kind][str(node.pe_id)] = chip.topology.address_map.region_of_node(node.id).owner
        self._chunk_records = max(_CHUNK_RECORDS, _CHUNK_RECORDS_A_PE * len(self._tcm_owner))

    def restart(self, writer: LogWriter) -> None:
        """Record into *writer* from now on, as if nothing had been recorded. What is not written yet is dropped."""
        self.writer = writer
        for kept in (self._pending, self._waits, self._commands, self._constants, self._texts):
            kept.clear()
        self._held, self._flushes = 0, self._flushes + 1
        self._expected.clear()
        self.tables.restart(writer.intern)
        self.tables.name_nodes(self._topology)

    def on_issue(self, command: CommandInFlight) -> None:
        """Keep *command*: its records will refer to it."""
        self._commands.append(command)
        plan, line = command.shared_plan, command.submitted.line
        if (id(plan), line) not in self._texts:
            if len(self._texts) >= _MOST_TEXTS:
                self._texts.clear()
            self._texts[id(plan), line] = plan
            intern_texts(plan, line, self.writer.intern)

    def on_wait(self, op_id: int, reason: WaitReason, waited_ps: int) -> None:
        """Keep the wait until the record is written."""
        self._waits.append((op_id, reason, waited_ps))

    def on_housekeeping(self) -> None:
        """Write the pending records when they fill a chunk."""
        now_ps, most = self._clock.now_ps, self._chunk_records * (_HELD_CHUNKS if self._held else 1)
        n_expected = sum(rows.n_before(now_ps) for rows in self._expected.values())
        if len(self._pending) + n_expected * FIELDS >= most * FIELDS:
            self.flush(now_ps)

    def hold(self) -> None:
        """Keep records, because some of them may be repeated, until `let_go`."""
        self._held += 1

    def let_go(self) -> None:
        """Nothing more is repeated of what is pending."""
        self._held -= 1

    def can_repeat(self, mark: tuple[int, ...]) -> bool:
        """Whether what followed *mark* is still here: very many records are written, whoever asked to keep them."""
        return mark[-1] == self._flushes

    def mark(self) -> tuple[int, ...]:
        """How far the records have come: what `repeat` repeats follows a mark."""
        return len(self._pending), len(self._waits), *self.tables.mark(), self._flushes

    def repeat(self, mark: tuple[int, ...], n: int, ps: int, ops: int) -> None:
        """Record *n* times more what came after *mark*, *ps* picoseconds and *ops* ops later each time.

        *mark* is one that `can_repeat`.
        """
        pending, waits, *tables, _ = mark
        self._pending += repeated(self._pending[pending:], FIELDS, n, {0: ops, 1: ps, 2: ps, 3: ps, 4: ps})
        again = self._waits[waits:]
        self._waits += [(op_id + i * ops, reason, ps) for i in range(1, n + 1) for op_id, reason, ps in again]
        self.tables.repeat(tables, n, ps, ops)

    def flush(self, before_ps: int | None = None) -> None:
        """Write the pending records, and the rows of commands that are done and of programs that have ended.

        With *before_ps*, records of that time or later stay pending, because others may have to stand between them.
        """
        self._flushes += 1
        self._written_ps = end_ps = self._clock.now_ps + 1 if before_ps is None else before_ps
        order = RowOrder(self._commands, self._pe_numbers, end_ps)
        ops = self._take_ops(order)
        for start in range(self._chunk_records, len(ops), self._chunk_records):
            self._write(*self._filled(ops[start - self._chunk_records : start]))
        n_written = max(0, -(-len(ops) // self._chunk_records) - 1) * self._chunk_records
        last = self._filled(ops[n_written:])
        tables = self.tables.take(self._take_finished(end_ps), order)
        if len(last[0]) or any(map(len, tables.values())):
            self._write(*last, tables)

    def cut(self, mark: tuple[int, ...], command: CommandInFlight, t_ps: int, memories: Sequence[str]) -> CommandRows:
        """Take out the rows since *mark*, all of *command*, which began at *t_ps* and uses *memories*."""
        records = _rows(self._pending[mark[0] :], FIELDS)
        waits = _rows([each for wait in self._waits[mark[1] :] for each in wait], 3)
        del self._pending[mark[0] :], self._waits[mark[1] :]
        numbers = [self.tables.number_of(memory) for memory in memories]
        return relative((records, waits, *self.tables.cut(mark[2:4])), command.first_op, t_ps, numbers.index)

    def expect(self, command: CommandInFlight, rows: CommandRows, t_ps: int, memories: Sequence[str]) -> None:
        """*command*, which begins at *t_ps* and uses *memories*, will have *rows*. Each is written when it is over."""
        first_op = command.first_op
        self._expected[first_op] = ExpectedRows(rows, t_ps, first_op)
        numbers = [self.tables.number_of(memory) for memory in memories]
        transfers = transfers_of(rows, first_op, t_ps, numbers.__getitem__)
        self.tables.expect(dispatches_of(rows, first_op, t_ps), transfers)

    def drop(self, command: CommandInFlight) -> None:
        """Forget the rows of *command* that were expected and are not written."""
        del self._expected[command.first_op]
        self.tables.drop(range(command.first_op, command.first_op + command.shared_plan.n_stages))

    def drop_written(self, mark: tuple[int, ...]) -> None:
        """Of the rows since *mark*, forget those that were expected before, and are written already."""
        pending, waits = self._pending[mark[0] :], self._waits[mark[1] :]
        late = [pending[at : at + FIELDS] for at in range(0, len(pending), FIELDS)]
        late = [row for row in late if row[-1] >= self._written_ps]
        ops = {row[0] for row in late}
        self._pending[mark[0] :] = [each for row in late for each in row]
        self._waits[mark[1] :] = [wait for wait in waits if wait[0] in ops]
        self.tables.drop_written(mark[2:4], self._written_ps)

    def close(self) -> OpLog | LogSummary:
        """Write the pending records and end the log."""
        self.flush()
        return self.writer.close()

    def constant(self, element: bytes, count: int) -> int:
        """The offset, among the log's immediates, of *count* times the bytes *element*. Adds them at most once."""
        offset, known = self._constants.get(element, (0, 0))
        if known < count:
            offset = self.writer.immediate(element * count)
            self._constants[element] = offset, count
        return offset

    def host_write(self, matrix: Matrix, data: bytes, command_seq: int, op_id: int, times_ps: tuple[int, int]) -> None:
        """Record bytes that the host wrote between two launches. *times_ps* are the begin and the end."""
        self.flush()
        self._write(*host_write_tables(self.writer, matrix, data, (command_seq, op_id), times_ps))

    def _write(self, ops: Rows, operands: Rows, tables: dict[str, Rows] | None = None) -> None:
        self.writer.append(ops, operands, tables)
        if self._tell_chunk is not None and len(ops):
            self._tell_chunk(ops, self.writer.strings)

    def _filled(self, ops: Rows) -> tuple[Rows, Rows]:
        """*ops*, which have their times, with all that follows from their commands; and their operands."""
        if not len(ops):
            return ops, np.empty(0, OPERAND_DTYPE)
        groups = groups_of(ops["op_id"], self._commands, (self._tcm_owner, self._reg_owner), self.writer.intern)
        for group in groups:
            group.fill_ops(ops)
        return ops, operand_table(ops["op_id"], groups)

    def _take_ops(self, order: RowOrder) -> Rows:
        """The rows of the pending records that are written now, without what follows from their commands."""
        columns, waits = _rows(self._pending, FIELDS), self._waits
        now, later = order.split(columns[:, 0], columns[:, -1])
        self._pending[:] = columns[later].ravel().tolist()
        if self._expected:
            return self._with_expected(order, columns, later)
        if len(later) and waits:
            kept = set(columns[later, 0].tolist())
            waits = [wait for wait in self._waits if wait[0] not in kept]
            self._waits[:] = [wait for wait in self._waits if wait[0] in kept]
            return ops_table(columns[now], waits)
        ops = ops_table(columns[now], waits)
        self._waits.clear()
        return ops

    def _with_expected(self, order: RowOrder, columns: Ints, later: Positions) -> Rows:
        """As `_take_ops`: the rows of *columns* but *later*, and those of closed commands."""
        kept = set(columns[later, 0].tolist())
        waits = [wait for wait in self._waits if wait[0] not in kept]
        self._waits[:] = [wait for wait in self._waits if wait[0] in kept]
        parts = [np.delete(columns, later, axis=0)]
        for first_op, rows in list(self._expected.items()):
            records, more_waits = rows.take(self._written_ps)
            parts.append(records)
            waits += more_waits
            if rows.is_empty:
                del self._expected[first_op]
        found = np.concatenate(parts)
        return ops_table(found[order.split(found[:, 0], found[:, -1])[0]], waits)

    def _take_finished(self, end_ps: int) -> list[CommandInFlight]:
        """Take out the commands before the first one that is not done. All their records are written."""
        done = 0
        while done < len(self._commands) and 0 <= self._commands[done].t_done_ps < end_ps:
            done += 1
        finished = self._commands[:done]
        del self._commands[:done]
        return finished


def _rows(flat: list[int], width: int) -> Ints:
    """*flat* as rows of *width* numbers. Raises LogError for a time that does not fit 64 bits."""
    rows: Ints = np.frombuffer(int64s(flat), dtype=np.int64).reshape(-1, width)
    return rows
