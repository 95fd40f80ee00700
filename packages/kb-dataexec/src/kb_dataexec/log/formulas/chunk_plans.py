"""ChunkPlans: the plans of the commands of a chunk of formulas, as forms and what differs from them."""

from __future__ import annotations

from collections.abc import Hashable

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.formulas.chunk_tables import Intern, rows_of
from kb_dataexec.log.formulas.command_group import structure
from kb_messages import PipelinePlan, encode_plan


class ChunkPlans:
    """The plans of a chunk. Those that differ in addresses, blocks and lines alone have one form."""

    def __init__(self, intern: Intern) -> None:
        self._intern = intern
        self._numbers: dict[int, int] = {}
        self._form_numbers: dict[Hashable, int] = {}
        self._plans, self._stages = list[int](), list[int]()
        self.forms = list[bytes]()

    @property
    def tables(self) -> dict[str, Array]:
        """The forms of the plans by number, and the blocks and lines of their stages."""
        return {"plans": rows_of("plans", self._plans), "stages": rows_of("stages", self._stages)}

    def number_of(self, plan: PipelinePlan) -> int:
        """The number of *plan*, which stays as long as the chunk is made."""
        number = self._numbers.get(id(plan))
        if number is None:
            number = self._numbers[id(plan)] = len(self._numbers)
            form = plan.kind, structure(plan)
            if form not in self._form_numbers:
                self._form_numbers[form] = len(self._form_numbers)
                self.forms.append(encode_plan(plan))
            self._plans.append(self._form_numbers[form])
            for stage in plan.stages:
                self._stages += (self._intern(stage.component), self._intern(stage.line) if stage.line else -1)
        return number
