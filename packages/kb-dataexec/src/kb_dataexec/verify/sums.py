"""Sums: the sums in a log, each with its number of terms and the command that ends it."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.tables import OpLog
from kb_dataexec.ops import gemm, math
from kb_messages import DTYPE_BY_CODE, OpKind, Role

_SUMS: Final = ("sum", "cumsum")
"""Functions of MATH records that add up a row or a column."""


class Sums(NamedTuple):
    """The sums of a log. Sum i has `terms[i]` terms and ends in command `command_seq[i]`.

    `continuing` has the commands with a GEMM that adds to the output of another command.
    """

    command_seq: Array
    terms: Array
    continuing: Array


def sum_length(log: OpLog) -> int:
    """Returns the terms of the longest sum of *log*, at least 1: a sum of products, or a `sum` of a row or column."""
    return int(sums_of(log).terms.max(initial=1))


def sums_of(log: OpLog, across_commands: bool = True) -> Sums:
    """Returns all sums of *log*, by GEMMs that accumulate and by MATH ops.

    Consecutive GEMMs that accumulate into the same first byte are one sum; without *across_commands*, only GEMMs of
    one command.
    """
    products, reductions = _products(log, across_commands), _reductions(log)
    seqs, terms = (np.concatenate(pair) for pair in zip(products[:2], reductions, strict=True))
    return Sums(seqs, terms, np.unique(products.continuing))


def product_terms(log: OpLog, ops: Array) -> tuple[Array, Array]:
    """Returns the terms of each product of *ops*, which are GEMMs, and whether it adds to its output.

    The terms are 0 for an op without an operand A or an output.
    """
    a, out = (_first_operand(log.operands, role, ops["op_id"]) for role in (Role.A, Role.OUT))
    terms, adds = np.zeros(len(ops), np.int64), np.zeros(len(ops), np.bool_)
    is_whole = (a >= 0) & (out >= 0)
    if is_whole.any():
        factor = log.operands[a[is_whole]]
        adds[is_whole], is_transposed = _gemm_attributes(log, ops[is_whole])
        columns = factor["row_nbytes"] // _itemsizes()[factor["dtype"]]
        terms[is_whole] = np.where(is_transposed, factor["rows"], columns)
    return terms, adds


def reduction_terms(log: OpLog, ops: Array) -> Array:
    """Returns the terms that each of *ops*, which are MATH ops, adds up; 0 for an op that is no sum along an axis."""
    terms = np.zeros(len(ops), np.int64)
    used, at = np.unique(ops["params"], return_inverse=True)
    found = [math.attributes_of(log.strings[index]) for index in used.tolist()]
    sums = [each if each is not None and each.op in _SUMS and each.axis in (0, 1) else None for each in found]
    axis = np.array([-1 if each is None else each.axis for each in sums], np.int64)[at]
    grouped = np.array([each.group[0] if each is not None and each.group else 0 for each in sums], np.int64)[at]
    mine = np.flatnonzero(axis >= 0)
    row = _first_operand(log.operands, Role.IN, ops["op_id"][mine])
    mine, row = mine[row >= 0], log.operands[row[row >= 0]]
    along = np.where(axis[mine] == 0, row["rows"], row["row_nbytes"] // _itemsizes()[row["dtype"]])
    terms[mine] = np.where(grouped[mine] > 0, grouped[mine], along)
    return terms


def _products(log: OpLog, across_commands: bool) -> Sums:
    ops = log.ops[log.ops["kind"] == OpKind.GEMM]
    ops = ops[np.lexsort(tuple(ops[key] for key in ("op_id", "stage_index", "tile_id", "command_seq")))]
    terms, adds = product_terms(log, ops)
    ops, adds, terms = ops[terms > 0], adds[terms > 0], terms[terms > 0]
    if not len(ops):
        return Sums(*(np.empty(0, np.int64) for _ in range(3)))
    out = log.operands[_first_operand(log.operands, Role.OUT, ops["op_id"])]
    order = np.lexsort((out["offset"], out["owner"]))  # stable: the GEMMs into one place keep their order
    seqs = ops["command_seq"][order]
    command = np.zeros(len(order), np.int64) if across_commands else seqs
    place = np.stack([out["owner"][order].astype(np.int64), out["offset"][order], command])
    moves = np.append(True, (np.diff(place) != 0).any(axis=0))
    opens = np.flatnonzero(~adds[order] | moves)
    closes = np.append(opens[1:], len(order)) - 1
    return Sums(seqs[closes], np.add.reduceat(terms[order], opens), seqs[opens][adds[order][opens]])


def _reductions(log: OpLog) -> tuple[Array, Array]:
    """The commands and the terms of the sums of MATH ops, each of one op."""
    ops = log.ops[log.ops["kind"] == OpKind.MATH]
    terms = reduction_terms(log, ops)
    return ops["command_seq"][terms > 0], terms[terms > 0]


def _first_operand(operands: Array, role: Role, op_ids: Array) -> Array:
    """The row of the first operand with *role* of each op, -1 for an op without one."""
    rows = np.flatnonzero(operands["role"] == role)
    if not len(rows):
        return np.full(len(op_ids), -1)
    rows = rows[np.argsort(operands["op_id"][rows], kind="stable")]
    at = np.minimum(np.searchsorted(operands["op_id"][rows], op_ids), len(rows) - 1)
    return np.where(operands["op_id"][rows[at]] == op_ids, rows[at], -1)


def _gemm_attributes(log: OpLog, ops: Array) -> tuple[Array, Array]:
    """Returns (whether each GEMM accumulates, whether its A is transposed)."""
    used, at = np.unique(ops["params"], return_inverse=True)
    found = [gemm.attributes_of(log.strings[index]) for index in used.tolist()]
    flags = np.array([(each is not None and each.accumulate, each is not None and each.transpose_a) for each in found])
    return flags[at, 0], flags[at, 1]


def _itemsizes() -> Array:
    return np.array([DTYPE_BY_CODE[code].nbytes for code in range(max(DTYPE_BY_CODE) + 1)])
