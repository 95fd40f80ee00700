"""ReplayedPrograms: the programs of a launch that are repeated from templates, as far as periods of them are looked
for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kb_engine.block.state_visitor import NotPeriodic, StateVisitor
from kb_engine.fastforward.replay.placeholders import Numbers
from kb_engine.fastforward.replay.steps import Loaded, Repetition
from kb_engine.fastforward.replay.template import Template


class IssuedByRun(NamedTuple):
    """Program `program` issued its command number `which`."""

    program: int
    which: int


class ReplayedPrograms:
    """`runs` are the programs that run and those that ran since `forget`, by number. `issues` are their commands since
    then, in order.
    """

    def __init__(self) -> None:
        self.runs: dict[int, tuple[Template, Repetition]] = {}
        self.issues: list[IssuedByRun] = []

    def begin(self, template: Template, run: Repetition) -> None:
        """*run* is about to do the steps of *template*."""
        self.runs[run.number] = template, run

    def issue(self, run: Repetition) -> None:
        """*run* is about to issue a command."""
        self.issues.append(IssuedByRun(run.number, len(run.completions)))

    def visit_state(self, over: StateVisitor, running: Iterable[int]) -> None:
        """As StateVisitor says, of the programs *running*. Raises NotPeriodic for one that has no template."""
        for number in running:
            if number not in self.runs:
                raise NotPeriodic
            template, run = self.runs[number]
            over.identical(template)
            run.visit_state(over)

    def go_on(self, number: int, later: int, numbers: Numbers, loaded: Mapping[int, Loaded]) -> None:
        """The program *number* goes on as program *later*, which has *numbers* and has *loaded* that much."""
        template, run = self.runs[number]
        run.become(later, numbers, loaded)
        self.runs[later] = template, run

    def forget(self, running: Iterable[int]) -> None:
        """Forget all commands, and the programs that are not *running*."""
        self.issues.clear()
        self.runs = {number: self.runs[number] for number in running if number in self.runs}
