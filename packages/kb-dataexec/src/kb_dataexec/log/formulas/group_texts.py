"""GroupTexts: the texts of a group of commands, as numbers in the op log's table of strings."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from kb_dataexec.log.formulas.command import LoggedCommand
from kb_messages import PipelinePlan, Role, StageTemplate

Ints = npt.NDArray[np.int64]
_Texts = tuple[int, int, int, int, int]


class GroupTexts:
    """Interns lines, names, components and params of *commands*, each combination once.

    `present[command, stage]` tells which stages of a command have records: no other text enters the log. A stage has
    its own line, or that of its command.
    """

    def __init__(self, commands: Sequence[LoggedCommand], present: npt.NDArray[np.bool_]) -> None:
        self._commands = commands
        self._present = present
        self._rows: list[list[_Texts]] = []
        self._row_of = np.zeros(len(commands), dtype=np.int64)
        self._known: dict[Hashable, int] = {}
        self._presence = None if present.all() else [each.tobytes() for each in present]

    def intern(self, number: int, intern: Callable[[str], int]) -> None:
        """Intern the texts of command *number*. Call it for the commands of all groups in the order of their op ids."""
        command = self._commands[number]
        line, plan = command.submitted.line, command.shared_plan
        key = id(plan), line, None if self._presence is None else self._presence[number]
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self._rows)
            present = zip(plan.stages, self._present[number], strict=True)
            self._rows.append([_texts(stage, line, intern) if has else (0,) * 5 for stage, has in present])
        self._row_of[number] = found

    def of_records(self, which: Ints, stage: Ints) -> Ints:
        """For each record, by the numbers of its command and its stage template: name, component, params, the
        params of a record that accumulates, and line."""
        return np.array(self._rows, dtype=np.int64)[self._row_of[which], stage]


def _texts(stage: StageTemplate, line: str, intern: Callable[[str], int]) -> _Texts:
    """The numbers of a stage's texts, as `of_records` has them. *line* is that of the command."""
    found = intern(stage.stage_type.name.lower()), intern(stage.component), intern(_params(stage, accumulate=False))
    sums = any(operand.role is Role.ACC for operand in stage.operands)
    return (*found, intern(_params(stage, accumulate=True)) if sums else 0, intern(stage.line or line))


def intern_texts(plan: PipelinePlan, line: str, intern: Callable[[str], int]) -> None:
    """Enter the texts of a command of *line* with *plan*: those of the command, and of all stages that tiles have."""
    intern(line)
    intern(plan.kind)
    for number in plan.served:
        _texts(plan.stages[number], line, intern)


def intern_blocks(plan: PipelinePlan, intern: Callable[[str], int]) -> None:
    """As `intern_texts`, where the texts of a command of the same line with the same `origin` are entered.

    The plans differ in the names of blocks alone.
    """
    for number in plan.served:
        intern(plan.stages[number].component)


def _params(stage: StageTemplate, accumulate: bool) -> str:
    if stage.in_pieces:
        return '{"in_pieces":true}'
    attributes = stage.math or msgspec.structs.replace(stage.gemm, accumulate=accumulate)
    return msgspec.json.encode(attributes).decode()
