"""Whether a PE has the wires and blocks that a plan uses."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from kb_components.pe.pe_fetch_store import PeFetchStore
from kb_engine.block import ComponentBase
from kb_messages import PipelinePlan, PlanError, StageType


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
