"""The tile plan of a GEMM: the stages of each tile in their order, and the bytes that they move."""

from __future__ import annotations

from typing import NamedTuple

from kb_messages import (
    Axis,
    BufferNeeds,
    DType,
    EpilogueOp,
    EpilogueScope,
    GemmAttributes,
    GemmCommand,
    LoopOrder,
    MathAttributes,
    OperandTemplate,
    PipelinePlan,
    Place,
    PlanError,
    Role,
    StageTemplate,
    StageType,
    When,
)
from kb_plans.accumulator import check_accumulator, fetched_sum, place_of_sum
from kb_plans.checks import check
from kb_plans.epilogue import EpilogueMath, resolve
from kb_plans.templates import Input, along, bring_in, in_buffer, lay_out, slot, stage, take_out


def generate_gemm_plan(command: GemmCommand, pe: str) -> PipelinePlan:
    """Plans `out[M, N] = a[M, K] @ b[K, N]` for the PE *pe*, in tiles of `command.tile`.

    The output tiles are in the order of `command.loop_order`, and K is the innermost loop. With `weight_stationary`,
    only the first row of tiles has DMA_READs of B: a panel of B stays in TCM for the tiles below. With
    `input_stationary`, only the first column of tiles has DMA_READs of A.

    Every tile has a DMA_READ of A and one of B (none for a pinned operand, which lies in TCM already), one FETCH of
    both, and a GEMM. The last tile over K adds a STORE and, unless the output is pinned, a DMA_WRITE. The accumulator
    (f32, or i32 for integers) stays in registers over K. A tile larger than the problem is cut to the problem. Tiles at
    the edges may be smaller than the others.

    With `transpose_a`, A is stored as K x M (with `transpose_b`, B as N x K). DMA and FETCH move tiles in their stored
    form, and GEMM reads them transposed. With `b_stream`, the DMA_READ of B comes last and writes registers, so B needs
    no input buffer and FETCH moves only the rest.

    With an accumulator, FETCH moves its tile to registers with the first tile over K, and every GEMM adds to it. A sum
    that is already held has no FETCH. A result that stays held has no STORE, and is one output tile.

    With epilogue ops of `k_tile`, GEMM leaves its product beside the operands. A MATH for each op works on the product
    there, and a last MATH adds it to the accumulator. Ops of `output_tile` are MATHs on the accumulator before STORE.
    Operands of epilogue ops are read at the head of each tile that uses them and moved by the FETCH of that tile.

    The function is pure: equal arguments give equal plans. Raises PlanError when the command has no tile, when sizes or
    dtypes do not fit together, and for a value of a wrong type.
    """
    check(command, GemmCommand, pe)
    sides, product = _cut(command), command.a.dtype.accumulator
    on_product = _ops(command.epilogue, EpilogueScope.K_TILE, product, sides)
    summed = on_product[-1].math.dtype if on_product else product
    on_sum = _ops(command.epilogue, EpilogueScope.OUTPUT_TILE, summed, sides)
    left, right = _factors(command, sides)
    inputs = [left, right, *(op.input for op in (*on_product, *on_sum) if op.input is not None)]
    input_nbytes, register_nbytes = lay_out(inputs)
    total = _Value(*place_of_sum(command), sides.m, sides.n)
    multiply = _Multiply(left, right, product, _attributes(command), pe)
    if on_product:
        partial = _Value(Place.REGISTERS, register_nbytes, sides.m, sides.n)
        register_nbytes += slot(sides.m, sides.n, product)
        compute = [multiply.into(partial), *_maths(on_product, partial, product, When.EVERY_TILE, pe)]
        compute += _accumulate(partial, total, summed, pe)
    else:
        compute = [multiply.onto(total, When.LATER_K if command.acc is None else When.EVERY_TILE)]
    compute += _maths(on_sum, total, summed, When.LAST_K, pe)
    result = total.operand(Role.SRC, on_sum[-1].math.dtype if on_sum else summed, release=True)
    leave = [] if command.out_held else take_out(result, command.out, command.out_pinned, sides.m, sides.n, pe)
    brought = fetched_sum(command, total.operand(Role.DST, product, when=When.FIRST_K))
    return PipelinePlan(
        kind="gemm",
        grid=sides.grid,
        stages=(*bring_in(inputs, pe, brought), *compute, *leave),
        buffers=BufferNeeds(
            input_nbytes=input_nbytes,
            output_nbytes=0 if command.out_pinned or command.out_held else slot(sides.m, sides.n, command.out.dtype),
            register_nbytes=register_nbytes,
            accumulator_nbytes=0 if command.out_held else slot(sides.m, sides.n, product),
            panel_nbytes=sum(each.nbytes * sides.grid[2] for each in (left, right) if each.kept),
        ),
        loop_order=command.loop_order,
    )


