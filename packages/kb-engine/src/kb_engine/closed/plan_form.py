"""The form of a plan: all that the times of its commands can follow from, without addresses and names."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from kb_messages import OFFSET_BITS, OperandTemplate, PipelinePlan, Place, StageTemplate, StageType, memory_side

_TRANSFERS: Final = (StageType.DMA_READ, StageType.DMA_WRITE)


def owners_of(plan: PipelinePlan) -> tuple[int, ...]:
    """The memories that the transfers of *plan* read and write, each once, in the order of the stages."""
    found: dict[int, None] = {}
    for stage in plan.stages:
        if stage.stage_type in _TRANSFERS:
            operand = memory_side(stage)
            if operand.place is Place.MEMORY:
                found[operand.base >> OFFSET_BITS] = None
    return tuple(found)


def form_of(plan: PipelinePlan, burst_nbytes: Callable[[int], int]) -> Hashable:
    """What plans have in common that take equal times on equal blocks and memories.

    Memories are numbered in the order of `owners_of`. Of the address of a write there remains where in a burst it
    begins, because a write that is interrupted is cut between bursts. *burst_nbytes* gives the burst of a memory.
    """
    number_of = {owner: number for number, owner in enumerate(owners_of(plan))}

    def form(stage: StageTemplate, operand: OperandTemplate) -> Hashable:
        base: Hashable = operand.base
        if stage.stage_type in _TRANSFERS and operand is memory_side(stage):
            owner = operand.base >> OFFSET_BITS
            within = operand.base % burst_nbytes(owner) if stage.stage_type is StageType.DMA_WRITE else 0
            base = number_of[owner], within
        elif operand.place in (Place.MEMORY, Place.IMMEDIATE):
            base = 0
        return (
            operand.role, operand.place, operand.rows, operand.cols, operand.stride, operand.dtype, operand.release,
            operand.when, base,
        )  # fmt: skip

    return (
        plan.grid,
        plan.loop_order,
        plan.buffers,
        tuple(
            (
                stage.stage_type,
                stage.component.rpartition(".")[2],
                stage.when,
                stage.math,
                stage.gemm,
                tuple([form(stage, operand) for operand in stage.operands]),
            )
            for stage in plan.stages
        ),
    )
