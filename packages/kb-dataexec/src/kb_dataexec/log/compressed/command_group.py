"""CommandGroup: fills the columns of a chunk of the op log for many commands at once.

Commands form a group if their plans differ only in addresses and blocks, as the loads of a loop do. Their stages and
the shapes of their operands are equal, so one numpy expression fills a column for the whole group. GroupTexts has the
strings of a group, and GroupPlaces has the buffer slots and addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.compressed.command import CommandLike, SlotRing
from kb_dataexec.log.compressed.int_arrays import Ints, addresses_of, owners_and_offsets
from kb_messages import (
    OperandTemplate,
    OpKind,
    PipelinePlan,
    Place,
    Role,
    StageTemplate,
    StageType,
    When,
)

_Texts = tuple[int, int, int, int, int]


class GroupTexts:
    """The strings of *commands* (lines, names, components and params), by number. Each combination is interned once.

    `present[command, stage]` is True if that stage of the command has records. Strings of other stages do not enter the
    log. A stage without a line has the line of its command.
    """

    def __init__(self, commands: Sequence[CommandLike], present: npt.NDArray[np.bool_]) -> None:
        self._commands = commands
        self._present = present
        self._rows: list[list[_Texts]] = []
        self._row_of = np.zeros(len(commands), dtype=np.int64)
        self._known: dict[Hashable, int] = {}
        self._presence = None if present.all() else [each.tobytes() for each in present]

    def intern(self, number: int, intern: Callable[[str], int]) -> None:
        """Interns the strings of command *number*.

        Call it in the order of op ids, so that strings are numbered in it.
        """
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
        """Returns five string numbers for each record: name, component, params, params if it accumulates, and line.

        *which* has the number of the command of each record, and *stage* the number of its stage template. The result
        has shape (records, 5).
        """
        return np.array(self._rows, dtype=np.int64)[self._row_of[which], stage]


def _texts(stage: StageTemplate, line: str, intern: Callable[[str], int]) -> _Texts:
    """The five string numbers of a stage, in the order of `of_records`. *line* is the line of the command."""
    found = intern(stage.stage_type.name.lower()), intern(stage.component), intern(_params(stage, accumulate=False))
    sums = any(operand.role is Role.ACC for operand in stage.operands)
    return (*found, intern(_params(stage, accumulate=True)) if sums else 0, intern(stage.line or line))


def intern_texts(plan: PipelinePlan, line: str, intern: Callable[[str], int]) -> None:
    """Interns all strings of a command with *plan* issued by kernel line *line*: its own, and those of its stages."""
    intern(line)
    intern(plan.kind)
    for number in plan.served:
        _texts(plan.stages[number], line, intern)


def intern_blocks(plan: PipelinePlan, intern: Callable[[str], int]) -> None:
    """Interns the block names of *plan*.

    They are all strings that are new, if `intern_texts` was called for a plan of the same `origin` and kernel line:
    plans of one origin differ in blocks and addresses alone.
    """
    for number in plan.served:
        intern(plan.stages[number].component)


def _params(stage: StageTemplate, accumulate: bool) -> str:
    if stage.in_pieces:
        return '{"in_pieces":true}'
    attributes = stage.math or msgspec.structs.replace(stage.gemm, accumulate=accumulate)
    return msgspec.json.encode(attributes).decode()


_SLOTS_OF: Final = {
    place: attrgetter(f"placement.{name}")
    for place, name in (
        (Place.INPUT_BUFFER, "input"),
        (Place.PANEL, "panel"),
        (Place.OUTPUT_BUFFER, "output"),
        (Place.REGISTERS, "registers"),
        (Place.ACCUMULATOR, "accumulators"),
    )
}


class GroupPlaces:
    """The operand addresses and buffer slots of *commands*, which have one structure, as arrays with a column for each
    command. An array is made when it is first asked for."""

    def __init__(self, commands: Sequence[CommandLike]) -> None:
        self._commands = commands
        self._slots: dict[Place, Ints] = {}
        self._moved: dict[Place, list[tuple[int, Mapping[int, int]]]] = {}

    @cached_property
    def addresses(self) -> npt.NDArray[Any]:
        """The addresses of operands in memory, of shape (operands, commands)."""
        return addresses_of([command.addresses or command.shared_plan.addresses for command in self._commands]).T

    @cached_property
    def memories(self) -> tuple[Ints, Ints]:
        """The owners and the offsets of operands in memory, each of shape (operands, commands)."""
        return owners_and_offsets(self.addresses)

    def slots(self, place: Place) -> Ints:
        """The slots of *place*, of shape (4, commands): base, nbytes, count and first."""
        known = self._slots.get(place)
        if known is None:
            rows: dict[int, tuple[int, int, int, int]] = {}
            found = []
            for slots in map(_SLOTS_OF[place], self._commands):
                row = rows.get(id(slots))
                if row is None:
                    row = rows[id(slots)] = _numbers(slots, place)
                found.append(row)
            known = self._slots[place] = np.array(found, dtype=np.int64).T
        return known

    def moved(self, place: Place) -> list[tuple[int, Mapping[int, int]]]:
        """The commands with pieces of *place* outside slots: (number of the command, offset in bytes by piece)."""
        known = self._moved.get(place)
        if known is None:
            found = ((number, each.placement.moved.get(place)) for number, each in enumerate(self._commands))
            known = self._moved[place] = [(number, pieces) for number, pieces in found if pieces]
        return known


def _numbers(slots: SlotRing | None, place: Place) -> tuple[int, int, int, int]:
    assert slots is not None, f"a plan uses {place.name} without slots"
    return slots.base, slots.nbytes, slots.count, slots.first


Positions = npt.NDArray[np.intp]
Owners = tuple[list[int], list[int]]
"""For each command, the owners of the TCM and of the registers of its PE."""


def structure(plan: PipelinePlan) -> Hashable:
    """A key that is equal for two plans if their records differ only in addresses and blocks.

    A plan of pieces has a key of its own, because its records are not filled operand by operand.
    """
    if plan.stages[0].in_pieces:
        return id(plan)
    return (
        plan.grid,
        plan.loop_order,
        tuple(
            (
                stage.stage_type,
                stage.when,
                stage.math,
                stage.math and repr(stage.math.scalars),  # -0.0 equals 0.0
                stage.gemm,
                tuple(
                    (o.role, o.place, o.rows, o.cols, o.stride, o.dtype, o.release, o.when, o.place and o.base)
                    for o in stage.operands
                ),
            )
            for stage in plan.stages
        ),
    )


def _kind(template: StageTemplate) -> OpKind:
    """The kind of a record. An atomic is MATH, because it is a function of bytes in memory."""
    if template.math is not None:
        return OpKind.MATH
    return OpKind.GEMM if template.stage_type is StageType.GEMM else OpKind.MEMORY


class CommandGroup:
    """The records in a chunk of *commands*, which have one structure.

    `rows` are the positions of the group's records in the chunk, and `which` numbers the command of each record.
    `stages` pairs each stage template of the first command with the positions of its records within the group. `mn`,
    `k`, `tile`, `outer` and `inner` are the coordinates of each record's tile in the grid of the plan. The inner loop
    has `inner_grid` turns. `position` is the index of the stage within its tile. `places` has the addresses and slots
    of the operands.
    """

    def __init__(self, commands: list[CommandLike], rows: Positions, which: Ints, op_ids: Ints, owners: Owners) -> None:
        plan = commands[0].shared_plan
        _, n_grid, k_grid = plan.grid
        self.rows = rows
        self.commands = commands
        self.which = which
        self.owners = owners
        nth = op_ids[rows] - self.each([command.first_op for command in commands])
        if nth.max(initial=0) >= plan.n_stages:
            raise IndexError(f"op {int(op_ids[rows][nth.argmax()])}, which is behind the last op of its command")
        order = plan.loop_order
        self.inner_grid = order.outer_first(plan.grid[0], n_grid)[1]
        self.mn, rest, is_later = _sums_of(plan, nth, self.inner_grid)
        # The stages of the first tile over K, a middle one, the last one; then the same for tiles that fill no panel.
        variants = [plan.stages_at(k, fills_none) for fills_none in (False, True) for k in (0, 1, k_grid - 1)]
        sizes = np.array([len(each) for each in variants])
        first, later = sizes[3 * is_later], sizes[3 * is_later + 1]
        self.k = np.clip((rest - first) // later + 1, 0, k_grid - 1)
        self.position = rest - np.where(self.k > 0, first + (self.k - 1) * later, 0)
        self.tile = self.mn * k_grid + self.k
        self.outer, self.inner = np.divmod(self.mn, self.inner_grid)
        self.axes = (*order.outer_first(self.outer, self.inner), self.k)
        variant = np.where(self.k == 0, 0, np.where(self.k == k_grid - 1, 2, 1)) + 3 * is_later
        self.stage = _padded(variants)[variant, self.position]
        self.stages = [(template, np.flatnonzero(self.stage == number)) for number, template in enumerate(plan.stages)]
        present = np.bincount(which * len(plan.stages) + self.stage, minlength=len(commands) * len(plan.stages))
        self.texts = GroupTexts(commands, (present > 0).reshape(len(commands), -1))
        self.places = GroupPlaces(commands)

    def fill_ops(self, ops: Array) -> None:
        """Fills every column of the group's rows of *ops* except ids, times and waits."""
        rows, texts = self.rows, self.texts.of_records(self.which, self.stage)
        ops["command_seq"][rows] = self.each([command.submitted.command_seq for command in self.commands])
        ops["tile_id"][rows] = self.tile
        ops["line"][rows] = texts[:, 4]
        ops["stage_index"][rows] = self.position
        kinds = [_kind(template) for template, _ in self.stages]
        ops["kind"][rows] = np.array(kinds)[self.stage]
        for column, name in enumerate(("name", "component", "params")):
            ops[name][rows] = texts[:, column]
        for template, mine in self.stages:
            for operand in template.operands:
                if operand.role is Role.ACC:
                    summing = self.users(operand, mine)
                    ops["params"][rows[summing]] = texts[summing, 3]

    def users(self, operand: OperandTemplate, mine: Positions) -> Positions:
        """The records among *mine*, all of one stage, that have *operand*.

        The first product of a sum reads no accumulator.
        """
        if operand.when is When.EVERY_TILE:
            return mine
        k = self.k[mine]
        last = self.commands[0].shared_plan.grid[2] - 1
        held: npt.NDArray[np.bool_] = {When.LAST_K: k == last, When.FIRST_K: k == 0, When.LATER_K: k > 0}[operand.when]
        return mine[held]

    def each(self, values: Sequence[int] | Ints, users: Positions | None = None) -> Ints:
        """For each record, or each of *users*, the value of its command. A group of one command returns a scalar."""
        if len(values) == 1:
            return np.int64(values[0])  # type: ignore[return-value]  # broadcasts as an array would
        return np.asarray(values, dtype=np.int64)[self.which if users is None else self.which[users]]


