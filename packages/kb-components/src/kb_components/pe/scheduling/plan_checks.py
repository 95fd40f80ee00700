"""PlanChecks: whether the blocks of a PE accept a plan. Equal PEs accept equal plans, so one PE is asked for all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kb_components.pe.scheduling.plan_forms import Takers
from kb_components.pe.scheduling.tile_buffers import TileBuffers
from kb_engine.block import ComponentBase
from kb_messages import PipelinePlan, PlanError, StageType


class _Asked(NamedTuple):
    """The numbers of the blocks that every PE still asks.

    The blocks `at_addresses` check addresses alone, and the blocks `always` check all of a plan. `specs` keeps the
    Specs of the PE's blocks alive, so that no other object gets their ids.
    """

    at_addresses: list[int]
    always: list[int]
    specs: tuple[Any, ...]


class PlanChecks:
    """The checks of plans for one PE: by *scheduler*, its *buffers*, and the *blocks* that it feeds.

    The nodes of one PE template share their Specs, but for those of slow PEs, and have equal wires and memories. So PEs
    whose blocks have the same Specs are equal. A block without `checks_by_form` is asked about every plan.
    """

    __slots__ = ("_blocks", "_buffers", "_form", "_scheduler")

    def __init__(
        self, scheduler: ComponentBase[Any], buffers: TileBuffers, blocks: Iterable[ComponentBase[Any]]
    ) -> None:
        self._scheduler = scheduler
        self._buffers = buffers
        self._blocks = (*blocks,)
        self._form = (id(scheduler.spec), *[id(block.spec) for block in self._blocks])

    def check(self, plan: PipelinePlan, pe: str, takers: Takers | None) -> None:
        """Raises PlanError when *plan*, for *pe*, does not fit.

        *takers* are PEs that accepted a plan of the same form.
        """
        asked = None if takers is None else takers.get(self._form)
        if asked is None:
            self._check_all(plan, pe)
            if takers is not None:
                takers[self._form] = self._asked()
            return
        for number in asked.at_addresses:
            self._blocks[number].check_addresses(plan)
        for number in asked.always:
            self._blocks[number].check_plan(plan)

    def _check_all(self, plan: PipelinePlan, pe: str) -> None:
        self._buffers.check(plan, f"{pe}.pe_tcm")
        names = {block.node_id for block in self._blocks}
        for stage in plan.stages:
            if stage.stage_type is StageType.MATH and stage.component not in names:
                where, got = self._scheduler.node_id, f"a MATH for {stage.component}"
                wire = f"`{where.rpartition('.')[2]} -> {stage.component.rpartition('.')[2]}`"
                fix = f"add {wire} to the wires of pe_template, and a pe_math if there is none, or take a chip with one"
                raise PlanError(where, got, "a wire to it", fix)
        for block in self._blocks:
            block.check_plan(plan)

    def _asked(self) -> _Asked:
        by_form = [_checks_by_form(type(block)) for block in self._blocks]
        checks_addresses = [type(block).check_addresses is not ComponentBase.check_addresses for block in self._blocks]
        numbers = range(len(self._blocks))
        return _Asked(
            [number for number in numbers if by_form[number] and checks_addresses[number]],
            [number for number in numbers if not by_form[number]],
            (self._scheduler.spec, *[block.spec for block in self._blocks]),
        )


def _checks_by_form(kind: type[ComponentBase[Any]]) -> bool:
    """Whether the class itself sets `checks_by_form`, or checks nothing."""
    return vars(kind).get("checks_by_form", False) or kind.check_plan is ComponentBase.check_plan
