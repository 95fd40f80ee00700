"""The form of a plan: all that the times of its commands can follow from, without addresses and names."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from kb_engine.observe.by_event import WhyNot
from kb_messages import OperandTemplate, PipelinePlan, Place, StageTemplate, StageType, memory_side

_TRANSFERS: Final = (StageType.DMA_READ, StageType.DMA_WRITE)
_HELD: Final = WhyNot("the command goes on with a sum that lies in registers", "have one command compute the whole sum")
_PIECES: Final = WhyNot(
    "the command moves its rows in pieces", "load and store blocks whose rows lie behind each other"
)
_COMBINES: Final = WhyNot("the command combines what it stores with what is there", "add up in TCM, and store once")
_CONSTANT: Final = WhyNot("the command stores a constant", "store what the kernel loads or computes")


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


def why_out_of_reach(plan: PipelinePlan) -> WhyNot | None:
    """Why the times of *plan* do not follow from its form; None if they do."""
    if plan.held is not None:
        return _HELD
    for stage in plan.stages:
        if not is_transfer(stage):
            continue
        if stage.in_pieces:
            return _PIECES
        if stage.math is not None:
            return _COMBINES
        if memory_side(stage).place is not Place.MEMORY:
            return _CONSTANT
    return None


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
    if owners and owners.count(owners[0]) == len(owners):
        return (owners[0],), (0,) * len(owners)
    numbers: dict[int, int] = {}
    places = tuple([numbers.setdefault(owner, len(numbers)) for owner in owners])
    return tuple(numbers), places


def _form_of_operand(operand: OperandTemplate) -> Hashable:
    base = 0 if operand.place in (Place.MEMORY, Place.IMMEDIATE) else operand.base
    return (
        operand.role, operand.place, operand.rows, operand.cols, operand.stride, operand.dtype, operand.release,
        operand.when, base,
    )  # fmt: skip
