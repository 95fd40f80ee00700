"""The length of the sums in a log, which tells how much rounding a correct result may have."""

from __future__ import annotations

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.tables import OpLog
from kb_dataexec.ops.gemm import attributes_of
from kb_messages import DTYPE_BY_CODE, OpKind, Role


def sum_length(log: OpLog) -> int:
    """The number of terms of the longest sum that GEMMs of *log* accumulate, at least 1.

    Consecutive GEMMs that accumulate into the same first byte are one sum. Sums that other ops make are not counted.
    """
    ops = log.ops[log.ops["kind"] == OpKind.GEMM]
    ops = ops[np.lexsort(tuple(ops[key] for key in ("op_id", "stage_index", "tile_id", "command_seq")))]
    a, out = (_first_operand(log.operands, role, ops["op_id"]) for role in (Role.A, Role.OUT))
    is_whole = (a >= 0) & (out >= 0)
    ops, a, out = ops[is_whole], log.operands[a[is_whole]], log.operands[out[is_whole]]
    if not len(ops):
        return 1
    adds, is_transposed = _attributes(log, ops)
    terms = np.where(is_transposed, a["rows"], a["row_nbytes"] // _itemsizes()[a["dtype"]])
    order = np.lexsort((out["offset"], out["owner"]))  # stable: the GEMMs into one place keep their order
    place = np.stack([out["owner"][order].astype(np.int64), out["offset"][order]])
    begins = ~adds[order] | np.append(True, (np.diff(place) != 0).any(axis=0))
    return max(1, int(np.add.reduceat(terms[order], np.flatnonzero(begins)).max()))


def _first_operand(operands: Array, role: Role, op_ids: Array) -> Array:
    """The row of the first operand with *role* of each op, -1 for an op without one."""
    rows = np.flatnonzero(operands["role"] == role)
    if not len(rows):
        return np.full(len(op_ids), -1)
    rows = rows[np.argsort(operands["op_id"][rows], kind="stable")]
    at = np.minimum(np.searchsorted(operands["op_id"][rows], op_ids), len(rows) - 1)
    return np.where(operands["op_id"][rows[at]] == op_ids, rows[at], -1)


def _attributes(log: OpLog, ops: Array) -> tuple[Array, Array]:
    """(whether each GEMM accumulates, whether its A is transposed)."""
    used, at = np.unique(ops["params"], return_inverse=True)
    found = [attributes_of(log.strings[index]) for index in used.tolist()]
    flags = np.array([(each is not None and each.accumulate, each is not None and each.transpose_a) for each in found])
    return flags[at, 0], flags[at, 1]


def _itemsizes() -> Array:
    return np.array([DTYPE_BY_CODE[code].nbytes for code in range(max(DTYPE_BY_CODE) + 1)])
