"""How many terms the sums behind an output have. The commands that lead to the output decide, and no others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kb_dataexec.analysis.dependencies import Kind, cell_numbers, dependencies
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.columns import RECTANGLE_COLUMNS, Columns
from kb_dataexec.log.schedule import Schedule
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE, OPS_DTYPE
from kb_dataexec.log.tables import OpLog
from kb_dataexec.verify.sums import sums_of
from kb_messages import MemorySpace, Rectangle, Role, space_code_of

_WRITES = tuple(role for role in Role if role.is_write)


def sum_lengths(log: OpLog, outputs: Sequence[Sequence[Rectangle]]) -> list[int]:
    """For each of *outputs*, given by its rectangles, the terms of the longest sum on the way to it, at least 1.

    A value has as many terms as the longest sum behind it. Where a command adds values (`x + y`, or a GEMM that
    continues an old accumulator) their terms add up, so a loop `acc += dot(a, b)` counts all of its products. Commands
    are followed through the bytes that they exchange. Raises LogError as `Schedule` does.
    """
    sums = sums_of(log, across_commands=False)
    if not len(sums.terms) or sums.terms.max() <= 1:
        return [1] * len(outputs)
    graph = _by_command(log, outputs, sums.continuing)
    found = dependencies(graph)
    commands = graph.ops["command_seq"]
    own = np.ones(len(commands), np.int64)
    np.maximum.at(own, np.searchsorted(commands, sums.command_seq), sums.terms)
    adds = np.isin(commands, sums.adding)
    terms = _longest(own.tolist(), adds.tolist(), *_reads(found.first, found.producer, found.kind))
    return terms[len(terms) - len(outputs) :] if outputs else []


def _longest(own: list[int], adds: list[bool], first: list[int], producer: list[int]) -> list[int]:
    """The terms of each command. No value has more terms than all sums together."""
    terms, most = list[int](), sum(own)
    for index, (length, added) in enumerate(zip(own, adds, strict=True)):
        behind = [terms[each] for each in producer[first[index] : first[index + 1]]]
        if added:
            long = [each for each in behind if each > 1]
            behind = [sum(long) + (length if length > 1 else 0)]
        terms.append(min(max([length, *behind]), most))
    return terms


def _reads(first: Array, producer: Array, kind: Array) -> tuple[list[int], list[int]]:
    """(*first*, *producer*) of the dependencies by which a command reads what another wrote."""
    reads = (kind & (Kind.RAW | Kind.EXPLICIT)) != 0
    return np.append(0, np.cumsum(reads))[first].tolist(), producer[reads].tolist()


def _by_command(log: OpLog, outputs: Sequence[Sequence[Rectangle]], continuing: Array) -> OpLog:
    """*log* as one op for each command, which touches the bytes that it exchanges with others.

    Bytes that a command writes before it reads them are its own, such as tile buffers and most registers. The
    *continuing* GEMMs read what they write. One more op for each of *outputs* reads it.
    """
    schedule = Schedule(log)
    rows = schedule.operands
    n_rows = np.diff(schedule.first)
    shared = np.flatnonzero(rows["space"] != MemorySpace.IMMEDIATE.code)
    writes = np.isin(rows["role"][shared], _WRITES)
    adds = np.repeat(np.isin(schedule.ops["op_id"], continuing), n_rows)[shared] & writes
    seqs = np.repeat(schedule.ops["command_seq"], n_rows)[shared]
    columns = [seqs, *(rows[name][shared].astype(np.int64) for name in RECTANGLE_COLUMNS)]
    cell = cell_numbers(columns[:3])
    _, opens = np.unique(cell, return_index=True)
    is_own = (writes & ~adds)[opens][cell]
    tables = [
        _rows_of(rows, shared, columns, writes, Role.DST),
        _rows_of(rows, shared, columns, (~writes | adds) & ~is_own, Role.SRC),
    ]
    commands = np.unique(schedule.ops["command_seq"])
    readers = int(commands.max(initial=-1)) + 1 + np.arange(len(outputs))
    ops = np.zeros(len(commands) + len(readers), OPS_DTYPE)
    ops["op_id"] = ops["command_seq"] = np.concatenate([commands, readers])
    read = [_read(int(seq), each) for seq, output in zip(readers, outputs, strict=True) for each in output]
    return OpLog(ops, np.concatenate([*tables, *read]), ["command"])


def _rows_of(rows: Columns, shared: Array, columns: list[Array], chosen: Array, role: Role) -> Array:
    """The operands of *shared* that *chosen* marks, each place of a command once. *columns* has command and place."""
    _, once = np.unique(cell_numbers([column[chosen] for column in columns]), return_index=True)
    table = np.zeros(len(once), OPERAND_DTYPE)
    table["op_id"], table["role"] = columns[0][chosen][once], role
    for name in (*RECTANGLE_COLUMNS, "space"):
        table[name] = rows[name][shared][chosen][once]
    return table


def _read(command_seq: int, rectangle: Rectangle) -> Array:
    """The operand row by which *command_seq* reads *rectangle*."""
    row = np.zeros(1, OPERAND_DTYPE)
    row["op_id"], row["role"] = command_seq, Role.SRC
    for name, number in zip(RECTANGLE_COLUMNS, rectangle.in_memory, strict=True):
        row[name] = number
    row["space"] = space_code_of(rectangle.in_memory[0])
    return row
