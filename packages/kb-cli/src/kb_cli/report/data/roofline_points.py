"""Points of the roofline: operations, time and bytes of the kernel lines of a log, or of any groups of its ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_cli.report.data.performance import rate
from kb_cli.terminal.units import quantity
from kb_dataexec import OpLog
from kb_messages import DTYPE_BY_CODE, SPACE_BY_CODE, DType, OpKind, Role, StageType

_Ints: TypeAlias = npt.NDArray[np.int64]
_Floats: TypeAlias = npt.NDArray[np.float64]

PORT: Final = "reg"
"""The space of bytes between TCM and registers, as in the bytes of a run."""
_ENDS: Final = {
    StageType.DMA_READ: (Role.SRC, False),
    StageType.DMA_WRITE: (Role.DST, False),
    StageType.FETCH: (Role.SRC, True),
    StageType.STORE: (Role.DST, True),
}
"""The role of the operand whose bytes count, and whether they count for the TCM port."""


class RooflinePoint(Struct, frozen=True, kw_only=True):
    """`flops` operations in `ps` picoseconds, and the bytes moved by memory space; `reg` stands for the TCM ports.

    `line` is the kernel line whose commands the point counts, and `name` the launch or the op of a workload. Both are
    "" for the whole run. The time of a line is the time in which one of its commands was in flight on any PE, and that
    of a launch goes from its first kernel's start to its last kernel's end. What has no products has an operation for
    each element of a function.
    """

    line: str
    flops: int
    ps: int
    nbytes: dict[str, int]
    name: str = ""

    @property
    def label(self) -> str:
        """The line, the launch, or `the run`."""
        return self.line or self.name or "the run"


def point_cells(point: RooflinePoint, spaces: Sequence[str]) -> list[str]:
    """Returns the operations of *point*, their rate, and operations for each byte of *spaces* as texts; `-` for
    unknown.
    """
    if not point.flops:
        return ["-"] * (2 + len(spaces))
    ratios = (f"{point.flops / point.nbytes[each]:.4g}" if point.nbytes.get(each) else "-" for each in spaces)
    return [quantity(point.flops, "FLOP"), rate(point.flops, point.ps), *ratios]


class SharedBytes(NamedTuple):
    """The memory from which the bytes that lines ask for come, and the bytes that the memory moved in the run."""

    kind: str
    nbytes: int


def line_points(log: OpLog, shared: Mapping[str, SharedBytes] | None = None) -> list[RooflinePoint]:
    """Returns a point for each kernel line with operations, the line with the most operations first.

    By memory space, *shared* has memories that move other bytes than lines ask for, because a cache or a multicast
    serves several requests at once. The one line that asks for bytes there has the bytes that the memory moved. Of
    several lines it is not known.
    """
    if not log.n_ops:
        return []
    work = group_work(log, log.ops["line"].astype(np.int64), len(log.strings))
    in_flight = in_flight_ps(log)
    found = [
        RooflinePoint(
            line=log.strings[number],
            flops=round(work.flops[number]),
            ps=in_flight.get(log.strings[number], 0),
            nbytes=dict(bytes_of(number, work.moved, shared or {})),
        )
        for number in np.flatnonzero(work.flops).tolist()
    ]
    return sorted(found, key=lambda each: (-each.flops, each.line))


class GroupWork(NamedTuple):
    """The operations of each group of ops, and by memory space the bytes that each group moved."""

    flops: _Floats
    moved: Mapping[str, _Ints]


def group_work(log: OpLog, group: _Ints, n_groups: int) -> GroupWork:
    """Returns the work of *n_groups* groups of the ops of *log*. *group* has the number of the group of each op."""
    at, elements, nbytes = _operands(log)
    products, functions = (np.bincount(group, each, n_groups) for each in _flops(log, at, elements))
    return GroupWork(np.where(products > 0, products, functions), _moved(log, at, nbytes, group, n_groups))


def product_dtypes(log: OpLog) -> set[DType]:
    """Returns the dtypes of the factors of all products of *log*."""
    at, _, _ = _operands(log)
    role = log.operands["role"]
    mine = ((role == Role.A) | (role == Role.B)) & (log.ops["kind"][at] == OpKind.GEMM)
    return {DTYPE_BY_CODE[code] for code in np.unique(log.operands["dtype"][mine]).tolist()}


def bytes_of(number: int, moved: Mapping[str, _Ints], shared: Mapping[str, SharedBytes]) -> Iterator[tuple[str, int]]:
    """Yields (space or cache, bytes) of group *number*, where the bytes are known."""
    for space, counts in moved.items():
        if not counts[number]:
            continue
        if space not in shared:
            yield space, int(counts[number])
        elif np.count_nonzero(counts) == 1:
            yield shared[space]


def in_flight_ps(log: OpLog) -> dict[str, int]:
    """Returns by kernel line the picoseconds in which one of its commands was in flight on any PE.

    A command is in flight from its submission to its end, and in a log without commands from its first record on.
    """
    if "commands" in log.tables and len(log.tables["commands"]):
        rows = log.tables["commands"]
        line, start, end = rows["line"], rows["t_submitted_ps"], rows["t_done_ps"]
    else:
        line, start, end = log.ops["line"], log.ops["t_ready_ps"], log.ops["t_out_ps"]
    is_known = (start >= 0) & (end >= start)
    if not is_known.any():
        return {}
    order = np.lexsort((start[is_known], line[is_known]))
    line, start, end = line[is_known][order], start[is_known][order], end[is_known][order]
    firsts = np.flatnonzero(np.diff(line, prepend=-1))
    ends = [*firsts[1:].tolist(), len(line)]
    return {
        log.strings[line[first]]: union_ps(start[first:last], end[first:last])
        for first, last in zip(firsts.tolist(), ends, strict=True)
    }


def union_ps(start: _Ints, end: _Ints) -> int:
    """Returns the picoseconds that lie in at least one of the spans. *start* ascends."""
    reached = np.maximum.accumulate(end)
    before = np.concatenate((start[:1], reached[:-1]))
    return int(np.maximum(reached - np.maximum(start, before), 0).sum())


def _operands(log: OpLog) -> tuple[_Ints, _Ints, _Ints]:
    """Returns for each operand the row of its op, its elements, and its bytes."""
    ids, wanted = np.ascontiguousarray(log.ops["op_id"]), np.ascontiguousarray(log.operands["op_id"])
    order = np.argsort(ids, kind="stable")
    place = np.minimum(np.searchsorted(ids[order], wanted), len(ids) - 1)
    sizes = np.ones(max(DTYPE_BY_CODE) + 1, np.int64)
    for code, dtype in DTYPE_BY_CODE.items():
        sizes[code] = dtype.nbytes
    nbytes = log.operands["rows"] * log.operands["row_nbytes"]
    return order[place], nbytes // sizes[log.operands["dtype"]], nbytes


def _flops(log: OpLog, at: _Ints, elements: _Ints) -> tuple[_Floats, _Floats]:
    """Returns the operations of each op as a product, and as a function: an operation for each element.

    A product has 2 m n k, twice the root of the product of the elements of A, B and the result.
    """
    role = log.operands["role"]
    kinds = log.ops["kind"]
    product = np.where(kinds == OpKind.GEMM, 4.0, 0.0)
    for each in (Role.A, Role.B, Role.OUT):
        product *= np.bincount(at[role == each], elements[role == each], len(kinds))
    flops = np.sqrt(product)
    largest = np.zeros(len(kinds))
    np.maximum.at(largest, at, elements.astype(np.float64))
    functions: _Floats = np.where(kinds == OpKind.MATH, largest, 0.0)
    products: _Floats = np.rint(flops)
    return products, functions


def _moved(log: OpLog, at: _Ints, nbytes: _Ints, group: _Ints, n_groups: int) -> Mapping[str, _Ints]:
    """Returns by memory space the bytes that each group of ops moved."""
    names, groups = log.ops["name"][at], group[at]
    found: dict[str, _Ints] = {}
    for stage, (role, is_port) in _ENDS.items():
        if stage.name.lower() not in log.strings:
            continue
        mine = (names == log.strings.index(stage.name.lower())) & (log.operands["role"] == role)
        for code in np.unique(log.operands["space"][mine]).tolist():
            rows = mine & (log.operands["space"] == code)
            space = PORT if is_port else str(SPACE_BY_CODE[code])
            counts = np.bincount(groups[rows], nbytes[rows], n_groups).astype(np.int64)
            found[space] = found.get(space, 0) + counts
    return found
