"""The plans of the commands of a chunk of formulas, and whether plans of two chunks are alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.formulas.chunk_tables import ints
from kb_messages import PipelinePlan, decode_plan, encode_plan


class _Form:
    """The form that plans of a chunk have, as the chunk tells it in *line*."""

    def __init__(self, line: bytes) -> None:
        self.line = line
        self.plan = decode_plan(line)

    @cached_property
    def key(self) -> bytes:
        """What is equal for two forms if they differ in addresses, components and lines alone.

        Bytes are compared, because NaN equals nothing, and -0.0 equals 0.0.
        """
        plan = self.plan.at([0] * len(self.plan.addresses))
        return encode_plan(replace(plan, stages=tuple(replace(each, component="", line="") for each in plan.stages)))


class ToldPlan(NamedTuple):
    """*plan*, which has *form*, and the numbers of the texts of its stages: those of `component` and `line`."""

    plan: PipelinePlan
    form: _Form
    texts: Sequence[Sequence[int]]

    def is_like(self, other: ToldPlan) -> bool:
        """Whether *other*, which may be of another chunk of the log, differs in addresses at most."""
        is_same = self.form.line == other.form.line or self.form.key == other.form.key
        return is_same and self.texts == other.texts


def told_plans(tables: Mapping[str, Array], lines: Sequence[bytes], text_of: Callable[[int], str]) -> list[ToldPlan]:
    """The plans of a chunk with *tables* and the *lines* of its forms. *text_of* gives the text of a number.

    Raises KbError for a line that is no plan, and ValueError for stages that no plan has.
    """
    forms, stages, plans = [*map(_Form, lines)], iter(ints(tables["stages"]).tolist()), []
    for (number,) in ints(tables["plans"]).tolist():
        form = forms[number]
        texts = [next(stages) for _ in form.plan.stages]
        found = [
            replace(stage, component=text_of(component), line=text_of(line) if line >= 0 else "")
            for stage, (component, line) in zip(form.plan.stages, texts, strict=True)
        ]
        plans.append(ToldPlan(replace(form.plan, stages=tuple(found)), form, texts))
    check_all_taken("stages", stages)
    return plans


def check_all_taken(name: str, rows: Iterator[object]) -> None:
    """Raises ValueError where *rows* of the table *name* are left."""
    if next(rows, None) is not None:
        raise ValueError(f"rows of {name} that belong to nothing")
