"""The tile plan of a GEMM: which blocks each tile visits, what it moves, and in which order."""

from __future__ import annotations

from typing import NamedTuple

from kb_messages import (
    Axis,
    BufferNeeds,
    DType,
    EpilogueOp,
    EpilogueScope,
    GemmAttributes,
    MathAttributes,
    Matrix,
    OperandTemplate,
    PipelinePlan,
    Place,
    PlanError,
    Role,
    StageTemplate,
    StageType,
    TileShape,
    When,
)
from kb_plans.epilogue import EpilogueMath, resolve
from kb_plans.templates import Input, along, bring_in, in_buffer, lay_out, slot, stage, take_out


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
    transpose_a: bool = False,
    transpose_b: bool = False,
    b_stream: bool = False,
    epilogue: tuple[EpilogueOp, ...] = (),
) -> PipelinePlan:
    """Plan `out[M, N] = a[M, K] @ b[K, N]` in tiles of *tile*, in M, N, K order with K innermost.

    Every tile: DMA_READ of A and of B (none for a pinned operand, which lies in TCM already), one FETCH of both, GEMM.
    The last tile over K adds STORE and, unless *out_pinned*, DMA_WRITE. The accumulator (f32, or i32 for integers)
    stays in registers over K. Tiles larger than the problem are cut to it; edges may be ragged.

    With *transpose_a*, a is stored as K x M (with *transpose_b*, b as N x K): its tiles are moved as they are stored,
    and GEMM takes them the other way round. With *b_stream*, the DMA_READ of B comes last and writes registers, so that
    B needs no input buffer and FETCH moves the rest alone.

    With *epilogue* ops of `k_tile`, GEMM leaves its product beside the operands; a MATH for each op works on it there,
    and a last one adds it to the accumulator. Ops of `output_tile` are MATHs on the accumulator before STORE. What an
    op needs from memory is read at the head of each tile that uses it and moved by that tile's FETCH.

    Pure: equal arguments give equal plans. Raises PlanError when sizes or dtypes do not fit together.
    """
    gemm = GemmAttributes(transpose_a=transpose_a, transpose_b=transpose_b)
    m, n, k = _check(a, b, out, tile, gemm)
    if b_stream and b_pinned:
        raise PlanError("gemm b_stream", "a b that is pinned in TCM", "one in memory", "leave out b_stream")
    tile = TileShape(min(tile.m, m), min(tile.n, n), min(tile.k, k))
    rows = Axis(dimension=0, total=m, tile=tile.m)
    cols = Axis(dimension=1, total=n, tile=tile.n)
    depth = Axis(dimension=2, total=k, tile=tile.k)
    product = a.dtype.accumulator
    on_product = _ops(epilogue, EpilogueScope.K_TILE, product, rows, cols, depth)
    summed = on_product[-1].math.dtype if on_product else product
    on_sum = _ops(epilogue, EpilogueScope.OUTPUT_TILE, summed, rows, cols, depth)

    left = Input(a, a_pinned, *((depth, rows) if transpose_a else (rows, depth)))
    right = Input(b, b_pinned, *((cols, depth) if transpose_b else (depth, cols)), streamed=b_stream)
    inputs = [left, right, *(op.input for op in (*on_product, *on_sum) if op.input is not None)]
    input_nbytes, register_nbytes = lay_out(inputs)
    partial = _Value(Place.REGISTERS, register_nbytes, rows, cols)
    total = _Value(Place.ACCUMULATOR, 0, rows, cols)

    factors = [left.in_registers(Role.A), right.in_registers(Role.B)]
    compute: list[StageTemplate] = []
    if on_product:
        compute.append(stage(StageType.GEMM, pe_prefix, [*factors, partial.operand(Role.OUT, product)], gemm=gemm))
        compute += _maths(on_product, partial, product, When.EVERY_TILE, pe_prefix)
        compute += _accumulate(partial, total, summed, pe_prefix)
    else:
        so_far = total.operand(Role.ACC, product, when=When.LATER_K)
        compute.append(
            stage(StageType.GEMM, pe_prefix, [*factors, so_far, total.operand(Role.OUT, product)], gemm=gemm)
        )
    compute += _maths(on_sum, total, summed, When.LAST_K, pe_prefix)
    result = total.operand(Role.SRC, on_sum[-1].math.dtype if on_sum else summed, release=True)
    return PipelinePlan(
        kind="gemm",
        grid=(-(-m // tile.m), -(-n // tile.n), -(-k // tile.k)),
        stages=(
            *bring_in(inputs, pe_prefix),
            *compute,
            *take_out(result, out, out_pinned, rows, cols, pe_prefix),
        ),
        buffers=BufferNeeds(
            input_nbytes=input_nbytes,
            output_nbytes=0 if out_pinned else slot(rows, cols, out.dtype),
            register_nbytes=register_nbytes + (slot(rows, cols, product) if on_product else 0),
            accumulator_nbytes=slot(rows, cols, product),
        ),
    )


class _Value(NamedTuple):
    """An m x n tile of values in registers, which MATH works on in place."""

    place: Place
    base: int
    rows: Axis
    cols: Axis

    def operand(
        self, role: Role, dtype: DType, *, release: bool = False, when: When = When.EVERY_TILE
    ) -> OperandTemplate:
        return in_buffer(role, self.place, self.base, self.rows, self.cols, dtype, release=release, when=when)


class _Op(NamedTuple):
    """An epilogue op and the operand it brings along."""

    math: EpilogueMath
    input: Input | None


def _ops(
    epilogue: tuple[EpilogueOp, ...], scope: EpilogueScope, dtype: DType, rows: Axis, cols: Axis, depth: Axis
) -> list[_Op]:
    """The ops of *scope*; the operands of `output_tile` ops are needed with the last tile over K alone."""
    when = When.EVERY_TILE if scope is EpilogueScope.K_TILE else When.LAST_K
    ops = []
    for math in resolve(epilogue, scope, rows.total, cols.total, depth, dtype):
        matrix = math.operand
        brought = None
        if matrix is not None:
            down = Axis(dimension=2, total=matrix.rows, tile=1) if math.by_k else along(matrix.rows, rows)
            brought = Input(matrix, math.pinned, down, along(matrix.cols, cols), when)
        ops.append(_Op(math, brought))
    return ops


def _maths(ops: list[_Op], value: _Value, dtype: DType, when: When, pe_prefix: str) -> list[StageTemplate]:
    """A MATH for each op, on *value* in place; the bytes of a value that changes its type are released first."""
    stages = []
    for math, brought in ops:
        operands = [value.operand(Role.IN, dtype, release=math.dtype is not dtype)]
        if brought is not None:
            operands.append(brought.in_registers(Role.IN))
        dtype = math.dtype
        operands.append(value.operand(Role.OUT, dtype))
        stages.append(stage(StageType.MATH, pe_prefix, operands, when, math.attributes))
    return stages


def _accumulate(partial: _Value, total: _Value, dtype: DType, pe_prefix: str) -> list[StageTemplate]:
    """Add the partial product to the sum; the first tile over K begins the sum with it."""
    added, out = partial.operand(Role.IN, dtype, release=True), total.operand(Role.OUT, dtype)
    first, later = MathAttributes(op="copy"), MathAttributes(op="add")
    return [
        stage(StageType.MATH, pe_prefix, [added, out], When.FIRST_K, first),
        stage(StageType.MATH, pe_prefix, [total.operand(Role.IN, dtype), added, out], When.LATER_K, later),
    ]


def _check(a: Matrix, b: Matrix, out: Matrix, tile: TileShape, gemm: GemmAttributes) -> tuple[int, int, int]:
    """M, N and K, when everything fits together."""
    if min(tile.m, tile.n, tile.k) < 1:
        raise PlanError("gemm tile", str(tile), "three positive sizes")
    for name, matrix in (("a", a), ("b", b), ("out", out)):
        if matrix.rows < 1 or matrix.cols < 1:
            raise PlanError(f"gemm {name}", f"{matrix.rows} x {matrix.cols}", "at least one row and one column")
    m, k = (a.cols, a.rows) if gemm.transpose_a else (a.rows, a.cols)
    k_of_b, n = (b.cols, b.rows) if gemm.transpose_b else (b.rows, b.cols)
    if k != k_of_b:
        raise PlanError(
            "gemm",
            f"a of {m} x {k}{_as_stored(gemm.transpose_a)} and b of {k_of_b} x {n}{_as_stored(gemm.transpose_b)}",
            "as many columns in a as rows in b",
        )
    if (out.rows, out.cols) != (m, n):
        raise PlanError("gemm out", f"{out.rows} x {out.cols}", f"{m} x {n}")
    if a.dtype.is_float != b.dtype.is_float:
        raise PlanError("gemm", f"a of {a.dtype} and b of {b.dtype}", "two float or two integer operands")
    return m, n, k


def _as_stored(transposed: bool) -> str:
    return " (transposed)" if transposed else ""
