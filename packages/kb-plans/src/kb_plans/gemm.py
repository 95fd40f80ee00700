"""The tile plan of a GEMM: which blocks each tile visits, what it moves, and in which order."""

from __future__ import annotations

from kb_messages.commands import Matrix
from kb_messages.dtypes import DType
from kb_messages.errors import PlanError
from kb_messages.oplog import Role
from kb_messages.plan import (
    Axis,
    BufferNeeds,
    OperandTemplate,
    PipelinePlan,
    Place,
    StageTemplate,
    StageType,
    TileShape,
    When,
)

SLOT_ALIGNMENT = 64
"""Bytes a buffer's operands are aligned to. Source: assumed (a common SRAM line)."""


def generate_gemm_plan(
    a: Matrix,
    b: Matrix,
    out: Matrix,
    tile: TileShape,
    pe_prefix: str,
    *,
    a_pinned: bool = False,
    b_pinned: bool = False,
    out_pinned: bool = False,
) -> PipelinePlan:
    """Plan `out[M, N] = a[M, K] @ b[K, N]` in tiles of *tile*, in M, N, K order with K innermost.

    Every tile: DMA_READ of A and of B (none for a pinned operand, which lies in TCM already), one FETCH of both, GEMM.
    The last tile over K adds STORE and, unless *out_pinned*, DMA_WRITE. The accumulator (f32, or i32 for integers)
    stays in registers over K. Tiles larger than the problem are cut to it; edges may be ragged.

    Pure: equal arguments give equal plans. Raises PlanError when sizes or dtypes do not fit together.
    """
    _check(a, b, out, tile)
    m, n, k = a.rows, b.cols, a.cols
    tile = TileShape(min(tile.m, m), min(tile.n, n), min(tile.k, k))
    rows = Axis(dimension=0, total=m, tile=tile.m)
    cols = Axis(dimension=1, total=n, tile=tile.n)
    depth = Axis(dimension=2, total=k, tile=tile.k)
    acc = a.dtype.accumulator
    a_nbytes, b_nbytes = _slot(tile.m, tile.k, a.dtype), _slot(tile.k, tile.n, b.dtype)
    b_buffer = 0 if a_pinned else a_nbytes

    def memory(role: Role, matrix: Matrix, r: Axis, c: Axis) -> OperandTemplate:
        return OperandTemplate(
            role=role, place=Place.MEMORY, base=matrix.address, rows=r, cols=c, stride=matrix.stride, dtype=matrix.dtype
        )

    def buffer(
        role: Role, place: Place, base: int, r: Axis, c: Axis, dtype: DType, release: bool = False
    ) -> OperandTemplate:
        return OperandTemplate(
            role=role,
            place=place,
            base=base,
            rows=r,
            cols=c,
            stride=c.tile * dtype.nbytes,
            dtype=dtype,
            release=release,
        )

    def stage(kind: StageType, block: str, operands: list[OperandTemplate], when: When) -> StageTemplate:
        component = f"{pe_prefix}.{block}"
        return StageTemplate(stage_type=kind, component=component, when=when, operands=tuple(operands))

    def fetched(matrix: Matrix, pinned: bool, base: int, r: Axis, c: Axis) -> OperandTemplate:
        if pinned:
            return memory(Role.SRC, matrix, r, c)
        return buffer(Role.SRC, Place.INPUT_BUFFER, base, r, c, matrix.dtype, release=True)

    stages: list[StageTemplate] = []
    for matrix, pinned, base, r, c in ((a, a_pinned, 0, rows, depth), (b, b_pinned, b_buffer, depth, cols)):
        if not pinned:
            moved = [memory(Role.SRC, matrix, r, c), buffer(Role.DST, Place.INPUT_BUFFER, base, r, c, matrix.dtype)]
            stages.append(stage(StageType.DMA_READ, "pe_dma", moved, When.EVERY_TILE))
    fetch = [
        fetched(a, a_pinned, 0, rows, depth),
        buffer(Role.DST, Place.REGISTERS, 0, rows, depth, a.dtype),
        fetched(b, b_pinned, b_buffer, depth, cols),
        buffer(Role.DST, Place.REGISTERS, a_nbytes, depth, cols, b.dtype),
    ]
    stages.append(stage(StageType.FETCH, "pe_fetch_store", fetch, When.EVERY_TILE))
    multiply = [
        buffer(Role.A, Place.REGISTERS, 0, rows, depth, a.dtype, release=True),
        buffer(Role.B, Place.REGISTERS, a_nbytes, depth, cols, b.dtype, release=True),
        buffer(Role.ACC, Place.ACCUMULATOR, 0, rows, cols, acc),
        buffer(Role.OUT, Place.ACCUMULATOR, 0, rows, cols, acc),
    ]
    stages.append(stage(StageType.GEMM, "pe_gemm", multiply, When.EVERY_TILE))
    result = buffer(Role.SRC, Place.ACCUMULATOR, 0, rows, cols, acc, release=True)
    if out_pinned:
        stages.append(
            stage(StageType.STORE, "pe_fetch_store", [result, memory(Role.DST, out, rows, cols)], When.LAST_K)
        )
    else:
        staged = buffer(Role.DST, Place.OUTPUT_BUFFER, 0, rows, cols, out.dtype)
        stages.append(stage(StageType.STORE, "pe_fetch_store", [result, staged], When.LAST_K))
        leaving = [
            buffer(Role.SRC, Place.OUTPUT_BUFFER, 0, rows, cols, out.dtype, release=True),
            memory(Role.DST, out, rows, cols),
        ]
        stages.append(stage(StageType.DMA_WRITE, "pe_dma", leaving, When.LAST_K))
    return PipelinePlan(
        kind="gemm",
        grid=(-(-m // tile.m), -(-n // tile.n), -(-k // tile.k)),
        stages=tuple(stages),
        buffers=BufferNeeds(
            input_nbytes=(0 if a_pinned else a_nbytes) + (0 if b_pinned else b_nbytes),
            output_nbytes=0 if out_pinned else _slot(tile.m, tile.n, out.dtype),
            register_nbytes=a_nbytes + b_nbytes,
            accumulator_nbytes=_slot(tile.m, tile.n, acc),
        ),
    )


def _slot(rows: int, cols: int, dtype: DType) -> int:
    return -(-rows * cols * dtype.nbytes // SLOT_ALIGNMENT) * SLOT_ALIGNMENT


def _check(a: Matrix, b: Matrix, out: Matrix, tile: TileShape) -> None:
    if min(tile.m, tile.n, tile.k) < 1:
        raise PlanError("gemm tile", str(tile), "three positive sizes")
    for name, matrix in (("a", a), ("b", b), ("out", out)):
        if matrix.rows < 1 or matrix.cols < 1:
            raise PlanError(f"gemm {name}", f"{matrix.rows} x {matrix.cols}", "at least one row and one column")
    if a.cols != b.rows:
        raise PlanError(
            "gemm", f"a of {a.rows} x {a.cols} and b of {b.rows} x {b.cols}", "as many columns in a as rows in b"
        )
    if (out.rows, out.cols) != (a.rows, b.cols):
        raise PlanError("gemm out", f"{out.rows} x {out.cols}", f"{a.rows} x {b.cols}")
    if a.dtype.is_float != b.dtype.is_float:
        raise PlanError("gemm", f"a of {a.dtype} and b of {b.dtype}", "two float or two integer operands")
