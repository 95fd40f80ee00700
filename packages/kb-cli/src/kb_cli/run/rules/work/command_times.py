"""CommandTimes: the commands of a log in the order of each PE, with their loads and their programs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_cli.run.rules.work.op_sums import first_operands, hashed, operands_of, ops_named
from kb_dataexec import OpLog
from kb_dataexec.analysis import Programs
from kb_engine import Host
from kb_messages import CallCause, MemorySpace, Role

Ints = npt.NDArray[np.int64]
_COLUMNS: Final = (
    "command_seq", "pe", "line", "n_ops", "t_call_ps", "t_issued_ps", "t_taken_ps", "t_decoded_ps", "t_done_ps",
    "after_seq", "after",
)  # fmt: skip
_N_OF_TRANSFER: Final = 7
_READ, _WRITE = "dma_read", "dma_write"


class Commands(NamedTuple):
    """Commands in columns: those of a PE follow each other, in their order. All are known to belong to a program.

    `pe` and `line` number strings. `program` is the row of the table `kernels`. `is_load` is True for a command that is
    one DMA read. `service_ps` is the time of the read, `nbytes` its bytes, and `n_pieces` its rectangles. The first of
    them begins at `offset` of `owner`, and ends `span_nbytes` later. All are 0 for other commands. `write_ps` is the
    time of a command that is one DMA write, otherwise 0. `is_awaited` is True for a load for which the kernel waited
    before it went on.
    """

    pe: Ints
    line: Ints
    program: Ints
    t_call_ps: Ints
    t_done_ps: Ints
    issue_ps: Ints
    decode_ps: Ints
    service_ps: Ints
    write_ps: Ints
    nbytes: Ints
    n_pieces: Ints
    owner: Ints
    offset: Ints
    span_nbytes: Ints
    is_load: npt.NDArray[np.bool_]
    is_awaited: npt.NDArray[np.bool_]


class Kernels(NamedTuple):
    """The programs of a log in columns, as its table `kernels` has them: `pe` numbers strings."""

    launch: Ints
    pe: Ints
    t_start_ps: Ints
    t_end_ps: Ints


class CommandTimes:
    """Collects the commands of a log of *host*: pass each chunk, or the whole log, to `look`.

    `strings` has the texts of the log. A log without the tables `commands` and `kernels` has no commands here.
    """

    def __init__(self, host: Host) -> None:
        self._reserved = min((pe.scheduler.reserved_nbytes for pe in host.engine.pes.values()), default=0)
        self.strings: Sequence[str] = ()
        self._programs = Programs()
        self._rows: list[Ints] = []
        self._kernels: list[Ints] = []
        self._reads: list[Ints] = []
        self._writes: list[Ints] = []
        self._tcm: dict[int, set[tuple[int, int]]] = {}

    def look(self, chunk: OpLog) -> None:
        """Takes *chunk*, a part of a log with the operands of its ops, or a whole log."""
        self.strings = chunk.strings
        self._programs.look(chunk)
        if "commands" in chunk.missing or "kernels" in chunk.missing:
            return
        commands, kernels = chunk.table("commands"), chunk.table("kernels")
        self._rows.append(np.stack([commands[name].astype(np.int64) for name in _COLUMNS]))
        self._kernels.append(np.stack([kernels[name].astype(np.int64) for name in Kernels._fields]))
        self._reads.append(_transfers_of(chunk, _READ, Role.SRC))
        self._writes.append(_transfers_of(chunk, _WRITE, Role.DST))
        self._look_at_tcm(chunk)

    def _look_at_tcm(self, chunk: OpLog) -> None:
        operands = chunk.operands
        at = np.flatnonzero(operands["space"] == MemorySpace.TCM.code)
        at = at[(operands["offset"][at] >= self._reserved) & (operands["role"][at] != Role.SRC)]
        mine = operands[at]
        span = (mine["rows"] - 1) * mine["stride"] + mine["row_nbytes"]
        places = [mine["owner"].astype(np.int64), mine["offset"], mine["offset"] + span]
        _, first = np.unique(hashed(places), return_index=True)
        for owner, start, end in zip(*(column[first].tolist() for column in places), strict=True):
            self._tcm.setdefault(owner, set()).add((start, end))

    def tcm_nbytes(self, owner: int, start: int) -> int:
        """Bytes of the TCM *owner* from offset *start* on that commands have written. No kernel held more at once."""
        total, reached = 0, start
        for low, high in sorted(self._tcm.get(owner, ())):
            total += max(0, high - max(low, reached))
            reached = max(reached, high)
        return total

    @cached_property
    def work_ps(self) -> int:
        """The picoseconds of the commands of a PE that are no loads, the most of all PEs, from call to end.

        0 unless kernels wait for commands: commands that run at the same time do not add up.
        """
        commands = self.commands
        if commands is None or not commands.is_awaited.any():
            return 0
        work = np.where(commands.is_load, 0, commands.t_done_ps - commands.t_call_ps)
        return int(np.bincount(commands.pe, work).max())

    @cached_property
    def kernels(self) -> Kernels:
        """All programs."""
        return (
            Kernels(*np.concatenate(self._kernels, axis=1)) if self._kernels else Kernels(*np.zeros((4, 0), np.int64))
        )

    @cached_property
    def commands(self) -> Commands | None:
        """All commands of known programs; None where the log does not say them."""
        if not self._programs.is_known or not self._rows:
            return None
        rows = np.concatenate(self._rows, axis=1)
        rows = rows[:, np.lexsort((rows[0], rows[1]))]
        program = self._programs.of_commands(rows[0])
        rows, program = rows[:, program >= 0], program[program >= 0]
        seq, pe, line, n_ops, call, issued, taken, decoded, done, after_seq, after = rows
        is_load, (service, *loaded) = _looked_up(seq, n_ops, self._reads)
        _, (write, *_) = _looked_up(seq, n_ops, self._writes)
        goes_on = np.zeros(len(seq), np.bool_)
        goes_on[:-1] = (after[1:] == CallCause.COMPLETION) & (after_seq[1:] == seq[:-1]) & (program[1:] == program[:-1])
        times = pe, line, program, call, done, issued - call, decoded - taken, service, write
        nbytes, n_pieces, owner, offset, span = loaded
        return Commands(*times, nbytes, n_pieces, owner, offset, span, is_load, is_load & goes_on)


def _transfers_of(chunk: OpLog, name: str, far: Role) -> Ints:
    """The ops *name* of the first tiles of *chunk* in columns: number of the command, picoseconds of service, bytes and
    pieces of the operands with the role *far*, and owner, offset and span of the first of them.
    """
    ops = ops_named(chunk, name, first_tiles=True)
    if not len(ops):
        return np.zeros((_N_OF_TRANSFER, 0), np.int64)
    ops = ops[np.argsort(ops["op_id"], kind="stable")]
    mine = operands_of(chunk, ops["op_id"], far)
    at = np.searchsorted(ops["op_id"], mine["op_id"])
    nbytes = np.bincount(at, mine["rows"] * mine["row_nbytes"], len(ops)).astype(np.int64)
    rows, row_nbytes, _, owner, offset, stride = first_operands(chunk, ops["op_id"], far)
    span = (rows - 1) * stride + row_nbytes
    service, n_pieces = ops["t_end_ps"] - ops["t_start_ps"], np.bincount(at, minlength=len(ops))
    return np.stack([ops["command_seq"], service, nbytes, n_pieces, owner, offset, span])


def _looked_up(seq: Ints, n_ops: Ints, found: list[Ints]) -> tuple[npt.NDArray[np.bool_], list[Ints]]:
    """For each command *seq*, whether it is one transfer of *found*; and the columns of the transfer, 0 for others."""
    transfers = np.concatenate(found, axis=1)
    if not transfers.shape[1]:
        return np.zeros(len(seq), np.bool_), [np.zeros(len(seq), np.int64) for _ in transfers[1:]]
    transfers = transfers[:, np.argsort(transfers[0], kind="stable")]
    at = np.minimum(np.searchsorted(transfers[0], seq), transfers.shape[1] - 1)
    is_one = (n_ops == 1) & (transfers[0][at] == seq)
    return is_one, [np.where(is_one, column[at], 0) for column in transfers[1:]]
