"""coarsest_roundings: the coarsest type that the values behind an output were rounded to, by the ops that lead to it.

A value is rounded where an op writes it in a type with fewer digits than the values that the op reads, or computes it
in that type. Ops that choose or move values round nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from kb_dataexec.analysis.dependencies import DependencyKind, dependencies
from kb_dataexec.arrays.dtypes import Array, cast
from kb_dataexec.log.schedule import Schedule
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE, OPS_DTYPE
from kb_dataexec.log.tables import OpLog
from kb_dataexec.ops import math
from kb_dataexec.verify.sum_graph import read_of
from kb_messages import DTYPE_BY_CODE, DType, MathAttributes, OpKind, Rectangle, Role

_ORDER: Final = (DType.F32, DType.F16, DType.BF16, DType.F8E4M3, DType.F8E5M2)
"""Types from the most digits to the fewest."""
_CHOOSES: Final = frozenset(
    (
        *("copy", "neg", "abs", "relu", "sign", "copysign", "floor", "ceil", "rint", "round", "trunc", "where", "cas"),
        *("maximum", "minimum", "maximum_number", "minimum_number", "max", "min", "max_number", "min_number"),
        *("cummax", "cummin", "cummax_number", "cummin_number", "sort", "merge"),
        *("fill", "spread", "bitcast", "rearrange", "combine", "gather"),
    )
)
"""Functions whose result is one of their arguments, perhaps with another sign, or a whole number."""


class Rounding(Struct, frozen=True, kw_only=True):
    """A rounding to `dtype`, at the kernel line `line`."""

    dtype: DType
    line: str

    def __str__(self) -> str:
        return f"{self.dtype}, which {self.line or 'an op'} rounds to"


def coarsest_roundings(
    log: OpLog, outputs: Sequence[Sequence[Rectangle]], dtypes: Sequence[DType]
) -> list[Rounding | None]:
    """Returns the coarsest rounding behind each of *outputs*, given by its rectangles; of equal ones, the first.

    It is None where nothing is rounded to a type with fewer digits than that of the output in *dtypes*, and for
    integers. Ops are followed through the bytes that they exchange. Raises LogError for an invalid log.
    """
    own = [_rank(dtype) for dtype in dtypes]
    finest = min((rank for rank in own if rank >= 0), default=len(_ORDER))
    written = np.unique(log.operands["dtype"][np.isin(log.operands["role"], (Role.DST, Role.OUT))]).tolist()
    if max((_rank(DTYPE_BY_CODE[code]) for code in written), default=-1) <= finest:
        return [None] * len(outputs)
    readers = _with_readers(log, outputs)
    schedule = Schedule(readers)
    ranks = _rounded(schedule)
    if int(ranks.max(initial=-1)) <= finest:
        return [None] * len(outputs)
    found = dependencies(readers)
    flows = (found.kind & DependencyKind.RAW) != 0
    first = np.append(0, np.cumsum(flows))[found.first]
    producer = found.producer[flows]
    return [
        _coarsest(schedule, ranks, _behind(len(ranks) - len(outputs) + number, first, producer), rank)
        for number, rank in enumerate(own)
    ]


def _rank(dtype: DType) -> int:
    """The place of *dtype* in `_ORDER`; -1 for integers."""
    return _ORDER.index(dtype) if dtype in _ORDER else -1


def _coarsest(schedule: Schedule, ranks: Array, reached: Array, own: int) -> Rounding | None:
    at = np.flatnonzero(reached)
    rank = int(ranks[at].max(initial=-1))
    if own < 0 or rank <= own:
        return None
    first = at[np.argmax(ranks[at] == rank)]
    return Rounding(dtype=_ORDER[rank], line=schedule.log.strings[int(schedule.ops["line"][first])])


def _with_readers(log: OpLog, outputs: Sequence[Sequence[Rectangle]]) -> OpLog:
    """The log with an op for each output behind all others, which reads the output."""
    ops = np.zeros(len(outputs), OPS_DTYPE)
    for name in ("op_id", "command_seq"):
        ops[name] = int(log.ops[name].max(initial=-1)) + 1 + np.arange(len(outputs))
    reads = [read_of(int(op_id), each) for op_id, output in zip(ops["op_id"], outputs, strict=True) for each in output]
    operands = np.concatenate([log.operands, *reads]) if reads else log.operands.astype(OPERAND_DTYPE)
    return OpLog(np.concatenate([log.ops, ops]), operands, log.strings, log.immediates)


def _behind(index: int, first: Array, producer: Array) -> Array:
    """Marks the records whose values reach record *index*."""
    reached = np.zeros(len(first) - 1, np.bool_)
    left = np.array([index])
    while len(left):
        count = first[left + 1] - first[left]
        at = np.repeat(first[left] - np.cumsum(count) + count, count) + np.arange(int(count.sum()))
        before = np.unique(producer[at])
        left = before[~reached[before]]
        reached[left] = True
    return reached


def _rounded(schedule: Schedule) -> Array:
    """The rank of the type that each record rounds to, -1 for a record that rounds nothing."""
    ops, role = schedule.ops, schedule.operands["role"]
    rank_of = np.full(max(DTYPE_BY_CODE) + 1, -1, np.int64)
    for code, dtype in DTYPE_BY_CODE.items():
        rank_of[code] = _rank(dtype)
    rank = rank_of[schedule.operands["dtype"]]
    record = np.repeat(np.arange(len(ops)), np.diff(schedule.first))
    is_write = np.isin(role, (Role.DST, Role.OUT))
    target, source = np.full(len(ops), -1, np.int64), np.full(len(ops), -1, np.int64)
    np.maximum.at(target, record[is_write], rank[is_write])
    np.maximum.at(source, record[~is_write], rank[~is_write])
    # A move and a choice round where the target has fewer digits than the coarsest of the values that are read.
    rounds = target > source
    maths = np.flatnonzero(ops["kind"] == OpKind.MATH)
    used, at = np.unique(ops["params"][maths], return_inverse=True)
    for number, index in enumerate(used.tolist()):
        mine = maths[at.reshape(-1) == number]
        attributes = math.attributes_of(schedule.log.strings[index])
        if attributes is None or attributes.op not in _CHOOSES:
            rounds[mine] = True
        else:
            rounds[mine] = [_loses(attributes, int(target[each]), int(source[each])) for each in mine.tolist()]
    rounds[ops["kind"] == OpKind.GEMM] = True
    result: Array = np.where(rounds, target, -1)
    return result


def _loses(attributes: MathAttributes, target: int, source: int) -> bool:
    """Whether a choice among operands and numbers loses digits in the type with rank *target*."""
    if target < 0:
        return False
    numbers = np.array([float(each) for each in attributes.scalars])
    kept = cast(numbers, _ORDER[target]).astype(np.float64)
    return target > source >= 0 or not bool(np.array_equal(kept, numbers, equal_nan=True))
