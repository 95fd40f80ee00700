"""Adds up the least time that the work of each block takes, from the plans of commands."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final, TypeAlias

from msgspec.json import encode

from kb_engine.block import ComponentBase
from kb_engine.observe import Chip
from kb_messages import PipelinePlan, StageType
from kb_plans import service_kinds

LeastTimes: TypeAlias = dict[tuple[str, StageType], Fraction | None]
"""The least picoseconds of the work of a block by node and stage type; None for a block that knows no full rate."""

_MOST_KNOWN: Final = 4096
"""The most plans whose least times are kept. Source: assumed; commands in pieces have a plan each."""


class BlockWork:
    """The least times of the blocks of *chip*, for plans that `add` is called with.

    Blocks of equal class and attributes take equal times, so the plans of one PE serve all PEs that are like it.
    """

    def __init__(self, chip: Chip) -> None:
        self._chip = chip
        self._least: LeastTimes = {}
        self._forms: dict[str, Hashable] = {}
        self._known: dict[tuple[int, Hashable], tuple[PipelinePlan, list[Fraction | None]]] = {}

    @property
    def least_ps(self) -> Mapping[tuple[str, StageType], Fraction | None]:
        """The sums so far."""
        return self._least

    def add(self, plan: PipelinePlan, n: int) -> None:
        """Adds the work of *n* commands with *plan*."""
        origin, pe = plan.origin, plan.stages[0].component.rpartition(".")[0]
        key = id(origin), self._form(pe)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[key] = origin, list(self._of_stages(plan))
        for stage, least in zip(plan.stages, known[1], strict=True):
            place = stage.component, stage.stage_type
            before = self._least.get(place, Fraction(0))
            self._least[place] = None if before is None or least is None else before + n * least

    def _of_stages(self, plan: PipelinePlan) -> Iterator[Fraction | None]:
        """The least time of each stage of *plan*, over all its tiles."""
        found: list[Fraction | None] = [Fraction(0)] * len(plan.stages)
        for number, params, count in service_kinds(plan):
            stage, before = plan.stages[number], found[number]
            least = self._chip.components[stage.component].least_ps(stage.stage_type, params)
            found[number] = None if before is None or least is None else before + count * least
        return iter(found)

    def _form(self, pe: str) -> Hashable:
        """The classes and attributes of the blocks of *pe*."""
        form = self._forms.get(pe)
        if form is None:
            nodes = self._chip.topology.graph.pe_nodes(pe)
            form = self._forms[pe] = tuple(form_of(self._chip.components[each.id]) for each in nodes)
        return form


def form_of(block: ComponentBase[Any]) -> tuple[type, bytes]:
    """The class and the attributes of *block*. Costs of blocks with one form are equal."""
    return type(block), encode(block.spec)
