"""The tile plan of a math function on matrices: elementwise with numpy's broadcasting, or a reduction."""

from __future__ import annotations

from collections.abc import Sequence

from kb_messages import (
    MATH_FUNCTIONS,
    Axis,
    BufferNeeds,
    DType,
    MathAttributes,
    MathCommand,
    PipelinePlan,
    Place,
    PlanError,
    Role,
    StageType,
    has_own_form,
)
from kb_plans.checks import check
from kb_plans.templates import Input, along, bring_in, fixed, in_buffer, lay_out, slot, stage, take_out


def generate_math_plan(command: MathCommand, pe: str) -> PipelinePlan:
    """Plans `out[M, N] = op(arguments)` for the PE *pe*, in tiles of `tile.m` x `tile.n`, row by row.

    Each tile has a DMA_READ of every input (none for a pinned input, which lies in TCM already), one FETCH of all
    inputs, a MATH, a STORE and, unless the output is pinned, a DMA_WRITE. A side of length 1 is broadcast. The tiles of
    a reduction or a scan hold the whole axis of the function. The depth of the tile has no meaning and is 1.

    The function is pure: equal arguments give equal plans. Raises PlanError when the command has no tile, when
    arguments, shapes, dtypes or the tile do not fit together, and for a value of a wrong type.
    """
    check(command, MathCommand, pe)
    math, out = command.math, command.out
    rows, cols = _cut(command)
    brought = [
        Input(each.matrix, each.pinned, along(each.matrix.rows, rows), along(each.matrix.cols, cols))
        for each in command.inputs
    ]
    input_nbytes, register_nbytes = lay_out(brought)
    reduced = math.axis if MATH_FUNCTIONS[math.op].reduces else None
    out_rows, out_cols = (fixed(1) if reduced == axis else side for axis, side in enumerate((rows, cols)))
    result = in_buffer(Role.OUT, Place.ACCUMULATOR, 0, out_rows, out_cols, out.dtype)
    stored = in_buffer(Role.SRC, Place.ACCUMULATOR, 0, out_rows, out_cols, out.dtype, release=True)
    compute = [*(each.in_registers(Role.IN) for each in brought), result]
    return PipelinePlan(
        kind=math.op,
        grid=(-(-rows.total // rows.tile), -(-cols.total // cols.tile), 1),
        stages=(
            *bring_in(brought, pe),
            stage(StageType.MATH, pe, compute, math=math),
            *take_out(stored, out, command.out_pinned, out_rows, out_cols, pe),
        ),
        buffers=BufferNeeds(
            input_nbytes=input_nbytes,
            output_nbytes=0 if command.out_pinned else slot(out_rows, out_cols, out.dtype),
            register_nbytes=register_nbytes,
            accumulator_nbytes=slot(out_rows, out_cols, out.dtype),
        ),
    )


def _cut(command: MathCommand) -> tuple[Axis, Axis]:
    """The sides of the shape to which the inputs broadcast, cut into tiles.

    Raises PlanError for shapes that do not fit.
    """
    math, tile = command.math, command.tile
    where = f"math {math.op}"
    if not command.inputs:
        raise PlanError(where, "no inputs", "at least one")
    check_arguments(where, math, [each.matrix.dtype for each in command.inputs])
    if math.group is not None:
        raise PlanError(where, f"groups of {math.group[0]} rows", "no groups; a vector program may have them")
    if has_own_form(math.op):
        raise PlanError(where, "a command of its own", "a vector program")
    m, n = shape_of(where, [(each.matrix.rows, each.matrix.cols) for each in command.inputs])
    reduced = math.axis if MATH_FUNCTIONS[math.op].reduces else None
    expected = (1 if reduced == 0 else m, 1 if reduced == 1 else n)
    if (command.out.rows, command.out.cols) != expected:
        raise PlanError(f"{where} out", f"{command.out.rows} x {command.out.cols}", f"{expected[0]} x {expected[1]}")
    if tile is None or min(tile.m, tile.n) < 1 or tile.k != 1:
        raise PlanError(f"{where} tile", str(tile or "none"), "positive rows and columns, and a depth of 1")
    rows = Axis(dimension=0, total=m, tile=min(tile.m, m))
    cols = Axis(dimension=1, total=n, tile=min(tile.n, n))
    for axis, side in enumerate((rows, cols)):
        if math.axis == axis and side.tile < side.total:
            raise PlanError(f"{where} tile", str(tile), f"all {side.total} elements of axis {axis}, which it goes over")
    return rows, cols


def shape_of(where: str, shapes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The rows and columns to which *shapes* broadcast. Raises PlanError, at *where*, if they do not broadcast."""
    m, n = (max(sizes) for sizes in zip(*shapes, strict=True))
    if not all(rows in (1, m) and cols in (1, n) for rows, cols in shapes):
        listed = ", ".join(f"{rows} x {cols}" for rows, cols in shapes)
        raise PlanError(where, f"inputs of {listed}", "shapes that broadcast")
    return m, n


def check_arguments(where: str, math: MathAttributes, dtypes: Sequence[DType]) -> None:
    """Raises PlanError, at *where*, unless *math* is a function that takes inputs of *dtypes* beside its scalars."""
    function = MATH_FUNCTIONS.get(math.op)
    if function is None:
        raise PlanError("math", repr(math.op), f"one of {', '.join(MATH_FUNCTIONS)}")
    if len(dtypes) + len(math.scalars) != function.arity or (function.generates if dtypes else not function.generates):
        came = f"{len(dtypes)} inputs and {len(math.scalars)} scalars"
        needs = "all of them scalars" if function.generates else "one of them an input at least"
        raise PlanError(where, came, f"{function.arity} arguments, {needs}")
    try:
        math.arguments(dtypes)
    except ValueError as error:
        raise PlanError(where, str(error), "a place among the arguments for each scalar, ascending") from None
    if math.axis not in ((0, 1) if function.has_axis else (None,)):
        raise PlanError(where, f"axis {math.axis}", "axis 0 or 1" if function.has_axis else "no axis")
    if math.reverse and not function.scans:
        raise PlanError(where, "reverse", "a scan")
    if function.spreads is (math.group is None) and math.axis != 0:
        raise PlanError(where, f"group {math.group}", "rows of a group" if function.spreads else "no group")
    if math.op == "where" and 0 not in math.scalar_at:
        dtypes = dtypes[1:]  # the condition does not decide
    integers = [str(dtype) for dtype in dtypes if not dtype.is_float]
    if function.float_only and integers:
        raise PlanError(where, f"inputs of {', '.join(integers)}", "floats")
    if function.int_only and len(integers) < len(dtypes):
        floats = ", ".join(str(dtype) for dtype in dtypes if dtype.is_float)
        raise PlanError(where, f"inputs of {floats}", "integers")
    fractions = [str(scalar) for scalar in math.scalars if not float(scalar).is_integer()]
    if fractions and dtypes and len(integers) == len(dtypes):
        raise PlanError(where, f"the scalar {fractions[0]} for integers", "a whole number")
