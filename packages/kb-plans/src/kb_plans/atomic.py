"""The plan of an atomic: one tile with a DMA_WRITE that has a function, and a DMA_READ of the old bytes before it."""

from __future__ import annotations

from typing import Final

from kb_messages import AtomicCommand, BufferNeeds, Matrix, PipelinePlan, PlanError, Role, StageType
from kb_plans.checks import check
from kb_plans.templates import fixed, in_memory, stage

ATOMIC_ARGUMENTS: Final = {
    "add": 2, "maximum": 2, "minimum": 2, "bit_and": 2, "bit_or": 2, "bit_xor": 2, "copy": 1, "fill": 1, "cas": 3,
}  # fmt: skip
"""The functions of atomics, with the number of their arguments.

The first argument is the target, except for `copy` and `fill`, which exchange its bytes.
"""


def generate_atomic_plan(command: AtomicCommand, pe: str) -> PipelinePlan:
    """Plans the read-modify-write of `target` for the PE *pe*.

    Raises PlanError for a function that is none of `ATOMIC_ARGUMENTS`, for operands of other shapes or dtypes than the
    target, and for a value of a wrong type.
    """
    check(command, AtomicCommand, pe)
    target, old = command.target, command.old
    _check(command)
    sides = fixed(target.rows), fixed(target.cols)
    stages = []
    if old is not None:
        read = [in_memory(Role.SRC, target, *sides), in_memory(Role.DST, old, *sides)]
        stages.append(stage(StageType.DMA_READ, pe, read))
    arguments = [target] * command.reads_target + [*command.operands]
    operands = [in_memory(Role.IN, each, *sides) for each in arguments]
    operands.append(in_memory(Role.OUT, target, *sides))
    stages.append(stage(StageType.DMA_WRITE, pe, operands, math=command.math))
    return PipelinePlan(kind="atomic", grid=(1, 1, 1), stages=tuple(stages), buffers=BufferNeeds())


def _check(command: AtomicCommand) -> None:
    math, target = command.math, command.target
    where = f"atomic {math.op}"
    wanted = ATOMIC_ARGUMENTS.get(math.op)
    if wanted is None:
        raise PlanError("atomic", repr(math.op), f"one of {', '.join(ATOMIC_ARGUMENTS)}")
    arguments = [target] * command.reads_target + [*command.operands]
    if len(arguments) + len(math.scalars) != wanted or math.axis is not None or math.reverse:
        came = f"{len(command.operands)} operands and {len(math.scalars)} scalars"
        raise PlanError(where, came, f"{wanted - command.reads_target} arguments beside the target, and no axis")
    try:
        math.arguments(arguments)
    except ValueError as error:
        raise PlanError(where, str(error), "a place among the arguments for each scalar, ascending") from None
    if math.op.startswith("bit_") and target.dtype.is_float:
        raise PlanError(where, f"a target of {target.dtype}", "integers")
    for each in (*command.operands, *([] if command.old is None else [command.old])):
        if (each.rows, each.cols, each.dtype) != (target.rows, target.cols, target.dtype):
            raise PlanError(where, _text(each), f"{_text(target)}, as the target")


def _text(matrix: Matrix) -> str:
    return f"{matrix.rows} x {matrix.cols} of {matrix.dtype}"
