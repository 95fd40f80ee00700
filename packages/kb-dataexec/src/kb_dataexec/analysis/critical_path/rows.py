"""PathRows: the rows of a log that critical paths need: ops and commands in columns, and their orders."""

from __future__ import annotations

from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.analysis.critical_path.sync_calls import SyncCalls
from kb_dataexec.analysis.programs import program_of_calls
from kb_dataexec.analysis.stream_calls import of_programs
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.parallel import in_chunks
from kb_dataexec.arrays.ranges import numbered
from kb_dataexec.log.table_dtypes import TABLE_DTYPES
from kb_dataexec.log.tables import OpLog
from kb_messages import CallCause

_COMMAND_TIMES: Final = ("t_call_ps", "t_issued_ps", "t_submitted_ps", "t_taken_ps", "t_decoded_ps", "t_fed_ps")

_OP_COLUMNS: Final = (
    "op_id", "t_ready_ps", "t_start_ps", "t_end_ps", "t_out_ps", "tile_id", "component", "name",
)  # fmt: skip
_WAITS: Final = ("tcm_port", "register_file", "compute_slot", "operand", "barrier")

_TABLES: Final = ("commands", "dispatches", "transfers", "kernels", "messages")


class Commands:
    """The rows of `commands`, one element for each command, in the order of `command_seq`.

    An unknown time is set to the time of the step before. So its step takes no time, and the next step has no known
    cause.
    """

    def __init__(self, table: Array) -> None:
        table = table[np.argsort(table["command_seq"], kind="stable")]
        self.seq = table["command_seq"]
        self.pe, self.line, self.first_op_id = (table[name].astype(np.int64) for name in ("pe", "line", "first_op_id"))
        latest = np.zeros(len(table), np.int64)
        times = []
        for name in _COMMAND_TIMES:
            latest = np.maximum(latest, table[name])
            times.append(latest)
        self.t_call, self.t_issued, self.t_submitted, self.t_taken, self.t_decoded, self.t_fed = times
        self.t_done = np.maximum(latest, table["t_done_ps"])
        self.after = table["after"].astype(np.int64)
        self.operand_ps = table["operand_ps"]
        self.after_index = self.find(table["after_seq"])
        self.operand_index = self.find(table["operand_seq"])

    def __len__(self) -> int:
        return len(self.seq)

    def find(self, seqs: Array) -> Array:
        """Returns the commands with these `command_seq`; -1 for a number of no command."""
        return _positions(self.seq, seqs)


class Ops:
    """The records of commands, one element for each op, in the order of op ids: of commands, tiles and stages.

    `row` is the index in the log, and so the order in which services were recorded. `server` is the number of the queue
    (a block and a stage), and `servers` has the strings of block and stage by that number. `waited` has, for each
    reason, whether the op waited for it. `line` is the number of the kernel line. `is_first` and `is_last` mark the
    first and the last stage of a tile. `leaves` is True if the tile leaves the queue after the op, because its next
    stage is elsewhere or there is none. `tile_before` is the first op of the tile that the same command fed before; -1
    for the first tile.
    """

    def __init__(self, log: OpLog, commands: Commands) -> None:
        table = log.ops
        command = commands.find(table["command_seq"])
        rows = np.flatnonzero(command >= 0)
        rows = rows[np.argsort(table["op_id"][rows], kind="stable")]
        self.row = rows
        self.command = command[rows]
        columns = {name: np.empty(len(rows), np.int64) for name in _OP_COLUMNS}
        self.waited = {name: np.empty(len(rows), np.bool_) for name in _WAITS}
        self.line = np.empty(len(rows), np.int32)

        def fill(chunk: slice) -> None:
            records = table.take(rows[chunk])
            self.line[chunk] = records["line"]
            for name, column in columns.items():
                column[chunk] = records[name]
            for name, waited in self.waited.items():
                waited[chunk] = records[f"wait_{name}_ps"] > 0

        in_chunks(fill, len(rows))
        self.op_id, self.t_ready, self.t_start, self.t_end, self.t_out, tile, component, name = columns.values()
        self.pe = commands.pe[self.command]
        n_texts = len(log.strings) + 1
        found, self.server = numbered(component * n_texts + name)
        self.servers = found // n_texts, found % n_texts
        self.is_first = np.ones(len(rows), np.bool_)
        self.is_first[1:] = (self.command[1:] != self.command[:-1]) | (tile[1:] != tile[:-1])
        self.is_last = np.ones(len(rows), np.bool_)
        self.is_last[:-1] = self.is_first[1:]
        self.leaves = self.is_last.copy()
        self.leaves[:-1] |= self.server[1:] != self.server[:-1]
        firsts = np.flatnonzero(self.is_first)
        before = np.full(len(firsts), -1, np.int64)
        before[1:] = np.where(self.command[firsts[1:]] == self.command[firsts[:-1]], firsts[:-1], -1)
        self.tile_before = np.full(len(rows), -1, np.int64)
        self.tile_before[firsts] = before

    def __len__(self) -> int:
        return len(self.row)

    def find(self, op_ids: Array) -> Array:
        """Returns the ops with these ids; -1 for an id of no op."""
        return _positions(self.op_id, op_ids)


class Turns(NamedTuple):
    """The `number` of each command in an order, and the command `before` it on the same PE; -1 for the first one."""

    number: Array
    before: Array


