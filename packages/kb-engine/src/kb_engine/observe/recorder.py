"""Recorder: writes the op log while the simulation runs.

A stage service leaves five integers on the simulation's path. Everything else that a record says follows from the
command's plan and its buffers, so it is computed for a whole chunk of records at once, off that path. The rows of
`commands` are made from the commands themselves when they are done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple
from weakref import ref

import numpy as np

from kb_dataexec import LogWriter, OpLog
from kb_dataexec.log import OPERAND_DTYPE, OPS_DTYPE, LazyOpLog, LogSummary
from kb_dataexec.log.compressed import (
    CommandPeriods,
    CompressedTables,
    CompressedWriter,
    IsolatedRows,
    Places,
    RowMaker,
    RowSource,
    command_table,
    each_command,
    int64s,
    intern_blocks,
    intern_texts,
    n_finished,
)
from kb_engine.block.in_flight import CommandInFlight
from kb_engine.observe.chip import Chip
from kb_engine.observe.observer import Observer, Rows
from kb_engine.observe.run_rows import RowsMark, RunRows, RunTables
from kb_engine.timing.clock import Clock
from kb_messages import Matrix, MemorySpace, OpKind, PhysAddr, PipelinePlan, Role, WaitReason, split_address
from kb_topology import NodeKind

_TEXTS = {"name": "host_write", "component": "host", "line": "host", "params": "{}"}


def host_write_tables(
    writer: LogWriter, matrix: Matrix, data: bytes, ids: tuple[int, int], times_ps: tuple[int, int]
) -> tuple[Rows, Rows]:
    """The ops and operands of a write of *data* to *matrix*, with *data* added to the immediates of *writer*.

    *ids* are the place in command order and the op id, *times_ps* the begin and the end.
    """
    ops = np.zeros(1, dtype=OPS_DTYPE)
    for column, text in _TEXTS.items():
        ops[column] = writer.intern(text)
    ops["command_seq"], ops["op_id"] = ids
    ops["kind"] = OpKind.MEMORY
    ops["t_ready_ps"] = ops["t_start_ps"] = times_ps[0]
    ops["t_end_ps"] = ops["t_out_ps"] = times_ps[1]
    operands = np.zeros(2, dtype=OPERAND_DTYPE)
    operands["op_id"], operands["dtype"] = ids[1], matrix.dtype.info.code
    operands["rows"], operands["row_nbytes"] = matrix.rows, matrix.row_nbytes
    operands["role"] = (Role.SRC, Role.DST)
    operands["space"] = (MemorySpace.IMMEDIATE.code, PhysAddr.decode(matrix.address).space.code)
    owner, offset = split_address(matrix.address)
    operands["owner"] = (0, owner)
    operands["offset"] = (writer.immediate(data), offset)
    operands["stride"] = (matrix.row_nbytes, matrix.stride)
    return ops, operands


_CHUNK_RECORDS: Final = 1 << 14
_CHUNK_RECORDS_A_PE: Final = 1 << 8
"""Each command in a chunk adds to the cost of filling the chunk, so chips with many PEs get longer chunks."""

_MOST_TEXTS: Final = 1 << 12
"""Plans whose texts are known to be in the log. Texts of other plans are entered anew."""

_EXPECTED_FOR_ONE: Final = 64
"""Records of isolated commands that count as one record, where the log is compressed.

Source: assumed; a run that is killed loses the records of a chunk.
"""

_RECORDS_OF_A_COMMAND: Final = 3
"""A command takes at most as much memory as the rows of so many records.

