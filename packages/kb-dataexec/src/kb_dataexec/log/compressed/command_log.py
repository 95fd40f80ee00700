"""CommandLog: makes the records of a log of compressed rows command by command, in the order of pass 2."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.auxiliary import Tables, joined
from kb_dataexec.log.compressed.command import CommandLike
from kb_dataexec.log.compressed.decoded_commands import DecodedCommands, read_as_written
from kb_dataexec.log.compressed.record_tables import OwnersByPe, groups_of, operand_table
from kb_dataexec.log.table_dtypes import OPS_DTYPE
from kb_dataexec.log.tables import OpLog
from kb_messages import PipelinePlan

_PART_RECORDS: Final = 1 << 18
"""The number of records of a part. Source: the largest window of fused mode; 150 MB."""
_command_seq_of: Final = attrgetter("submitted.command_seq")
_first_op_of: Final = attrgetter("first_op")


class _Piece(NamedTuple):
    """The ops from number `begin` on and before number `end` of *command*."""

    command: CommandLike
    begin: int
    end: int


class CommandLog:
    """The records of *commands*, all of whose ops are in the log. *strings* and *immediates* are those of the log.
    *tables* has its table `sends`, if it has one.

    Pass 2 takes records by command, tile and stage, and reads no times. So the plans of the commands determine the
    records, and the records of one part are in memory at a time. `n_ops` is the number of records. All times are 0.
    """

    def __init__(
        self,
        commands: Sequence[CommandLike],
        owners: OwnersByPe,
        intern: Callable[[str], int],
        strings: list[str],
        immediates: bytes,
        tables: Tables,
    ) -> None:
        self._owners, self._intern = owners, intern
        self.strings, self.immediates, self.tables = strings, immediates, tables
        self.n_ops = sum(each.shared_plan.n_stages for each in commands)
        self._parts = list(_parts_of(sorted(commands, key=_command_seq_of)))

    @classmethod
    def read(
        cls, chunks: Iterable[tuple[bytes, str]], strings: list[str], immediates: bytes, n_ops: int
    ) -> CommandLog | None:
        """Reads a log of *n_ops* records from its *chunks*: the bytes of each, and its name in error messages.

        Returns None if a record is missing or comes twice, as after an error of a block: such a log is not made of
        whole commands. Returns None if two commands have the same number in the order, which `Schedule` refuses. Makes
        op ids alone, and no other column. Raises LogError for bytes that are no chunk.
        """
        decoded, seen, n_records = DecodedCommands(strings), np.zeros(n_ops, np.bool_), 0
        sends = []
        for data, where in chunks:
            with read_as_written(where):
                chunk = decoded.read(data, where, ())
                sends.append({"sends": chunk.tables["sends"]} if len(chunk.tables["sends"]) else {})
                isolated = [(first_op, each.rows) for first_op, each in chunk.isolated.items() if each is not None]
                for first_op, rows in [(0, chunk.pending), *isolated]:
                    n_records += rows.records.n_rows
                    if n_records > n_ops:
                        return None
                    for table in rows.records.chunks(_PART_RECORDS):
                        op_ids = table[:, 0] + first_op
                        if len(op_ids) and (op_ids.min() < 0 or op_ids.max() >= n_ops):
                            return None
                        seen[op_ids] = True
        first_ops = sorted(decoded.commands)
        commands = [decoded.commands[first_op] for first_op in first_ops]
        ends = accumulate(each.shared_plan.n_stages for each in commands)
        # Whole commands only: each op came once, and the commands lie one behind the other.
        if decoded.places is None or n_records < n_ops or not seen.all() or [*first_ops, n_ops] != [0, *ends]:
            return None
        if len({each.submitted.command_seq for each in commands}) < len(commands):
            return None
        return cls(commands, decoded.places.owners, decoded.intern, strings, immediates, joined(sends))

    def parts(self, backwards: bool = False) -> Iterator[OpLog]:
        """Yields logs of records that follow each other in the order of pass 2; *backwards*, the last part first."""
        return map(self._made, reversed(self._parts) if backwards else self._parts)

    def _made(self, pieces: Sequence[_Piece]) -> OpLog:
        op_ids = np.concatenate([np.arange(begin, end) + command.first_op for command, begin, end in pieces])
        ops: Array = np.zeros(len(op_ids), OPS_DTYPE)
        ops["op_id"] = op_ids
        commands = sorted((piece.command for piece in pieces), key=_first_op_of)
        groups = groups_of(op_ids, commands, self._owners, self._intern)
        for group in groups:
            group.fill_ops(ops)
        return OpLog(ops, operand_table(op_ids, groups), self.strings, self.immediates)


def _parts_of(commands: Sequence[CommandLike]) -> Iterator[list[_Piece]]:
    """Splits *commands* into parts of about _PART_RECORDS records: whole commands, or a piece of a large command."""
    part, n_records = list[_Piece](), 0
    for command in commands:
        n_stages = command.shared_plan.n_stages
        if part and n_records + n_stages > _PART_RECORDS:
            yield part
            part, n_records = [], 0
        most = _most_records(command.shared_plan)
        for begin in range(0, n_stages - most, most):
            yield [_Piece(command, begin, begin + most)]
        last = (n_stages - 1) // most * most
        part.append(_Piece(command, last, n_stages))
        n_records += n_stages - last
    if part:
        yield part


def _most_records(plan: PipelinePlan) -> int:
    """The number of records after which a command of *plan* is cut: after whole turns of its loops where they fit."""
    outer = plan.n_stages // plan.loop_order.outer_first(*plan.grid[:2])[0]
    each = outer if plan.has_panels else plan.n_stages // (plan.grid[0] * plan.grid[1])
    return max(1, _PART_RECORDS // each) * each if each <= _PART_RECORDS else _PART_RECORDS
