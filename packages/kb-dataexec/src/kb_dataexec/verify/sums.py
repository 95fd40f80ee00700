"""The sums in a log: how many terms each has, and which command ends it."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.tables import OpLog
from kb_dataexec.ops import gemm, math
from kb_messages import DTYPE_BY_CODE, OpKind, Role

_SUMS: Final = ("sum", "cumsum")
"""Functions of MATH records that add up a row or a column."""
_ADDS: Final = ("add", "fma")
"""Functions that add two values: the result has the terms of both."""


class Sums(NamedTuple):
    """The sums of a log. Sum i has `terms[i]` terms and ends in command `command_seq[i]`.

    `adding` has the commands that add values of other commands, such as `x + y` and a GEMM into an old accumulator.
    `continuing` has the ids of the GEMMs that add to what their output held before.
    """

    command_seq: Array
    terms: Array
    adding: Array
    continuing: Array


def sum_length(log: OpLog) -> int:
    """The number of terms of the longest sum of *log*, at least 1: a sum of products, or a `sum` of a row or column."""
    return int(sums_of(log).terms.max(initial=1))


def sums_of(log: OpLog, across_commands: bool = True) -> Sums:
    """All sums of *log* that GEMMs accumulate and that MATH ops make.

    Consecutive GEMMs that accumulate into the same first byte are one sum; without *across_commands*, those of one
    command are.
    """
    products, reductions = _products(log, across_commands), _reductions(log)
    seqs, terms, adding, continuing = (np.concatenate(pair) for pair in zip(products, reductions, strict=True))
    return Sums(seqs, terms, np.unique(adding), continuing)


def _products(log: OpLog, across_commands: bool) -> Sums:
    ops = log.ops[log.ops["kind"] == OpKind.GEMM]
    ops = ops[np.lexsort(tuple(ops[key] for key in ("op_id", "stage_index", "tile_id", "command_seq")))]
    a, out = (_first_operand(log.operands, role, ops["op_id"]) for role in (Role.A, Role.OUT))
    is_whole = (a >= 0) & (out >= 0)
    ops, a, out = ops[is_whole], log.operands[a[is_whole]], log.operands[out[is_whole]]
    if not len(ops):
        return _no_sums()
    adds, is_transposed = _gemm_attributes(log, ops)
    terms = np.where(is_transposed, a["rows"], a["row_nbytes"] // _itemsizes()[a["dtype"]])
    order = np.lexsort((out["offset"], out["owner"]))  # stable: the GEMMs into one place keep their order
    seqs = ops["command_seq"][order]
    command = np.zeros(len(order), np.int64) if across_commands else seqs
    place = np.stack([out["owner"][order].astype(np.int64), out["offset"][order], command])
    moves = np.append(True, (np.diff(place) != 0).any(axis=0))
    opens = np.flatnonzero(~adds[order] | moves)
    closes = np.append(opens[1:], len(order)) - 1
    into_old = seqs[opens][adds[order][opens]]
    return Sums(
        seqs[closes],
        np.add.reduceat(terms[order], opens).astype(np.int64),
        into_old,
        ops["op_id"][adds].astype(np.int64),
    )


def _reductions(log: OpLog) -> Sums:
    """The sums of MATH ops, each of one op."""
    ops = log.ops[log.ops["kind"] == OpKind.MATH]
    used, at = np.unique(ops["params"], return_inverse=True)
    found = [math.attributes_of(log.strings[index]) for index in used.tolist()]
    axis = np.array(
        [each.axis if each is not None and each.op in _SUMS and each.axis in (0, 1) else -1 for each in found]
    )
    adds = np.array([each is not None and each.op in _ADDS for each in found], np.bool_)
    adding = ops["command_seq"][adds[at]] if len(ops) else np.empty(0, np.int64)
    if not len(ops) or axis.max() < 0:
        return _no_sums()._replace(adding=adding)
    grouped = np.array([each.group[0] if each is not None and each.group else 0 for each in found])[at]
    is_sum = axis[at] >= 0
    ops, axis, grouped = ops[is_sum], axis[at][is_sum], grouped[is_sum]
    row = _first_operand(log.operands, Role.IN, ops["op_id"])
    ops, axis, grouped, row = ops[row >= 0], axis[row >= 0], grouped[row >= 0], log.operands[row[row >= 0]]
    terms = np.where(axis == 0, row["rows"], row["row_nbytes"] // _itemsizes()[row["dtype"]])
    terms = np.where(grouped > 0, grouped, terms)
    return Sums(ops["command_seq"], terms.astype(np.int64), adding, np.empty(0, np.int64))


def _no_sums() -> Sums:
    return Sums(*(np.empty(0, np.int64) for _ in range(4)))


def _first_operand(operands: Array, role: Role, op_ids: Array) -> Array:
    """The row of the first operand with *role* of each op, -1 for an op without one."""
    rows = np.flatnonzero(operands["role"] == role)
    if not len(rows):
        return np.full(len(op_ids), -1)
    rows = rows[np.argsort(operands["op_id"][rows], kind="stable")]
    at = np.minimum(np.searchsorted(operands["op_id"][rows], op_ids), len(rows) - 1)
    return np.where(operands["op_id"][rows[at]] == op_ids, rows[at], -1)


def _gemm_attributes(log: OpLog, ops: Array) -> tuple[Array, Array]:
    """(whether each GEMM accumulates, whether its A is transposed)."""
    used, at = np.unique(ops["params"], return_inverse=True)
    found = [gemm.attributes_of(log.strings[index]) for index in used.tolist()]
    flags = np.array([(each is not None and each.accumulate, each is not None and each.transpose_a) for each in found])
    return flags[at, 0], flags[at, 1]


def _itemsizes() -> Array:
    return np.array([DTYPE_BY_CODE[code].nbytes for code in range(max(DTYPE_BY_CODE) + 1)])