Source: measured on a softmax, 1.4 kB a command, and 1.8 kB for the rows of its 3.7 records, with the rows of auxiliary
tables and the memory for making them. Where very many commands have fewer records, rows are written, so that a log in
memory does not hold all commands of a long run.
"""

_MOST_SMALL_COMMANDS: Final = 1 << 16
"""Commands of few records that are kept until the log is read, 90 MB together. Source: assumed."""

_HELD_CHUNKS: Final = 8
"""Chunks of records that are kept where some may be repeated. Source: assumed; longer periods are not repeated."""


class LogMark(NamedTuple):
    """An end of the rows of a log, after a number of flushes."""

    rows: RowsMark
    flushes: int


class Recorder(Observer):
    """Collects the records of all stages and writes them to *writer*, a chunk at a time, in the order of `RowOrder`.

    Repeated rows and the rows of isolated commands are compressed until they are written. A log in memory is written
    when it is first read (`LogWriter.close_lazy`). The rows of commands with many records wait too: five integers of
    each record are kept until then.

    Texts enter the log when a command with them is issued, so their numbers do not depend on the chunks. *on_chunk* is
    called with each chunk, with the arguments of `Observer.on_chunk`.

    Design: docs/design/compressed-log.md
    """

    def __init__(self, writer: LogWriter, on_chunk: Callable[[Rows, Sequence[str]], None] | None = None) -> None:
        self.writer = writer
        self._tell_chunk = on_chunk
        self._places = Places({}, ({}, {}), _CHUNK_RECORDS)
        self._rows = RunRows()
        self._commands: list[CommandInFlight | CommandPeriods] = []
        self._constants: dict[bytes, tuple[int, int]] = {}
        self._maker = RowMaker(self._places, writer.intern)
        self._compressed = CompressedWriter(self._places, writer.intern)
        self._needs_rows = False
        self._written_ps = 0
        self._texts: dict[tuple[int, str], PipelinePlan] = {}
        self._origins: dict[tuple[int, str], PipelinePlan] = {}
        self._clock: Clock
        self._held = self._flushes = 0
        self._n_taken = self._n_expected = 0
        self._late: ref[LazyOpLog] | None = None
        self.tables = RunTables(self._rows, writer.intern)
        self._records, self._waits = self._rows.records, self._rows.waits.tail
        self.on_stage = self._records.tail.extend  # type: ignore[method-assign]  # costs no Python frame

    @property
    def unfinished(self) -> list[CommandInFlight]:
        """The commands that were issued and are not done, in the order in which they were issued."""
        return [command for command in self.commands if command.remaining]

    def on_built(self, chip: Chip) -> None:
        """Finds the memories of the tile buffers and the registers of every PE, and enters the names of processors."""
        self._topology, self._clock = chip.topology, chip.clock
        pe_numbers = {pe_id: number for number, pe_id in enumerate(chip.topology.graph.pe_ids)}
        self.tables.name_nodes(chip.topology)
        owners: dict[NodeKind, dict[str, int]] = {NodeKind.PE_TCM: {}, NodeKind.PE_FETCH_STORE: {}}
        for node in chip.topology.graph.nodes.values():
            if node.kind in owners:
                owners[node.kind][str(node.pe_id)] = chip.topology.address_map.region_of_node(node.id).owner
        of_tcm, of_registers = owners.values()
        chunk_records = max(_CHUNK_RECORDS, _CHUNK_RECORDS_A_PE * len(of_tcm))
        self._places = Places(pe_numbers, (of_tcm, of_registers), chunk_records)
        self._maker = RowMaker(self._places, self.writer.intern)
        self._compressed = CompressedWriter(self._places, self.writer.intern)

    def restart(self, writer: LogWriter) -> None:
        """Records into *writer* from now on, as if nothing had been recorded. Rows that are not written are dropped."""
        self.on_launch()
        self.writer = writer
        for kept in (self._rows, self._commands, self._constants, self._texts, self._origins):
            kept.clear()
        self._held, self._flushes = 0, self._flushes + 1
        self._n_taken = self._n_expected = 0
        self._maker = RowMaker(self._places, writer.intern)
        self._compressed = CompressedWriter(self._places, writer.intern)
        self._needs_rows = False
        self.tables.restart(writer.intern)
        self.tables.name_nodes(self._topology)

    @property
    def n_rows(self) -> int:
        """The number of records so far, whether written, pending or expected."""
        return self._n_taken + self._n_expected + self._records.n_rows

    def on_issue(self, command: CommandInFlight) -> None:
        """Keeps *command*: its records will refer to it."""
        self._commands.append(command)
        plan, line = command.shared_plan, command.submitted.line
        if (id(plan), line) not in self._texts:
            if len(self._texts) >= _MOST_TEXTS:
                self._texts.clear()
                self._origins.clear()
            self._texts[id(plan), line] = plan
            origin = plan.origin
            if (id(origin), line) in self._origins:
                intern_blocks(plan, self.writer.intern)
            else:
                self._origins[id(origin), line] = origin
                intern_texts(plan, line, self.writer.intern)

    def on_wait(self, op_id: int, reason: WaitReason, waited_ps: int) -> None:
        """Keeps the wait until the record is written."""
        self._waits += (op_id, reason, waited_ps, self._records.tail[-1])

    def on_housekeeping(self) -> None:
        """Writes the pending records when they fill a chunk, unless they wait until the log is read."""
        self._rows.settle()
        most = self._places.chunk_records * (_HELD_CHUNKS if self._held else 1)
        now_ps, n_expected = self._clock.now_ps, 0
        if not self._waits_for_a_look:
            n_expected = self._maker.expected.n_between(self._written_ps, now_ps)
        if self._takes_compressed:
            n_expected //= _EXPECTED_FOR_ONE
        n_kept, n_commands = self._records.n_kept, len(self._commands)
        has_room = n_commands < _MOST_SMALL_COMMANDS or n_kept >= _RECORDS_OF_A_COMMAND * n_commands
        keeps = self._waits_for_a_look and has_room
        if n_kept + n_expected >= most and not keeps:
            self.flush(now_ps)

    @property
    def _waits_for_a_look(self) -> bool:
        """Whether no rows are needed before the log is read."""
        return self.writer.is_lazy and self._tell_chunk is None

    @property
    def _takes_compressed(self) -> bool:
        """Whether repeated rows and the rows of isolated commands may be compressed in the log."""
        return self.writer.takes_compressed and self._tell_chunk is None and not self._needs_rows

    def hold(self) -> None:
        """Keeps records, because some of them may be repeated, until `let_go`."""
        self._held += 1

    def let_go(self) -> None:
        """Ends the repetition of pending rows."""
        self._held -= 1

    def can_repeat(self, mark: LogMark, n_ops: int) -> bool:
        """Whether the records since *mark* may be repeated: they are the records of *n_ops* ops, each once.

        Records may be missing: very many records are written although they were to be kept, and records of isolated
        commands are kept elsewhere. A repetition without them would lose rows of the log.
        """
        return mark.flushes == self._flushes and self._records.n_since(mark.rows.records) == n_ops

    def mark(self) -> LogMark:
        """The present end of the records. `repeat` repeats the records after a mark."""
        return LogMark(self._rows.mark(), self._flushes)

    @property
    def commands(self) -> list[CommandInFlight]:
        """The commands whose records are not all written, in the order in which they were issued, without commands of
        CommandPeriods.
        """
        return [each for each in self._commands if not isinstance(each, CommandPeriods)]

    @property
    def n_commands(self) -> int:
        """The number of commands and CommandPeriods whose records are not all written."""
        return len(self._commands)

    def issued_instead(self, since: int, commands: Sequence[CommandInFlight | CommandPeriods]) -> None:
        """Replaces the commands from number *since* on by *commands*, whose texts are in the log already."""
        self._commands[since:] = commands

    def repeat(self, mark: LogMark, n: int, ps: int, ops: int) -> None:
        """Records the rows after *mark* *n* times more, each time *ps* picoseconds and *ops* ops later.

        Raises LogError for a time that does not fit 64 bits.
        """
        assert self.can_repeat(mark, ops), "a row for each op of the period"
        int64s((self._clock.now_ps + n * ps,))
        self._rows.repeat(mark.rows, n, ops, ps)

    def flush(self, before_ps: int | None = None) -> None:
        """Writes the pending records, and the rows of commands that are done and of programs that have ended.

        With *before_ps*, records of that time or later stay pending, because others may have to stand between them.
        """
        self._flushes += 1
        self._written_ps = end_ps = self._clock.now_ps + 1 if before_ps is None else before_ps
        ending, n_records = self.tables.take(), self._records.n_rows
        compressed = CompressedTables(*[each.in_order() for each in self._rows.cut()])
        commands, n_done = [*self._commands], n_finished(self._commands, end_ps)
        del self._commands[:n_done]
        if self._takes_compressed:  # what comes later stays here, because rows may follow instead of compressed
            halves = [each.split(end_ps) for each in compressed]
            self._rows.put_back([later for _, later in halves])
            self._n_taken += n_records - self._records.n_rows
            compressed = CompressedTables(*[before for before, _ in halves])
            self._write_compressed(compressed, commands, end_ps, ending)
            return
        pending = RowSource(compressed)
        finished = [*each_command(commands[:n_done])]
        ending |= {"commands": command_table(finished, self.writer.intern)}
        for chunk in self._maker.chunks(pending, [*finished, *each_command(commands[n_done:])], end_ps, ending):
            self._write(*chunk)
        self._rows.put_back(pending.rest())
        self._n_taken += n_records - self._records.n_rows

    def flush_rows(self) -> None:
        """Writes the pending records. A reader follows the run, so from now on all records become rows."""
        self.flush()
        self._needs_rows = True

    def cut(self, mark: LogMark, command: CommandInFlight, t_ps: int, memories: Sequence[str]) -> CompressedTables:
        """Takes out the rows since *mark*, all of *command*, which began at *t_ps* and uses *memories*.

        Their ops count from the first op of *command*, their times from *t_ps*, and memories have their numbers in
        *memories*.
        """
        numbers = [self.tables.number_of(memory) for memory in memories]
        index_of = np.full(max(numbers, default=0) + 1, -1, dtype=np.int64)
        index_of[numbers] = range(len(numbers))
        return self._rows.cut(mark.rows).later(-command.first_op, -t_ps).with_memories(index_of)

    def expect(
        self, command: CommandInFlight, rows: CompressedTables, span_ps: tuple[int, int], memories: Sequence[str]
    ) -> None:
        """*command*, which uses *memories*, will have *rows* in the time *span_ps*. Each is written when it is over.

        Raises LogError for a time that does not fit 64 bits.
        """
        numbers = [self.tables.number_of(memory) for memory in memories]
        self._n_expected += rows.records.n_rows
        self._maker.expected.add(command.first_op, IsolatedRows(rows, numbers, span_ps))

    def drop(self, command: CommandInFlight) -> None:
        """Forgets the rows of *command* that were expected and are not written."""
        self._n_expected -= self._maker.expected.isolated[command.first_op].rows.records.n_rows
        self._maker.expected.drop(command.first_op)

    def drop_written(self, mark: LogMark) -> None:
        """Forgets the rows since *mark* that were expected before it and are written already."""
        n_records = self._records.n_rows
        self._rows.drop_before(mark.rows, self._written_ps)
        self._n_expected += n_records - self._records.n_rows

    def close(self) -> OpLog | LogSummary:
        """Writes the pending records and ends the log.

        Where the log is in memory and no observer is notified of chunks, repeated rows, rows of isolated commands and
        rows that fill a chunk are made later: when the log is read, or before anything else is recorded. Raises
        LogError for a time that does not fit 64 bits.
        """
        self._rows.settle()
        has_compressed = self._rows.has_repeats or self._maker.expected.first_ops
        is_worth_waiting = has_compressed or self._records.n_kept >= self._places.chunk_records
        if not (self._waits_for_a_look and is_worth_waiting):
            self.flush()
            return self.writer.close()
        log = self.writer.close_lazy(self.flush)
        self._late = ref(log) if isinstance(log, LazyOpLog) else None
        return log

    def on_launch(self) -> None:
        """Makes the rows of a log that was closed, before new rows come, if the log is still in use."""
        log = self._late() if self._late is not None else None
        self._late = None
        if log is not None:
            log.settle()

    def constant(self, element: bytes, count: int) -> int:
        """The offset, among the log's immediates, of *count* times the bytes *element*. Adds them at most once."""
        offset, known = self._constants.get(element, (0, 0))
        if known < count:
            offset = self.writer.immediate(element * count)
            self._constants[element] = offset, count
        return offset

    def host_write(self, matrix: Matrix, data: bytes, command_seq: int, op_id: int, times_ps: tuple[int, int]) -> None:
        """Records bytes that the host wrote between two launches. *times_ps* are the begin and the end."""
        self.on_launch()
        self.flush()
        self._write(*host_write_tables(self.writer, matrix, data, (command_seq, op_id), times_ps))
        self._n_taken += 1

    def _write_compressed(
        self,
        compressed: CompressedTables,
        commands: Sequence[CommandInFlight | CommandPeriods],
        end_ps: int,
        ending: dict[str, Rows],
    ) -> None:
        """Writes a chunk of *compressed* and of the decoded and isolated *commands*, unless both are empty."""
        expected = self._maker.expected
        ends = n_finished(commands, end_ps) or any(map(len, ending.values()))
        if ends or expected.isolated or any(each.n_rows for each in compressed):
            self.writer.append_compressed(self._compressed.chunk(compressed, commands, expected, end_ps, ending))
            expected.drop_before(end_ps)

    def _write(self, ops: Rows, operands: Rows, tables: dict[str, Rows] | None = None) -> None:
        self.writer.append(ops, operands, tables)
        if self._tell_chunk is not None and len(ops):
            self._tell_chunk(ops, self.writer.strings)
