"""The two tables of a chunk of the op log: one row an op, and one row an operand."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.formulas.command import LoggedCommand
from kb_dataexec.log.formulas.command_group import CommandGroup, structure
from kb_dataexec.log.formulas.group_texts import Ints
from kb_dataexec.log.formulas.operand_rows import fill_operand, pieces_rows
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE, OPS_DTYPE
from kb_messages import WaitReason

OwnersByPe = tuple[dict[str, int], dict[str, int]]
"""The owners of TCM and of registers, by PE id."""

_OPERAND_BYTES: Final = np.dtype((np.void, OPERAND_DTYPE.itemsize))
_RECORDED: Final = ("op_id", "t_ready_ps", "t_start_ps", "t_end_ps", "t_out_ps")


def ops_table(columns: Ints, waits: Ints) -> Array:
    """The ops with their ids, times and waits. *columns* and *waits* are rows as `row_formulas` says."""
    ops = np.zeros(len(columns), dtype=OPS_DTYPE)
    for number, name in enumerate(_RECORDED):
        ops[name] = columns[:, number]
    _fill_waits(ops, waits)
    return ops


def groups_of(
    op_ids: Ints, commands: Sequence[LoggedCommand], owners: OwnersByPe, intern: Callable[[str], int]
) -> list[CommandGroup]:
    """The records *op_ids* of a chunk, grouped by the structure of their commands, with all texts interned.

    *commands* has every command of the chunk, in the order of their op ids.
    """
    owner = np.searchsorted(np.array([command.first_op for command in commands]), op_ids, side="right") - 1
    seen = np.flatnonzero(np.bincount(owner, minlength=len(commands))).tolist()
    members, group_of, number_of = _by_structure(commands, seen)
    order = np.argsort(group_of[owner], kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(group_of[owner[order]])) + 1)
    groups = []
    for mine, rows in zip(members, parts, strict=True):
        pes = [command.submitted.pe for command in mine]
        of_pes = [owners[0][pe] for pe in pes], [owners[1].get(pe, 0) for pe in pes]
        groups.append(CommandGroup(mine, rows, number_of[owner[rows]], op_ids, of_pes))
    for at in seen:
        groups[group_of[at]].texts.intern(int(number_of[at]), intern)
    return groups


def operand_table(op_ids: Ints, groups: list[CommandGroup]) -> Array:
    """The operands of the records *op_ids*, in the order of these records."""
    counts = np.zeros(len(op_ids), dtype=np.int64)
    for group in groups:
        for template, mine in group.stages:
            if template.in_pieces:
                counts[group.rows[mine]] = len(template.operands)
                continue
            for operand in template.operands:
                counts[group.rows[group.users(operand, mine)]] += 1
    ends = np.cumsum(counts)
    table = np.empty(int(ends[-1]), dtype=OPERAND_DTYPE)
    table_bytes = table.view(_OPERAND_BYTES)
    scratch = np.empty(len(op_ids), dtype=OPERAND_DTYPE)
    scratch_bytes = scratch.view(_OPERAND_BYTES)
    free = ends - counts
    for group in groups:
        for stage, (template, mine) in enumerate(group.stages):
            if template.in_pieces:
                pieces = pieces_rows(template)
                for at in free[group.rows[mine]].tolist():
                    table[at : at + len(pieces)] = pieces
                continue
            for number, operand in enumerate(template.operands):
                users = group.users(operand, mine)
                if len(users):
                    rows = group.rows[users]
                    fill_operand(group, scratch[: len(users)], (stage, number), users)
                    table_bytes[free[rows]] = scratch_bytes[: len(users)]
                    free[rows] += 1
    table["op_id"] = np.repeat(op_ids, counts)
    return table


def _by_structure(
    commands: Sequence[LoggedCommand], seen: Sequence[int]
) -> tuple[list[list[LoggedCommand]], Ints, Ints]:
    """The commands numbered *seen* in groups, and for each command the number of its group and its place there."""
    members: list[list[LoggedCommand]] = []
    group_of, number_of = (np.zeros(len(commands), dtype=np.int64) for _ in range(2))
    known: dict[Hashable, int] = {}
    by_plan: dict[int, int] = {}  # commands may share a plan
    for at in seen:
        command = commands[at]
        plan = command.shared_plan
        group = by_plan.get(id(plan))
        if group is None:
            group = by_plan[id(plan)] = known.setdefault(structure(plan), len(members))
            if group == len(members):
                members.append([])
        group_of[at], number_of[at] = group, len(members[group])
        members[group].append(command)
    return members, group_of, number_of


def _fill_waits(ops: Array, waits: Ints) -> None:
    """Add up the waits of each op. The part of its time in the queue that no wait explains is its channel's."""
    channel = ops["t_start_ps"] - ops["t_ready_ps"]
    if len(waits):
        order = np.argsort(ops["op_id"], kind="stable")
        rows = order[np.searchsorted(ops["op_id"], waits[:, 0], sorter=order)]
        for reason in WaitReason:
            mine = waits[:, 1] == reason
            np.add.at(ops[f"wait_{reason.name.lower()}_ps"], rows[mine], waits[mine, 2])
            np.subtract.at(channel, rows[mine], waits[mine, 2])
    ops["wait_channel_ps"] = channel
