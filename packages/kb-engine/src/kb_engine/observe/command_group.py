"""CommandGroup: the columns of a chunk of the op log, filled for many commands at once.

Commands form a group when their plans differ in addresses and blocks alone, as the loads of a loop do. Their stages and
the shapes and places of their operands are equal, so one numpy expression fills a column for the whole group.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from kb_engine.block.buffers import Slots
from kb_engine.block.in_flight import CommandInFlight
from kb_engine.observe.observer import Rows
from kb_messages import (
    OFFSET_BITS,
    OFFSET_MASK,
    Axis,
    MemorySpace,
    OperandTemplate,
    OpKind,
    PipelinePlan,
    Place,
    Role,
    StageTemplate,
    StageType,
    When,
    space_code_of,
)

Ints = npt.NDArray[np.int64]
Owners = tuple[list[int], list[int]]
"""For each command, the owner of its PE's TCM and of its PE's registers."""
_KINDS: Final = {StageType.GEMM: OpKind.GEMM, StageType.MATH: OpKind.MATH}


def structure(plan: PipelinePlan) -> Hashable:
    """A key that is equal for two plans if their records differ in addresses and blocks alone."""
    return plan.grid, tuple(
        (
            stage.stage_type,
            stage.when,
            stage.math,
            stage.gemm,
            tuple(
                (o.role, o.place, o.rows, o.cols, o.stride, o.dtype, o.release, o.when, o.place and o.base)
                for o in stage.operands
            ),
        )
        for stage in plan.stages
    )


class CommandGroup:
    """The records in a chunk of *commands*, which have one structure.

    `rows` are the positions of the group's records in the chunk, and `which` numbers the command of each record.
    `stages` pairs each stage template of the first command with the positions of its records within the group. `mn`,
    `k` and `tile` place each record's tile in the plan's grid; `position` is the stage's index within the tile.
    """

    def __init__(
        self, commands: list[CommandInFlight], rows: npt.NDArray[np.intp], which: Ints, op_ids: Ints, owners: Owners
    ) -> None:
        plan = commands[0].plan
        _, n_grid, k_grid = plan.grid
        variants = [plan.stages_at(k) for k in (0, 1, k_grid - 1)]  # the first tile over K, those between, the last
        first, later = len(variants[0]), len(variants[1])
        self.rows = rows
        self.commands = commands
        self.which = which
        self._owners = owners
        nth = op_ids[rows] - self._each([command.first_op for command in commands])
        self.mn, rest = np.divmod(nth, plan.n_stages // (plan.grid[0] * n_grid))
        self.k = np.clip((rest - first) // later + 1, 0, k_grid - 1)
        self.position = rest - np.where(self.k > 0, first + (self.k - 1) * later, 0)
        self.tile = self.mn * k_grid + self.k
        self.axes = (*np.divmod(self.mn, n_grid), self.k)
        variant = np.where(self.k == 0, 0, np.where(self.k == k_grid - 1, 2, 1))
        self.stage = _padded(variants)[variant, self.position]
        self.stages = [(template, np.flatnonzero(self.stage == number)) for number, template in enumerate(plan.stages)]
        self._texts: list[list[tuple[int, int, int, int]]] = []
        self._text_of = np.zeros(len(commands), dtype=np.int64)
        self._lines = np.zeros(len(commands), dtype=np.int64)
        self._known: dict[Hashable, int] = {}
        present = np.bincount(which * len(plan.stages) + self.stage, minlength=len(commands) * len(plan.stages))
        self._present = (present > 0).reshape(len(commands), -1)

    def intern(self, number: int, intern: Callable[[str], int]) -> None:
        """Intern the texts of command *number*. Call it for the commands of all groups in the order of their op ids."""
        command = self.commands[number]
        self._lines[number] = intern(command.submitted.line)
        stages, present = command.plan.stages, self._present[number]
        key = present.tobytes(), tuple(stage.component for stage in stages)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self._texts)
            self._texts.append(
                [_texts(stage, intern) if has else (0,) * 4 for stage, has in zip(stages, present, strict=True)]
            )
        self._text_of[number] = found

    def fill_ops(self, ops: Rows) -> None:
        """Fill every column of the group's rows except ids, times and waits."""
        rows, texts = self.rows, np.array(self._texts, dtype=np.int64)[self._text_of[self.which], self.stage]
        ops["command_seq"][rows] = self._each([command.submitted.command_seq for command in self.commands])
        ops["tile_id"][rows] = self.tile
        ops["line"][rows] = self._lines[self.which]
        ops["stage_index"][rows] = self.position
        kinds = [_KINDS.get(template.stage_type, OpKind.MEMORY) for template, _ in self.stages]
        ops["kind"][rows] = np.array(kinds)[self.stage]
        for column, name in enumerate(("name", "component", "params")):
            ops[name][rows] = texts[:, column]
        for template, mine in self.stages:
            for operand in template.operands:
                if operand.role is Role.ACC:
                    summing = self.users(operand, mine)
                    ops["params"][rows[summing]] = texts[summing, 3]

    def users(self, operand: OperandTemplate, mine: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """The records among *mine*, a stage's, that have *operand*. The first product of a sum reads no accumulator."""
        if operand.when is When.EVERY_TILE:
            return mine
        k = self.k[mine]
        last = self.commands[0].plan.grid[2] - 1
        held: npt.NDArray[np.bool_] = {When.LAST_K: k == last, When.FIRST_K: k == 0, When.LATER_K: k > 0}[operand.when]
        return mine[held]

    def fill(self, part: Rows, stage: int, number: int, users: npt.NDArray[np.intp]) -> None:
        """Fill *part*, a row for each of the records *users*, with operand *number* of *stage*."""
        operand = self.stages[stage][0].operands[number]
        row, col = self._along(operand.rows, users), self._along(operand.cols, users)
        nbytes = operand.dtype.nbytes
        if operand.place is Place.MEMORY:
            base = self._each([command.plan.stages[stage].operands[number].base for command in self.commands], users)
            part["owner"] = base >> OFFSET_BITS
            part["space"] = space_code_of(base >> OFFSET_BITS)
            within = row * (operand.rows.tile * operand.stride) + col * (operand.cols.tile * nbytes)
            part["offset"] = within + (base & OFFSET_MASK)
        elif operand.place is Place.IMMEDIATE:
            part["owner"], part["space"] = 0, MemorySpace.IMMEDIATE.code
            part["offset"] = operand.base
        else:
            in_registers = operand.place in (Place.REGISTERS, Place.ACCUMULATOR)
            part["owner"] = self._each(self._owners[in_registers], users)
            part["space"] = (MemorySpace.REG if in_registers else MemorySpace.TCM).code
            part["offset"] = self._in_slots(operand.place, users) + operand.base
        part["role"] = operand.role
        part["dtype"] = operand.dtype.info.code
        part["release"] = operand.release
        part["rows"] = np.minimum(operand.rows.tile, operand.rows.total - row * operand.rows.tile)
        width = np.minimum(operand.cols.tile, operand.cols.total - col * operand.cols.tile)
        part["row_nbytes"] = width * nbytes
        part["stride"] = operand.stride

    def _each(self, values: Sequence[int], users: npt.NDArray[np.intp] | None = None) -> Ints:
        """For each record, or each of *users*, the value of its command. A group of one command gives one number."""
        if len(values) == 1:
            return np.int64(values[0])  # type: ignore[return-value]  # broadcasts as an array would
        return np.array(values, dtype=np.int64)[self.which if users is None else self.which[users]]

    def _along(self, axis: Axis, users: npt.NDArray[np.intp]) -> Ints:
        """For each of the records *users*, the number of its tile along *axis*."""
        return np.zeros(len(users), dtype=np.int64) if axis.dimension is None else self.axes[axis.dimension][users]

    def _in_slots(self, place: Place, users: npt.NDArray[np.intp]) -> Ints:
        """The offset of each buffer of the records *users*, in the ring that the buffer's command cuts it from."""
        slots = [_slots(command, place) for command in self.commands]
        base, nbytes, count, first = (
            self._each([getattr(each, name) for each in slots], users) for name in ("base", "nbytes", "count", "first")
        )
        number = (self.tile if place in (Place.INPUT_BUFFER, Place.REGISTERS) else self.mn)[users]
        return (first + number) % count * nbytes + base


def _slots(command: CommandInFlight, place: Place) -> Slots:
    placement = command.placement
    slots = {
        Place.INPUT_BUFFER: placement.input,
        Place.OUTPUT_BUFFER: placement.output,
        Place.REGISTERS: placement.registers,
        Place.ACCUMULATOR: placement.accumulators,
    }[place]
    assert slots is not None, f"a plan uses {place.name} without slots"
    return slots


def _texts(stage: StageTemplate, intern: Callable[[str], int]) -> tuple[int, int, int, int]:
    """The numbers of a stage's name, component and params, and of the params of a record that accumulates."""
    found = intern(stage.stage_type.name.lower()), intern(stage.component), intern(_params(stage, accumulate=False))
    sums = any(operand.role is Role.ACC for operand in stage.operands)
    return (*found, intern(_params(stage, accumulate=True)) if sums else 0)


def _params(stage: StageTemplate, accumulate: bool) -> str:
    attributes = stage.math or msgspec.structs.replace(stage.gemm, accumulate=accumulate)
    return msgspec.json.encode(attributes).decode()


def _padded(lists: list[list[int]]) -> Ints:
    """*lists* as the rows of a table, with -1 behind the shorter ones."""
    table = np.full((len(lists), max(map(len, lists))), -1, dtype=np.int64)
    for row, each in zip(table, lists, strict=True):
        row[: len(each)] = each
    return table
