"""Recorder: writes the op log while the simulation runs.

A stage service leaves five integers on the simulation's path. Everything else that a record says follows from the
command's plan and its buffers, so it is computed for a whole chunk of records at once, off that path. The rows of
`commands` are made from the commands themselves when they are done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple
from weakref import ref

import numpy as np

from kb_dataexec import LogWriter, OpLog
from kb_dataexec.log import OPERAND_DTYPE, OPS_DTYPE, LazyOpLog, LogSummary
from kb_dataexec.log.compressed import LogMark, LogRows, Places, int64s
from kb_engine.block.in_flight import CommandInFlight
from kb_engine.fabric.lazy_reads import LazyTransfers
from kb_engine.observe.chip import Chip
from kb_engine.observe.observer import Observer, Rows
from kb_engine.timing.clock import Clock
from kb_messages import Matrix, MemorySpace, OpKind, PhysAddr, Role, WaitReason, split_address
from kb_topology import NodeKind

_HOST: Final = "host"


class HostMove(NamedTuple):
    """A move of bytes by the host, from `src`, or from `data` where that is None, to `dst`, at the host's `line`.

    `ids` are the place in command order and the op id, `times_ps` the begin and the end.
    """

    src: Matrix | None
    dst: Matrix
    data: bytes
    line: str
    ids: tuple[int, int]
    times_ps: tuple[int, int]


def host_move_tables(writer: LogWriter, move: HostMove) -> tuple[Rows, Rows]:
    """The ops and operands of *move*, with its data added to the immediates of *writer*."""
    src, dst, data, line, ids, times_ps = move
    ops = np.zeros(1, dtype=OPS_DTYPE)
    name = "host_write" if src is None else "host_copy"
    for column, text in (("name", name), ("component", _HOST), ("line", line), ("params", "{}")):
        ops[column] = writer.intern(text)
    ops["command_seq"], ops["op_id"] = ids
    ops["kind"] = OpKind.MEMORY
    ops["t_ready_ps"] = ops["t_start_ps"] = times_ps[0]
    ops["t_end_ps"] = ops["t_out_ps"] = times_ps[1]
    operands = np.zeros(2, dtype=OPERAND_DTYPE)
    operands["op_id"], operands["dtype"] = ids[1], dst.dtype.info.code
    operands["rows"], operands["row_nbytes"] = dst.rows, dst.row_nbytes
    operands["role"] = (Role.SRC, Role.DST)
    source_owner, source_offset = (0, writer.immediate(data)) if src is None else split_address(src.address)
    owner, offset = split_address(dst.address)
    operands["space"] = (_space_of(src), _space_of(dst))
    operands["owner"] = (source_owner, owner)
    operands["offset"] = (source_offset, offset)
    operands["stride"] = (dst.row_nbytes if src is None else src.stride, dst.stride)
    return ops, operands


def _space_of(matrix: Matrix | None) -> int:
    return (MemorySpace.IMMEDIATE if matrix is None else PhysAddr.decode(matrix.address).space).code


_CHUNK_RECORDS: Final = 1 << 14
_CHUNK_RECORDS_A_PE: Final = 1 << 8
"""Each command in a chunk adds to the cost of filling the chunk, so chips with many PEs get longer chunks."""

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


class Recorder(Observer):
    """Collects the records of all stages, and decides when `rows` writes them to *writer*, a chunk at a time.

    A log in memory is written when it is first read (`LogWriter.close_lazy`): five integers of each record are kept
    until then.

    Texts enter the log when a command with them is issued, so their numbers do not depend on the chunks. *on_chunk* is
    called with each chunk, with the arguments of `Observer.on_chunk`. `on_stage` and `tile_waited` (the three numbers
    of a row of `dispatches`) are a list's own methods, which cost no Python frame.

    Design: docs/design/compressed-log.md
    """

    def __init__(self, writer: LogWriter, on_chunk: Callable[[Rows, Sequence[str]], None] | None = None) -> None:
        self.writer = writer
        self._has_reader = on_chunk is not None
        self.transfers = LazyTransfers()
        self.rows: LogRows[CommandInFlight] = LogRows(self.transfers, on_chunk)
        self._constants: dict[bytes, tuple[int, int]] = {}
        self._clock: Clock
        self._held = 0
        self._late: ref[LazyOpLog] | None = None
        self._records, self._waits = self.rows.records.tail, self.rows.waits.tail
        self.on_stage = self._records.extend  # type: ignore[method-assign]
        self.tile_waited: Callable[[Iterable[int]], None] = self.rows.dispatches.tail.extend

    @property
    def unfinished(self) -> list[CommandInFlight]:
        """The commands that were issued and are not done, in the order in which they were issued."""
        return [command for command in self.rows.commands if command.remaining]

    def on_built(self, chip: Chip) -> None:
        """Finds the memories of the tile buffers and the registers of every PE, and enters the names of processors."""
        self._topology, self._clock = chip.topology, chip.clock
        pe_numbers = {pe_id: number for number, pe_id in enumerate(chip.topology.graph.pe_ids)}
        self._name_nodes()
        owners: dict[NodeKind, dict[str, int]] = {NodeKind.PE_TCM: {}, NodeKind.PE_FETCH_STORE: {}}
        for node in chip.topology.graph.nodes.values():
            if node.kind in owners:
                owners[node.kind][str(node.pe_id)] = chip.topology.address_map.region_of_node(node.id).owner
        of_tcm, of_registers = owners.values()
        chunk_records = max(_CHUNK_RECORDS, _CHUNK_RECORDS_A_PE * len(of_tcm))
        self._places = Places(pe_numbers, (of_tcm, of_registers), chunk_records)
        self.rows.begin(self.writer, self._places)

    def restart(self, writer: LogWriter) -> None:
        """Records into *writer* from now on, as if nothing had been recorded. Rows that are not written are dropped."""
        self.on_launch()
        self.writer = writer
        self._constants.clear()
        self._held = 0
        self.rows.begin(writer, self._places)
        self._name_nodes()

    def number_of(self, text: str) -> int:
        """The number of *text* in the log."""
        return self.writer.intern(text)

    def on_issue(self, command: CommandInFlight) -> None:
        """Keeps *command*: its records will refer to it."""
        self.rows.add_command(command)

    def on_wait(self, op_id: int, reason: WaitReason, waited_ps: int) -> None:
        """Keeps the wait until the record is written."""
        self._waits += (op_id, reason, waited_ps, self._records[-1])

    def kernel_ended(self, pe: str, numbers: tuple[int, int, int, int, int]) -> None:
        """Notes the end of a program on *pe*. *numbers* are its launch and the four times of a row of `kernels`."""
        self.rows.ended["kernels"].append(((pe,), numbers))

    def message_arrived(self, way: tuple[str, str], numbers: tuple[int, int, int, int]) -> None:
        """Notes a message of a launch. *way* is (from, to); *numbers* are launch, kind and the two times."""
        self.rows.ended["messages"].append((way, numbers))

    def program_synced(self, table: str, texts: tuple[str, ...], numbers: tuple[int, ...]) -> None:
        """Notes a row of *table*: `sends`, `signals` or `waits`. *texts* and *numbers* are in the columns' order."""
        self.rows.ended[table].append((texts, numbers))

    def on_housekeeping(self) -> None:
        """Writes the pending records when they fill a chunk, unless they wait until the log is read."""
        rows = self.rows
        rows.settle()
        most = self._places.chunk_records * (_HELD_CHUNKS if self._held else 1)
        now_ps, n_expected = self._clock.now_ps, 0
        if not self._waits_for_a_look:
            n_expected = rows.n_due(now_ps)
        if rows.takes_compressed:
            n_expected //= _EXPECTED_FOR_ONE
        n_kept, n_commands = rows.records.n_kept, rows.n_commands
        has_room = n_commands < _MOST_SMALL_COMMANDS or n_kept >= _RECORDS_OF_A_COMMAND * n_commands
        keeps = self._waits_for_a_look and has_room
        if n_kept + n_expected >= most and not keeps:
            rows.flush(now_ps)

    @property
    def _waits_for_a_look(self) -> bool:
        """Whether no rows are needed before the log is read."""
        return self.writer.is_lazy and not self._has_reader

    def hold(self) -> None:
        """Keeps records, because some of them may be repeated, until `let_go`."""
        self._held += 1

    def let_go(self) -> None:
        """Ends the repetition of pending rows."""
        self._held -= 1

    def repeat(self, mark: LogMark, n: int, ps: int, ops: int) -> None:
        """Records the rows after *mark* *n* times more, each time *ps* picoseconds and *ops* ops later.

        Raises LogError for a time that does not fit 64 bits.
        """
        int64s((self._clock.now_ps + n * ps,))
        self.rows.repeat(mark, n, ps, ops)

    def flush(self) -> None:
        """Writes the pending records, and the rows of commands that are done and of programs that have ended."""
        self.rows.flush(self._clock.now_ps + 1)

    def flush_rows(self) -> None:
        """Writes the pending records. A reader follows the run, so from now on all records become rows."""
        self.rows.flush_rows(self._clock.now_ps + 1)

    def close(self) -> OpLog | LogSummary:
        """Writes the pending records and ends the log.

        Where the log is in memory and no observer is notified of chunks, repeated rows, rows of isolated commands and
        rows that fill a chunk are made later: when the log is read, or before anything else is recorded. Raises
        LogError for a time that does not fit 64 bits.
        """
        self.rows.settle()
        is_worth_waiting = self.rows.has_compressed or self.rows.records.n_kept >= self._places.chunk_records
        if not (self._waits_for_a_look and is_worth_waiting):
            self.flush()
            return self.writer.close()
        log = self.writer.close_lazy(self.flush)
        self._late = ref(log) if isinstance(log, LazyOpLog) else None
        return log

    def close_early(self) -> OpLog | LogSummary:
        """Writes the pending records, and ends the log of a run that an error has ended. The log is not complete."""
        self.flush()
        return self.writer.close_early()

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

    def host_moved(self, move: HostMove) -> None:
        """Records bytes that the host moved. Nothing later than now is recorded so far."""
        self.on_launch()
        self.flush()
        self.rows.append(*host_move_tables(self.writer, move))

    def host_reads(self, call: int, matrices: Sequence[Matrix]) -> None:
        """Notes the bytes that *call*, of a stream of the host, read."""
        for text in ("host_read", _HOST):
            self.writer.intern(text)
        for matrix in matrices:
            rectangle = matrix.rectangle
            owner, offset = split_address(matrix.address)
            numbers = call, owner, offset, rectangle.rows, rectangle.row_nbytes, rectangle.stride
            self.rows.ended["reads"].append(((), numbers))

    def _name_nodes(self) -> None:
        """Enters the ids of PEs, processors and memories into the log: their numbers follow from the chip alone."""
        intern, topology = self.writer.intern, self._topology
        for pe_id in topology.graph.pe_ids:
            intern(pe_id)
        for region in topology.address_map.regions:
            if region.space is not MemorySpace.REG:
                intern(region.node_id)
        for kind in (NodeKind.HOST, NodeKind.IO_CPU, NodeKind.M_CPU, NodeKind.PE_CPU):
            for node in topology.graph.nodes_of_kind(kind):
                intern(node.id)
