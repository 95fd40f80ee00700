"""GroupTexts: the texts of a group of commands, as numbers in the op log's table of strings."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from kb_engine.block.in_flight import CommandInFlight
from kb_messages import Role, StageTemplate

Ints = npt.NDArray[np.int64]


class GroupTexts:
    """Interns lines, names, components and params of *commands*, each combination once.

    `present[command, stage]` tells which stages of a command have records: no other text enters the log. `lines` has
    the number of each command's line.
    """

    def __init__(self, commands: Sequence[CommandInFlight], present: npt.NDArray[np.bool_]) -> None:
        self.lines = np.zeros(len(commands), dtype=np.int64)
        self._commands = commands
        self._present = present
        self._rows: list[list[tuple[int, int, int, int]]] = []
        self._row_of = np.zeros(len(commands), dtype=np.int64)
        self._known: dict[Hashable, int] = {}

    def intern(self, number: int, intern: Callable[[str], int]) -> None:
        """Intern the texts of command *number*. Call it for the commands of all groups in the order of their op ids."""
        command, present = self._commands[number], self._present[number]
        self.lines[number] = intern(command.submitted.line)
        intern(command.plan.kind)  # a row of `commands` will have it
        stages = command.plan.stages
        key = present.tobytes(), tuple(stage.component for stage in stages)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self._rows)
            self._rows.append(
                [_texts(stage, intern) if has else (0,) * 4 for stage, has in zip(stages, present, strict=True)]
            )
        self._row_of[number] = found

    def of_records(self, which: Ints, stage: Ints) -> Ints:
        """For each record, by the numbers of its command and its stage template: name, component, params, and the
        params of a record that accumulates."""
        return np.array(self._rows, dtype=np.int64)[self._row_of[which], stage]


def _texts(stage: StageTemplate, intern: Callable[[str], int]) -> tuple[int, int, int, int]:
    """The numbers of a stage's name, component and params, and of the params of a record that accumulates."""
    found = intern(stage.stage_type.name.lower()), intern(stage.component), intern(_params(stage, accumulate=False))
    sums = any(operand.role is Role.ACC for operand in stage.operands)
    return (*found, intern(_params(stage, accumulate=True)) if sums else 0)


def _params(stage: StageTemplate, accumulate: bool) -> str:
    if stage.in_pieces:
        return '{"in_pieces":true}'
    attributes = stage.math or msgspec.structs.replace(stage.gemm, accumulate=accumulate)
    return msgspec.json.encode(attributes).decode()
