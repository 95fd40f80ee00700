"""What PE_SCHEDULER makes of a command: its plan, and whether the PE has the ways that the plan takes."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from kb_components.pe.pe_fetch_store import PeFetchStore
from kb_engine.block import ComponentBase
from kb_messages import Command, GemmCommand, LoadCommand, MathCommand, PipelinePlan, PlanError, StageType
from kb_plans import (
    TileRoom,
    gemm_options,
    generate_gemm_plan,
    generate_math_plan,
    generate_transfer_plan,
    suggest_math_tile,
    suggest_tile,
)


def generate_plan(command: Command, pe: str, room: TileRoom) -> PipelinePlan:
    """The plan of a command to *pe*; a tile that it leaves open fits *room*. Raises PlanError where none does."""
    if isinstance(command, GemmCommand):
        a, b, out, options = command.a, command.b, command.out, gemm_options(command)
        tile = command.tile or suggest_tile(a, b, out, room, **options)
        return generate_gemm_plan(a, b, out, tile, pe, **options)
    if isinstance(command, MathCommand):
        math, inputs, result, pinned = command.math, command.inputs, command.out, command.out_pinned
        tile = command.tile or suggest_math_tile(math, inputs, result, room, out_pinned=pinned)
        return generate_math_plan(math, inputs, result, tile, pe, out_pinned=pinned)
    if isinstance(command, LoadCommand):
        return generate_transfer_plan(command.src, command.dst, StageType.DMA_READ, pe, command.fill)
    return generate_transfer_plan(command.src, command.dst, StageType.DMA_WRITE, pe)


def check_wires(plan: PipelinePlan, node_id: str, blocks: Container[str], fetch_store: ComponentBase[Any]) -> None:
    """Raise PlanError for a MATH that is none of *blocks*, and for reads to registers that *fetch_store* cannot let
    claim them. *node_id* is the scheduler.
    """
    for stage in plan.stages:
        if stage.stage_type is StageType.MATH and stage.component not in blocks:
            raise PlanError(node_id, f"a MATH for {stage.component}", "a wire to it", "add a pe_math to pe_template")
    if plan.streams and not isinstance(fetch_store, PeFetchStore):
        raise PlanError(
            fetch_store.node_id,
            "a GEMM whose b streams to registers",
            "a register file that reads can claim",
            "use builtin.pe_fetch_store, or leave out b_stream",
        )
