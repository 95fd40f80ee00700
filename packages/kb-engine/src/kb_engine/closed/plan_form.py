"""The form of a plan: all that the times of its commands can follow from, without addresses and names."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from kb_messages import OperandTemplate, PipelinePlan, Place, StageTemplate, StageType, memory_side

_TRANSFERS: Final = (StageType.DMA_READ, StageType.DMA_WRITE)


class PlanForm:
    """What plans of one form have in common; *number* stands for that, as `form_of` gives it.

    `transfers` has the place among the addresses of a plan of what each transfer reads or writes, in the order of the
    stages. `writes` has the number of each write among the transfers, and its place.
    """

    def __init__(self, plan: PipelinePlan, number: int) -> None:
        self.number = number
        self.transfers = tuple([at for _, at in plan.transfers])
        stages = [plan.stages[number] for number, _ in plan.transfers]
        numbers = [number for number, stage in enumerate(stages) if stage.stage_type is StageType.DMA_WRITE]
        self.writes = tuple([(number, self.transfers[number]) for number in numbers])


def is_transfer(stage: StageTemplate) -> bool:
    """Whether *stage* reads or writes a memory."""
    return stage.stage_type in _TRANSFERS


def is_in_reach(plan: PipelinePlan) -> bool:
    """Whether the times of *plan* follow from its form: no sums between commands, pieces, atomics, or constants."""
    return plan.held is None and not any(
        stage.in_pieces or stage.math is not None or memory_side(stage).place is not Place.MEMORY
        for stage in plan.stages
        if is_transfer(stage)
    )


def form_of(plan: PipelinePlan) -> Hashable:
    """What plans have in common that take equal times on equal blocks and memories, but for where transfers go."""
    return (
        plan.grid,
        plan.loop_order,
        plan.buffers,
        tuple(
            [
                (
                    stage.stage_type,
                    stage.component.rpartition(".")[2],
                    stage.when,
                    stage.math,
                    stage.gemm,
                    tuple(map(_form_of_operand, stage.operands)),
                )
                for stage in plan.stages
            ]
        ),
    )


def numbered(owners: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Each of *owners* once, in their order; and for each of *owners* its place there."""
    numbers: dict[int, int] = {}
    places = tuple([numbers.setdefault(owner, len(numbers)) for owner in owners])
    return tuple(numbers), places


def _form_of_operand(operand: OperandTemplate) -> Hashable:
    base = 0 if operand.place in (Place.MEMORY, Place.IMMEDIATE) else operand.base
    return (
        operand.role, operand.place, operand.rows, operand.cols, operand.stride, operand.dtype, operand.release,
        operand.when, base,
    )  # fmt: skip
