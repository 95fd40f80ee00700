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
        self._of_origins: dict[int, int] = {}
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
            self._plans.append(self._form_number(plan))
            for stage in plan.stages:
                self._stages += (self._intern(stage.component), self._intern(stage.line) if stage.line else -1)
        return number

    def _form_number(self, plan: PipelinePlan) -> int:
        """The number of the form of *plan*. Plans of pieces share none, also those of one origin."""
        origin = id(plan.origin)
        number = self._of_origins.get(origin)
        if number is None:
            form = plan.kind, structure(plan)
            number = self._form_numbers.get(form)
            if number is None:
                number = self._form_numbers[form] = len(self._form_numbers)
                self.forms.append(encode_plan(plan))
            if not plan.stages[0].in_pieces:
                self._of_origins[origin] = number
        return number