def _sums_of(plan: PipelinePlan, nth: Ints, inner_grid: int) -> tuple[Ints, Ints, Ints]:
    """Returns three arrays as long as *nth*, numbers of stage services of *plan*.

    The first array has the number of the output tile. The second has the number of the service within its output tile.
    The third is 1 for output tiles behind the first one along the inner loop of a plan with panels, and 0 for others.
    """
    if not plan.has_panels:
        mn, rest = np.divmod(nth, plan.n_stages // (plan.grid[0] * plan.grid[1]))
        return mn, rest, np.zeros_like(nth)
    later = sum(plan.tiles_with(stage.when) for stage in plan.stages if not stage.fills_panel)
    first = sum(plan.tiles_with(stage.when) for stage in plan.stages)
    outer, rest = np.divmod(nth, first + (inner_grid - 1) * later)
    inner = np.where(rest < first, 0, 1 + (rest - first) // later)
    rest = np.where(inner > 0, (rest - first) % later, rest)
    return outer * inner_grid + inner, rest, (inner > 0).astype(np.int64)


def _padded(lists: list[list[int]]) -> Ints:
    """Returns *lists* as the rows of a matrix. Shorter rows end with -1."""
    table = np.full((len(lists), max(map(len, lists))), -1, dtype=np.int64)
    for row, each in zip(table, lists, strict=True):
        row[: len(each)] = each
    return table