class _Sides(NamedTuple):
    """The sides of the problem, each cut into tiles."""

    m: Axis
    n: Axis
    k: Axis

    @property
    def grid(self) -> tuple[int, int, int]:
        """Tiles along each side."""
        m, n, k = (-(-side.total // side.tile) for side in self)
        return m, n, k


def _cut(command: GemmCommand) -> _Sides:
    """The sides of the problem. Raises PlanError when sides or dtypes do not fit together."""
    tile = command.tile
    if tile is None:
        raise PlanError("gemm tile", "none", "three positive sizes", "let suggest_tile choose them")
    if min(tile.m, tile.n, tile.k) < 1:
        raise PlanError("gemm tile", str(tile), "three positive sizes")
    m, n, k = _check(command)
    sides = _Sides(
        Axis(dimension=0, total=m, tile=min(tile.m, m)),
        Axis(dimension=1, total=n, tile=min(tile.n, n)),
        Axis(dimension=2, total=k, tile=min(tile.k, k)),
    )
    check_accumulator(command, sides.grid)
    return sides


def _factors(command: GemmCommand, sides: _Sides) -> tuple[Input, Input]:
    """A and B in their stored form."""
    m, n, k = sides
    down_a, down_b = (k, m) if command.transpose_a else (m, k), (n, k) if command.transpose_b else (k, n)
    order = command.loop_order
    left = Input(command.a, command.a_pinned, *down_a, kept=order is LoopOrder.INPUT_STATIONARY)
    keeps_b = order is LoopOrder.WEIGHT_STATIONARY
    right = Input(command.b, command.b_pinned, *down_b, streamed=command.b_stream, kept=keeps_b)
    return left, right


def _attributes(command: GemmCommand) -> GemmAttributes:
    return GemmAttributes(transpose_a=command.transpose_a, transpose_b=command.transpose_b)


class _Multiply(NamedTuple):
    """The GEMM stage: the product of a tile's factors, in elements of `dtype`."""

    left: Input
    right: Input
    dtype: DType
    attributes: GemmAttributes
    pe: str

    def into(self, partial: _Value) -> StageTemplate:
        """Leaves the product in *partial*."""
        return self._stage(partial.operand(Role.OUT, self.dtype))

    def onto(self, total: _Value, when: When) -> StageTemplate:
        """Adds the product to *total* in tiles that *when* selects. In others, *total* begins with the product."""
        so_far = total.operand(Role.ACC, self.dtype, when=when)
        return self._stage(so_far, total.operand(Role.OUT, self.dtype))

    def _stage(self, *results: OperandTemplate) -> StageTemplate:
        operands = [self.left.in_registers(Role.A), self.right.in_registers(Role.B), *results]
        return stage(StageType.GEMM, self.pe, operands, gemm=self.attributes)


class _Value(NamedTuple):
    """An m x n tile of values in registers. MATH works on the values in place."""

    place: Place
    base: int
    rows: Axis
    cols: Axis

    def operand(
        self, role: Role, dtype: DType, *, release: bool = False, when: When = When.EVERY_TILE
    ) -> OperandTemplate:
        return in_buffer(role, self.place, self.base, self.rows, self.cols, dtype, release=release, when=when)


class _Op(NamedTuple):
    """An epilogue op, and its operand or None."""

    math: EpilogueMath
    input: Input | None


def _ops(epilogue: tuple[EpilogueOp, ...], scope: EpilogueScope, dtype: DType, sides: _Sides) -> list[_Op]:
    """The ops of *scope*. The operands of `output_tile` ops are needed only with the last tile over K."""
    rows, cols, depth = sides
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


def _maths(ops: list[_Op], value: _Value, dtype: DType, when: When, pe: str) -> list[StageTemplate]:
    """A MATH for each op, on *value* in place. Where an op changes the type, reading the value releases its bytes."""
    stages = []
    for math, brought in ops:
        operands = [value.operand(Role.IN, dtype, release=math.dtype is not dtype)]
        if brought is not None:
            operands.append(brought.in_registers(Role.IN))
        dtype = math.dtype
        operands.append(value.operand(Role.OUT, dtype))
        stages.append(stage(StageType.MATH, pe, operands, when, math.attributes))
    return stages


def _accumulate(partial: _Value, total: _Value, dtype: DType, pe: str) -> list[StageTemplate]:
    """MATHs that add the partial product to the sum. With the first tile over K, the sum is a copy of the product."""
    added, out = partial.operand(Role.IN, dtype, release=True), total.operand(Role.OUT, dtype)
    first, later = MathAttributes(op="copy"), MathAttributes(op="add")
    return [
        stage(StageType.MATH, pe, [added, out], When.FIRST_K, first),
        stage(StageType.MATH, pe, [total.operand(Role.IN, dtype), added, out], When.LATER_K, later),
    ]


def _check(command: GemmCommand) -> tuple[int, int, int]:
    """M, N and K. Raises PlanError when the operands do not fit together."""
    a, b, out = command.a, command.b, command.out
    m, k = (a.cols, a.rows) if command.transpose_a else (a.rows, a.cols)
    k_of_b, n = (b.cols, b.rows) if command.transpose_b else (b.rows, b.cols)
    if k != k_of_b:
        raise PlanError(
            "gemm",
            f"a of {m} x {k}{_as_stored(command.transpose_a)} and b of {k_of_b} x {n}{_as_stored(command.transpose_b)}",
            "as many columns in a as rows in b",
        )
    if (out.rows, out.cols) != (m, n):
        raise PlanError("gemm out", f"{out.rows} x {out.cols}", f"{m} x {n}")
    if a.dtype.is_float != b.dtype.is_float:
        raise PlanError("gemm", f"a of {a.dtype} and b of {b.dtype}", "two float or two integer operands")
    if command.b_stream and command.b_pinned:
        raise PlanError("gemm b_stream", "a b that is pinned in TCM", "one in memory", "leave out b_stream")
    _check_order(command)
    return m, n, k


def _check_order(command: GemmCommand) -> None:
    """Raises PlanError when the operand that `loop_order` keeps is not read into tile buffers."""
    order = command.loop_order
    if order is LoopOrder.WEIGHT_STATIONARY and command.b_stream:
        got = "weight_stationary with b_stream: a streamed b goes past TCM to registers, where no panel of it fits"
        raise PlanError("gemm loop_order", got, "b in tile buffers", "leave out b_stream, or use nmk")
    kept = {LoopOrder.WEIGHT_STATIONARY: ("b", command.b_pinned), LoopOrder.INPUT_STATIONARY: ("a", command.a_pinned)}
    name, pinned = kept.get(order, ("", False))
    if pinned:
        loops = "".join(order.outer_first("m", "n")) + "k"
        got = f"{order} with {name} in TCM: no DMA reads {name}, so there is nothing to keep"
        raise PlanError("gemm loop_order", got, f"{name} in memory", f"use {loops}, which has the same order of tiles")


def _as_stored(transposed: bool) -> str:
    return " (transposed)" if transposed else ""
