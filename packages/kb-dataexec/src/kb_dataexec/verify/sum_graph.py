"""SumGraph: the flow of values between the ops of a log, as far as the lengths of sums depend on it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.analysis.dependencies import cell_numbers
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.columns import RECTANGLE_COLUMNS, Columns
from kb_dataexec.log.schedule import Schedule
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE, OPS_DTYPE
from kb_dataexec.log.tables import OpLog
from kb_dataexec.ops import math
from kb_dataexec.verify.sums import Sums, product_terms, reduction_terms
from kb_messages import MATH_FUNCTIONS, MathAttributes, MemorySpace, OpKind, Rectangle, Role, space_code_of

_WRITES = tuple(role for role in Role if role.is_write)
_ADDS: Final = frozenset(("add", "sub", "fma", "fdim"))
"""Functions that add two values."""
_SCALES: Final = frozenset(
    ("div", "copysign", "floor", "ceil", "rint", "round", "trunc", "nextafter", "ldexp", "fmod", "remainder")
)
"""Functions of floats alone whose result is an argument, or one as many times as large."""
_ADDEND: Final = 2
"""The index of the argument of `fma` that is added."""


class Rule(IntEnum):
    """The rule for the number of terms of the result of an op. APART is no op: it reads the factors of the next op."""

    MOVE = 0
    ADD = 1
    BEND = 2
    SUM = 3
    PRODUCT = 4
    APART = 5


class SumGraph(NamedTuple):
    """Ops in the order of their data. The log `touched` has the bytes that they read and write; each has a `rule`.

    `own` are the terms that a SUM or a PRODUCT adds up. The last ops are moves that read the outputs.
    """

    touched: OpLog
    rule: Array
    own: Array


class _Nodes:
    """The ops of the graph for *schedule*: one for each command that only moves data or multiplies matrices from
    scratch, and for each record of another command. Each move of a record is an op of its own.

    `key` has, for each operand row of the log, the op that touches it.
    """

    def __init__(self, schedule: Schedule, sums: Sums) -> None:
        ops = schedule.ops
        opens, self._command = np.unique(ops["command_seq"], return_index=True, return_inverse=True)[1:]
        computes = np.isin(ops["command_seq"], ops["command_seq"][ops["kind"] == OpKind.MATH])
        self._is_whole = ~computes & ~np.isin(ops["command_seq"], sums.continuing)
        self._rule, self._own, addend = _rules(schedule)
        multiplies = np.zeros(len(opens), np.bool_)
        multiplies[self._command[ops["kind"] == OpKind.GEMM]] = True
        terms = np.zeros(len(opens), np.int64)
        np.maximum.at(terms, np.searchsorted(ops["command_seq"][opens], sums.command_seq), sums.terms)
        whole = np.flatnonzero(self._is_whole)
        self._rule[whole] = np.where(multiplies[self._command[whole]], Rule.PRODUCT, Rule.MOVE)
        self._own[whole] = terms[self._command[whole]]
        record = np.repeat(np.arange(len(ops)), np.diff(schedule.first))
        place = np.arange(len(record)) - schedule.first[record]
        role = np.asarray(schedule.operands["role"])
        factor = np.isin(role, (Role.A, Role.B)) | (
            (role == Role.IN) & (addend[record] >= 0) & (place != addend[record])
        )
        reads = ~np.isin(role, _WRITES)
        apart = np.where(self._is_whole[record], reads & (self._rule[record] == Rule.PRODUCT), factor)
        move = np.where(self._is_whole[record] | (ops["kind"][record] != OpKind.MEMORY), 0, place // 2)
        self._width = int(move.max(initial=0)) + 1
        first = np.where(self._is_whole[record], opens[self._command[record]], record)
        self.key = (first * self._width + move) * 2 + ~apart
        self.is_whole = self._is_whole[record]

    def rules(self, keys: Array) -> tuple[Array, Array]:
        """The rule and the own terms of the ops *keys*."""
        record = keys // 2 // self._width
        return np.where(keys % 2 == 0, Rule.APART, self._rule[record]), self._own[record]


def sum_graph(log: OpLog, sums: Sums, outputs: Sequence[Sequence[Rectangle]]) -> SumGraph:
    """Returns the graph of *log*, whose sums are *sums*. Its last ops read *outputs*, each given by its rectangles.

    Bytes that a command writes before it reads them are its own, such as tile buffers. A command that is one op has no
    such bytes. Raises LogError for an invalid log, and for a closed log that lacks an op.
    """
    schedule = Schedule(log)
    log.check_gaps("op log")
    nodes, rows = _Nodes(schedule, sums), schedule.operands
    shared = np.flatnonzero(rows["space"] != MemorySpace.IMMEDIATE.code)
    writes, key = np.isin(rows["role"][shared], _WRITES), nodes.key[shared]
    places = [rows[name][shared].astype(np.int64) for name in RECTANGLE_COLUMNS]
    cell = cell_numbers([key | 1, *places])
    _, opens = np.unique(cell, return_index=True)
    is_own = writes[opens][cell] & nodes.is_whole[shared]
    tables = [
        _rows_of(rows, shared, [key, *places], writes, Role.DST),
        _rows_of(rows, shared, [key, *places], ~writes & ~is_own, Role.SRC),
    ]
    touched = np.concatenate(tables)
    keys = np.unique(nodes.key)
    touched["op_id"] = np.searchsorted(keys, touched["op_id"])
    readers = len(keys) + np.arange(len(outputs))
    ops = np.zeros(len(keys) + len(readers), OPS_DTYPE)
    ops["op_id"] = ops["command_seq"] = np.arange(len(ops))
    read = [read_of(int(seq), each) for seq, output in zip(readers, outputs, strict=True) for each in output]
    rule, own = (np.append(each, np.zeros(len(readers), np.int64)) for each in nodes.rules(keys))
    return SumGraph(OpLog(ops, np.concatenate([touched, *read]), ["command"]), rule, own)


def _rules(schedule: Schedule) -> tuple[Array, Array, Array]:
    """For each record: its rule, the terms that it adds up, and the index of the operand that it adds to a product.

    The index is -1 if no other operand is a factor, and behind all operands if a number is added.
    """
    ops, log = schedule.ops, schedule.log
    rule, own, addend = (np.full(len(ops), value, np.int64) for value in (Rule.MOVE, 0, -1))
    products = np.flatnonzero(ops["kind"] == OpKind.GEMM)
    rule[products], own[products] = Rule.PRODUCT, product_terms(log, ops[products])[0]
    maths = np.flatnonzero(ops["kind"] == OpKind.MATH)
    used, at = np.unique(ops["params"][maths], return_inverse=True)
    found = [math.attributes_of(log.strings[index]) for index in used.tolist()]
    rule[maths] = np.array([_rule(each) for each in found], np.int64)[at]
    addend[maths] = np.array([_addend(each) for each in found], np.int64)[at]
    own[maths] = reduction_terms(log, ops[maths])
    rule[maths[own[maths] > 0]] = Rule.SUM
    return rule, own, addend


def _rule(math: MathAttributes | None) -> Rule:
    function = None if math is None else MATH_FUNCTIONS.get(math.op)
    if math is None or function is None:
        return Rule.MOVE
    if math.op in _ADDS:
        return Rule.ADD
    bends = function.is_test or function.finds or (function.float_only and math.op not in _SCALES)
    return Rule.BEND if bends else Rule.MOVE


def _addend(math: MathAttributes | None) -> int:
    """The index of the operand that `fma` adds; behind all operands if it adds a number; -1 for another function."""
    if math is None or math.op != "fma":
        return -1
    at = math.scalar_at or tuple(range(_ADDEND + 1 - len(math.scalars), _ADDEND + 1))
    return _ADDEND + 1 if _ADDEND in at and math.scalars else _ADDEND - len(math.scalars)


def _rows_of(rows: Columns, shared: Array, columns: list[Array], chosen: Array, role: Role) -> Array:
    """The operands of *shared* that *chosen* marks, each rectangle of an op once. *columns* has op and rectangle."""
    _, once = np.unique(cell_numbers([column[chosen] for column in columns]), return_index=True)
    table = np.zeros(len(once), OPERAND_DTYPE)
    table["op_id"], table["role"] = columns[0][chosen][once], role
    for name in (*RECTANGLE_COLUMNS, "space"):
        table[name] = rows[name][shared][chosen][once]
    return table


def read_of(op_id: int, rectangle: Rectangle) -> Array:
    """Returns the operand row by which *op_id* reads *rectangle*."""
    row = np.zeros(1, OPERAND_DTYPE)
    row["op_id"], row["role"] = op_id, Role.SRC
    for name, number in zip(RECTANGLE_COLUMNS, rectangle.in_memory, strict=True):
        row[name] = number
    row["space"] = space_code_of(rectangle.in_memory[0])
    return row