class LastTiles(NamedTuple):
    """The first op, `op_id`, of the last tile of each command `command_seq`, which ascend.

    It is ready at `t_ready_ps`.
    """

    command_seq: Array
    op_id: Array
    t_ready_ps: Array


class PathRows:
    """The rows of *log* that its paths need. `missing` has the names of the tables that the log lacks.

    *log* may be a part of another log: some of its ops, and all rows of other tables that these ops need. *last_tiles*
    are those of the whole log then. Raises LogError if the log has no table `kernels`: without it no launch has a start
    and an end.
    """

    def __init__(self, log: OpLog, last_tiles: LastTiles | None = None) -> None:
        self.log = log
        self._last_tiles = last_tiles
        self.missing = [name for name in log.missing if name in _TABLES]
        self.kernels = log.table("kernels")
        self.commands = Commands(self.optional("commands"))
        self.ops = Ops(log, self.commands)
        self.syncs = SyncCalls(of_programs(self.optional("waits")), self.optional("signals"))

    def optional(self, name: str) -> Array:
        """Returns the table *name*; a table without rows if the log lacks it."""
        return self.log.tables.get(name, np.empty(0, TABLE_DTYPES[name]))

    @cached_property
    def last_tile(self) -> Array:
        """The first op of the last tile of each command; -1 without ops, or if it is not in this part of the log."""
        if self._last_tiles is not None:
            at = _positions(self._last_tiles.command_seq, self.commands.seq)
            return np.where(at < 0, -1, self.ops.find(self._last_tiles.op_id[at]))
        last = np.full(len(self.commands), -1, np.int64)
        firsts = np.flatnonzero(self.ops.is_first)
        last[self.ops.command[firsts]] = firsts  # of several ops of a command, the last stays
        return last

    @cached_property
    def turns(self) -> Turns:
        """The commands in the order in which schedulers took them.

        Commands that were taken, decoded and begun at one time were fed in the order in which their last tiles came to
        their queues. Otherwise the order of the kernel decides. Engines with queues of their own may change it.
        """
        commands, never = self.commands, np.iinfo(np.int64).max
        if self._last_tiles is None:
            came = np.append(self.ops.t_ready, never)[self.last_tile]
        else:
            at = _positions(self._last_tiles.command_seq, commands.seq)
            came = np.append(self._last_tiles.t_ready_ps, never)[at]
        taken = np.lexsort((commands.seq, came, commands.t_fed, commands.t_decoded, commands.t_taken))
        return Turns(np.argsort(taken), _before(commands.pe, taken))

    @cached_property
    def kernel_of(self) -> Array:
        """The row of `kernels` of each command: the program of its PE that had begun last when it was called.

        It is -1 if that program has no row, because the log was cut off before it ended.
        """
        return program_of_calls(self.kernels, self.commands.pe, self.commands.t_call)

    @cached_property
    def program_before(self) -> Array:
        """For each row of `kernels`, the program of its launch that its PE began before it; -1 for the first one."""
        kernels = self.kernels
        order = np.lexsort((kernels["t_start_ps"], kernels["pe"], kernels["launch"]))
        same = np.ones(max(len(order) - 1, 0), np.bool_)
        for name in ("launch", "pe"):
            same &= kernels[name][order[1:]] == kernels[name][order[:-1]]
        before = np.full(len(kernels), -1, np.int64)
        before[order[1:][same]] = order[:-1][same]
        return before

    @cached_property
    def last_command(self) -> Array:
        """For each row of `kernels`, its command that was called last; -1 for a program without one."""
        last = np.full(len(self.kernels), -1, np.int64)
        known = np.flatnonzero(self.kernel_of >= 0)
        np.maximum.at(last, self.kernel_of[known], known)
        return last

    @cached_property
    def beginning_ps(self) -> Array:
        """For each row of `kernels`, the picoseconds in which PE_CPU began the program, up to its first call.

        They are 0 for a log without commands.
        """
        kernels, commands, syncs = self.kernels, self.commands, self.syncs
        if "commands" in self.missing:
            return np.zeros(len(kernels), np.int64)
        begins, of_syncs = commands.after == CallCause.START, syncs.programs(kernels)
        began_ps = np.where(self.is_idle, kernels["t_end_ps"], kernels["t_start_ps"])
        first_ps = np.full(len(kernels) + 1, np.iinfo(np.int64).max)
        np.minimum.at(first_ps, self.kernel_of[begins], commands.t_call[begins])
        np.minimum.at(first_ps, of_syncs, syncs.t_called)
        known = first_ps[:-1] < np.iinfo(np.int64).max
        spent: Array = np.where(known, first_ps[:-1], began_ps) - kernels["t_start_ps"]
        return spent

    @cached_property
    def is_idle(self) -> Array:
        """For each row of `kernels`, whether its program made no call that takes time."""
        idle = np.append(self.last_command < 0, False)
        idle[self.syncs.programs(self.kernels)] = False
        return idle[:-1]


def _before(group: Array, sequence: Array) -> Array:
    """For each element, the element before it in the same *group* by *sequence*; -1 for the first one."""
    order = sequence[np.argsort(group[sequence], kind="stable")]
    before = np.full(len(group), -1, np.int64)
    same = group[order[1:]] == group[order[:-1]]
    before[order[1:][same]] = order[:-1][same]
    return before


def _positions(known: Array, wanted: Array) -> Array:
    """The index of each of *wanted* in *known*, which ascends; -1 for a value that is not there."""
    if not len(known):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, at, -1)
