"""The accumulator of a GEMM: its place in registers, the fetch of an earlier sum, and the drain of a held sum."""

from __future__ import annotations

from kb_messages import (
    OFFSET_MASK,
    BufferNeeds,
    DrainCommand,
    GemmCommand,
    Matrix,
    OperandTemplate,
    PipelinePlan,
    Place,
    PlanError,
    Role,
    StageType,
    When,
)
from kb_plans.checks import check
from kb_plans.templates import fixed, in_buffer, in_memory, stage


def place_of_sum(command: GemmCommand) -> tuple[Place, int]:
    """The place of the sum of *command*: an accumulator of each tile, or an offset of the register file if held."""
    return (Place.HELD, command.out.address & OFFSET_MASK) if command.out_held else (Place.ACCUMULATOR, 0)


def fetched_sum(command: GemmCommand, target: OperandTemplate) -> list[OperandTemplate]:
    """The move of `acc` from TCM to *target* in the FETCH of the first tile over K.

    Empty when no `acc` is to be moved.
    """
    acc = command.acc
    if acc is None or command.acc_held:
        return []
    return [in_memory(Role.SRC, acc, target.rows, target.cols, When.FIRST_K), target]


def check_accumulator(command: GemmCommand, grid: tuple[int, int, int]) -> None:
    """Raises PlanError when `acc` does not fit the result, or when the result cannot stay in registers.

    *grid* is (tiles along M, along N, along K).
    """
    acc, out = command.acc, command.out
    summed = command.a.dtype.accumulator
    if acc is not None and (acc.rows, acc.cols, acc.dtype) != (out.rows, out.cols, summed):
        needs = f"{out.rows} x {out.cols} of {summed}, as the sum has"
        raise PlanError("gemm acc", _text(acc), needs, f"convert it to {summed}")
    if command.epilogue and (acc is not None or command.out_held):
        raise PlanError("gemm acc", "an epilogue", "none beside an accumulator", "apply the ops to the result")
    if command.acc_held and (acc is None or not command.out_held or acc.address != out.address):
        raise PlanError("gemm acc", "a held sum that the result does not replace", "out_held at the same address")
    if command.out_held and (grid[:2] != (1, 1) or out.dtype is not summed or out.stride != out.row_nbytes):
        got = f"{_text(out)} in {grid[0]} x {grid[1]} tiles that stay in registers"
        raise PlanError("gemm out", got, f"one packed tile of {summed}", "leave out out_held")


def generate_drain_plan(command: DrainCommand, pe: str) -> PipelinePlan:
    """Plans a copy of a held sum to TCM for the PE *pe*: one tile of one STORE, which casts and frees the registers.

    Raises PlanError when the two differ in shape, and for a value of a wrong type.
    """
    check(command, DrainCommand, pe)
    src, dst = command.src, command.dst
    if (src.rows, src.cols) != (dst.rows, dst.cols) or src.stride != src.row_nbytes:
        raise PlanError("drain", f"{_text(src)} into {_text(dst)}", "a packed sum, and equal shapes")
    rows, cols = fixed(src.rows), fixed(src.cols)
    held = in_buffer(Role.SRC, Place.HELD, src.address & OFFSET_MASK, rows, cols, src.dtype, release=True)
    copy = stage(StageType.STORE, pe, [held, in_memory(Role.DST, dst, rows, cols)])
    return PipelinePlan(kind="drain", grid=(1, 1, 1), stages=(copy,), buffers=BufferNeeds())


def _text(matrix: Matrix) -> str:
    return f"{matrix.rows} x {matrix.cols} of {matrix.dtype}"
