"""The facts of one service: the bytes that it moved and their memories, the shape of a product, and what held it up."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from kb_cli.terminal.units import PS_PER_NS
from kb_cli.web.answer import WebAnswer, json_answer
from kb_cli.web.lanes.lane_table import LaneTable
from kb_cli.web.run_timeline import MEMORIES, OPS, RunTimeline
from kb_cli.web.web_request import WebRequest
from kb_dataexec.log import OperandRow
from kb_messages import DTYPE_BY_CODE, MemorySpace, Role, StageType

_MOST: Final = 16
"""The most memories that are named. Bytes of an interleaved tensor may lie in hundreds."""
_MOVES: Final = {each.name.lower() for each in (StageType.DMA_READ, StageType.FETCH, StageType.STORE)}
_GEMM: Final = StageType.GEMM.name.lower()


class ServiceFacts(Struct, frozen=True, kw_only=True):
    """The facts of the service of `op`.

    `nbytes` are the bytes that a DMA moved from or to memories, or a port to or from registers, at `gbs`, None for
    another service. `mnk` is the shape of a product, which made `tflops`. `memories` are the ids of the memories that
    served the op, at most 16 of `n_memories`. `operands` has the role and the shape of each operand, and `params` what
    else the op was told, as JSON.
    """

    op: int
    nbytes: int | None
    gbs: float | None
    mnk: tuple[int, int, int] | None
    tflops: float | None
    memories: list[str]
    n_memories: int
    operands: list[str]
    params: str


def facts(asked: WebRequest) -> WebAnswer:
    """Answers with the facts of the service of the field `op`."""
    timeline, op = asked.run.timeline, asked.whole("op", 0, 2**62)
    timeline.row_of(op)  # an op that is not there is refused
    return json_answer(service_facts(timeline, op))


def service_facts(timeline: RunTimeline, op: int) -> ServiceFacts:
    """Returns the facts of *op*, which is in the log."""
    log, record = timeline.log, timeline.log.ops[timeline.record_of(op)]
    stage, ns = log.strings[record["name"]], int(record["t_end_ps"] - record["t_start_ps"]) / PS_PER_NS
    rows = [(Role(row["role"]), _operand(row), row["space"]) for row in log.operands[log.operands["op_id"] == op]]
    mnk = _mnk([(role, operand) for role, operand, _ in rows]) if stage == _GEMM else None
    moved = Role.SRC if stage in _MOVES else Role.DST
    sizes = [
        operand.rows * operand.row_nbytes
        for role, operand, space in rows
        if role == moved and space != MemorySpace.IMMEDIATE.code
    ]
    nbytes, memories = sum(sizes) if sizes and mnk is None else None, _memories(timeline, op)
    return ServiceFacts(
        op=op,
        nbytes=nbytes,
        gbs=nbytes / ns if nbytes is not None and ns else None,
        mnk=mnk,
        tflops=2 * mnk[0] * mnk[1] * mnk[2] / ns / 1000 if mnk is not None and ns else None,
        memories=memories[:_MOST],
        n_memories=len(memories),
        operands=[f"{role.name} {operand}" for role, operand, _ in rows],
        params=log.strings[record["params"]].replace("{}", ""),
    )


def _operand(row: np.void) -> OperandRow:
    return OperandRow(
        role=int(row["role"]),
        owner=int(row["owner"]),
        offset=int(row["offset"]),
        rows=int(row["rows"]),
        row_nbytes=int(row["row_nbytes"]),
        stride=int(row["stride"]),
        dtype=DTYPE_BY_CODE[int(row["dtype"])],
        release=int(row["release"]),
    )


def _mnk(rows: list[tuple[Role, OperandRow]]) -> tuple[int, int, int] | None:
    """Returns M, N and K of a product: M x N is the shape of the result, and A has M x K elements."""
    shapes = {role: operand.shape for role, operand in rows}
    if Role.A not in shapes or Role.OUT not in shapes:
        return None
    (m, n), (a_rows, a_cols) = shapes[Role.OUT], shapes[Role.A]
    return m, n, a_rows * a_cols // m


def _memories(timeline: RunTimeline, op: int) -> list[str]:
    if MEMORIES not in timeline.tables:
        return []
    table = timeline.table(MEMORIES)
    rows = np.flatnonzero(table.slices.arguments["op"] == op).tolist()
    return list(dict.fromkeys(table.lanes[table.lane_of(row)].title.partition(":")[0] for row in rows))


_DISPATCH: Final = "dispatch"
"""The edge by which a tile comes to its first block."""


class HeldUp(Struct, frozen=True, kw_only=True):
    """The wait for which `op` started, or its tile came, only then: it ended by the edge `via`. `by` is the service
    behind that edge, and None where it was no service.
    """

    op: int
    via: str
    by: Holding | None


class Holding(Struct, frozen=True, kw_only=True):
    """The service of `op` in a lane of the table of ops, from `t0_ps` to `t1_ps`, on `pe`."""

    op: int
    lane: int
    pe: str
    name: str
    t0_ps: int
    t1_ps: int


def cause(asked: WebRequest) -> WebAnswer:
    """Answers with what held up the service of the field `op`."""
    timeline, op = asked.run.timeline, asked.whole("op", 0, 2**62)
    timeline.row_of(op)
    ids = np.array([op])
    (found,) = timeline.causes.holders(ids, "start")
    if found.op_id == op:  # the service started as soon as its tile came
        (found,) = timeline.causes.holders(ids, "ready")
    by = None if found.op_id < 0 else _holding(timeline.table(OPS), timeline.row_of(found.op_id), found.op_id)
    return json_answer(HeldUp(op=op, via=found.via or _DISPATCH, by=by))


def _holding(table: LaneTable, row: int, op: int) -> Holding:
    lane = table.lane_of(row)
    return Holding(
        op=op,
        lane=lane,
        pe=table.lanes[lane].group,
        name=table.slices.names[table.slices.name[row]],
        t0_ps=int(table.start_ps[row]),
        t1_ps=int(table.end_ps[row]),
    )
