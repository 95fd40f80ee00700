"""The tile plan of a math function on matrices: elementwise with numpy's broadcasting, or a reduction."""

from __future__ import annotations

from collections.abc import Sequence

from kb_messages import (
    MATH_FUNCTIONS,
    Axis,
    BufferNeeds,
    MathAttributes,
    MathInput,
    Matrix,
    PipelinePlan,
    Place,
    PlanError,
    Role,
    StageType,
    TileShape,
)
from kb_plans.templates import Input, along, bring_in, fixed, in_buffer, lay_out, slot, stage, take_out


def generate_math_plan(
    math: MathAttributes,
    inputs: Sequence[MathInput],
    out: Matrix,
    tile: TileShape,
    pe_prefix: str,
    *,
    out_pinned: bool = False,
) -> PipelinePlan:
    """Plan `out[M, N] = op(arguments)`, inputs and scalars in their places, in tiles of `tile.m` x `tile.n`.

    Rows of tiles come one after the other. Each tile: DMA_READ of every input (none for a pinned one, which lies in TCM
    already), one FETCH of them all, MATH, STORE and, unless *out_pinned*, DMA_WRITE. A side of length 1 is broadcast.
    Tiles of a reduction hold all of the axis they reduce. The tile's depth means nothing here and is 1.

    Pure: equal arguments give equal plans. Raises PlanError when arguments, shapes, dtypes or the tile do not fit.
    """
    where = f"math {math.op}"
    _check_arguments(where, math, inputs)
    m, n = _shape(where, inputs)
    expected = (1 if math.axis == 0 else m, 1 if math.axis == 1 else n)
    if (out.rows, out.cols) != expected:
        raise PlanError(f"{where} out", f"{out.rows} x {out.cols}", f"{expected[0]} x {expected[1]}")
    if min(tile.m, tile.n) < 1 or tile.k != 1:
        raise PlanError(f"{where} tile", str(tile), "positive rows and columns, and a depth of 1")
    rows = Axis(dimension=0, total=m, tile=min(tile.m, m))
    cols = Axis(dimension=1, total=n, tile=min(tile.n, n))
    for axis, side in enumerate((rows, cols)):
        if math.axis == axis and side.tile < side.total:
            raise PlanError(f"{where} tile", str(tile), f"all {side.total} elements of axis {axis}, which it reduces")

    brought = [
        Input(each.matrix, each.pinned, along(each.matrix.rows, rows), along(each.matrix.cols, cols)) for each in inputs
    ]
    input_nbytes, register_nbytes = lay_out(brought)
    out_rows, out_cols = (fixed(1) if math.axis == axis else side for axis, side in enumerate((rows, cols)))
    result = in_buffer(Role.OUT, Place.ACCUMULATOR, 0, out_rows, out_cols, out.dtype)
    stored = in_buffer(Role.SRC, Place.ACCUMULATOR, 0, out_rows, out_cols, out.dtype, release=True)
    compute = [*(each.in_registers(Role.IN) for each in brought), result]
    return PipelinePlan(
        kind=math.op,
        grid=(-(-m // rows.tile), -(-n // cols.tile), 1),
        stages=(
            *bring_in(brought, pe_prefix),
            stage(StageType.MATH, pe_prefix, compute, math=math),
            *take_out(stored, out, out_pinned, out_rows, out_cols, pe_prefix),
        ),
        buffers=BufferNeeds(
            input_nbytes=input_nbytes,
            output_nbytes=0 if out_pinned else slot(out_rows, out_cols, out.dtype),
            register_nbytes=register_nbytes,
            accumulator_nbytes=slot(out_rows, out_cols, out.dtype),
        ),
    )


def _shape(where: str, inputs: Sequence[MathInput]) -> tuple[int, int]:
    """What the inputs broadcast to."""
    shapes = [(each.matrix.rows, each.matrix.cols) for each in inputs]
    m, n = (max(sizes) for sizes in zip(*shapes, strict=True))
    if not all(rows in (1, m) and cols in (1, n) for rows, cols in shapes) or min(min(each) for each in shapes) < 1:
        listed = ", ".join(f"{rows} x {cols}" for rows, cols in shapes)
        raise PlanError(where, f"inputs of {listed}", "shapes that broadcast")
    return m, n


def _check_arguments(where: str, math: MathAttributes, inputs: Sequence[MathInput]) -> None:
    function = MATH_FUNCTIONS.get(math.op)
    if function is None:
        raise PlanError("math", repr(math.op), f"one of {', '.join(MATH_FUNCTIONS)}")
    if not inputs or len(inputs) + len(math.scalars) != function.arity:
        came = f"{len(inputs)} inputs and {len(math.scalars)} scalars"
        raise PlanError(where, came, f"{function.arity} arguments, one of them an input at least")
    try:
        math.arguments(inputs)
    except ValueError as error:
        raise PlanError(where, str(error), "a place among the arguments for each scalar, ascending") from None
    if function.reduces != (math.axis in (0, 1)):
        raise PlanError(where, f"axis {math.axis}", "axis 0 or 1" if function.reduces else "none")
    integers = [str(each.matrix.dtype) for each in inputs if not each.matrix.dtype.is_float]
    if function.float_only and integers:
        raise PlanError(where, f"inputs of {', '.join(integers)}", "floats")
    if function.int_only and len(integers) < len(inputs):
        floats = ", ".join(str(each.matrix.dtype) for each in inputs if each.matrix.dtype.is_float)
        raise PlanError(where, f"inputs of {floats}", "integers")
    fractions = [scalar for scalar in math.scalars if not float(scalar).is_integer()]
    if fractions and len(integers) == len(inputs):
        raise PlanError(where, f"the scalar {fractions[0]} for integers", "a whole number")
