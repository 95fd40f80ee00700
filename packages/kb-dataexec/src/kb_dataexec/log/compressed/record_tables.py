"""Makes rows of the tables of a chunk, for all commands of a group at once: `ops`, `operands`, and auxiliary tables."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.compressed.command import CommandLike
from kb_dataexec.log.compressed.command_group import CommandGroup, Positions, structure
from kb_dataexec.log.compressed.compressed_rows import Table
from kb_dataexec.log.compressed.int_arrays import Ints, addresses_of, int64s, owners_and_offsets
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE, OPS_DTYPE, TABLE_DTYPES
from kb_messages import (
    LOG_TABLES,
    Axis,
    MemorySpace,
    Place,
    StageTemplate,
    WaitReason,
    space_code_of,
)


def fill_operand(group: CommandGroup, part: Array, which: tuple[int, int], users: Positions) -> None:
    """Fills *part*, which has a row for each of the records *users*, with one operand of *group*.

    *which* is (number of the stage template, number of its operand).
    """
    stage, number = which
    operand = group.stages[stage][0].operands[number]
    row, col = _along(group, operand.rows, users), _along(group, operand.cols, users)
    nbytes = operand.dtype.nbytes
    if operand.place is Place.MEMORY:
        of_operand = group.commands[0].shared_plan.address_numbers[which]
        owner, offset = (group.each(each[of_operand], users) for each in group.places.memories)
        part["owner"] = owner
        part["space"] = space_code_of(owner)
        within = row * (operand.rows.tile * operand.stride) + col * (operand.cols.tile * nbytes)
        part["offset"] = within + offset
    elif operand.place is Place.IMMEDIATE:
        part["owner"], part["space"] = 0, MemorySpace.IMMEDIATE.code
        part["offset"] = operand.base
    else:
        in_registers = operand.place in (Place.REGISTERS, Place.ACCUMULATOR, Place.HELD)
        part["owner"] = group.each(group.owners[in_registers], users)
        part["space"] = (MemorySpace.REG if in_registers else MemorySpace.TCM).code
        slots = 0 if operand.place is Place.HELD else _in_slots(group, operand.place, users)
        part["offset"] = slots + operand.base
    part["role"] = operand.role
    part["dtype"] = operand.dtype.info.code
    part["release"] = operand.release
    if operand.place is Place.PANEL and operand.release:
        part["release"] = group.inner[users] == group.inner_grid - 1
    part["rows"] = _lengths(operand.rows, row)
    part["row_nbytes"] = _lengths(operand.cols, col) * nbytes
    part["stride"] = operand.stride


def pieces_rows(template: StageTemplate) -> Array:
    """The rows of all operands of a DMA stage in pieces. They are equal for every tile."""
    operands = template.operands
    table = np.zeros(len(operands), dtype=OPERAND_DTYPE)
    base = addresses_of([each.base for each in operands])
    owner, offset = owners_and_offsets(base)
    is_constant = np.array([each.place is Place.IMMEDIATE for each in operands])
    owner = np.where(is_constant, 0, owner)
    distinct, index = np.unique(owner, return_inverse=True)
    spaces = np.array([space_code_of(each) for each in distinct.tolist()])[index.reshape(-1)]
    table["role"] = [each.role for each in operands]
    table["space"] = np.where(is_constant, MemorySpace.IMMEDIATE.code, spaces)
    table["dtype"] = operands[0].dtype.info.code
    table["owner"] = owner
    table["offset"] = np.where(is_constant, base, offset)
    table["rows"] = [each.rows.total for each in operands]
    table["row_nbytes"] = np.array([each.cols.total for each in operands]) * operands[0].dtype.nbytes
    table["stride"] = [each.stride for each in operands]
    return table


def _along(group: CommandGroup, axis: Axis, users: Positions) -> Ints:
    """For each of the records *users*, the number of its tile along *axis*."""
    return np.zeros(len(users), dtype=np.int64) if axis.dimension is None else group.axes[axis.dimension][users]


def _lengths(axis: Axis, numbers: Ints) -> Ints:
    """The length of each tile along *axis*, a scalar if all are equal. *numbers* are the numbers of the tiles."""
    tile = np.int64(axis.tile)
    if axis.total % axis.tile == 0:
        return tile  # type: ignore[return-value]  # broadcasts as an array would
    lengths: Ints = np.minimum(tile, axis.total - numbers * tile)
    return lengths


def _in_slots(group: CommandGroup, place: Place, users: Positions) -> Ints:
    """The offset of each buffer of the records *users*: the offset of its slot, or of the place it was moved to."""
    base, nbytes, count, first = (group.each(each, users) for each in group.places.slots(place))
    number = _numbers(group, place)[users]
    offsets = (first + number) % count * nbytes + base
    for which, moved in group.places.moved(place):
        numbers, places = (np.array(each, dtype=np.int64) for each in zip(*sorted(moved.items()), strict=True))
        at = np.minimum(np.searchsorted(numbers, number), len(numbers) - 1)
        offsets = np.where((numbers[at] == number) & (group.which[users] == which), places[at], offsets)
    return offsets


def _numbers(group: CommandGroup, place: Place) -> Ints:
    """For each record, the number of its piece of *place* within its command."""
    if place is Place.PANEL:
        pieces: Ints = group.outer * group.commands[0].shared_plan.grid[2] + group.k
        return pieces
    return group.tile if place in (Place.INPUT_BUFFER, Place.REGISTERS) else group.mn


OwnersByPe = tuple[dict[str, int], dict[str, int]]
"""The owners of TCM and of registers, by PE id."""

_OPERAND_BYTES: Final = np.dtype((np.void, OPERAND_DTYPE.itemsize))
_RECORDED: Final = ("op_id", "t_ready_ps", "t_start_ps", "t_end_ps", "t_out_ps")


def ops_table(columns: Ints, waits: Ints) -> Array:
    """Returns rows of `ops` with ids, times and waits filled. *columns* are rows of RECORDS, *waits* rows of WAITS."""
    ops = np.zeros(len(columns), dtype=OPS_DTYPE)
    for number, name in enumerate(_RECORDED):
        ops[name] = columns[:, number]
    _fill_waits(ops, waits)
    return ops


def groups_of(
    op_ids: Ints, commands: Sequence[CommandLike], owners: OwnersByPe, intern: Callable[[str], int]
) -> list[CommandGroup]:
    """Groups the records *op_ids* of a chunk by the structure of their commands, and interns all strings.

    *commands* are all commands of the chunk, in the order of their op ids.
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
    """Returns rows of `operands` for the records *op_ids*, in the order of these records."""
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
    # Rows are assigned as plain bytes: numpy would copy them field by field.
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


def _by_structure(commands: Sequence[CommandLike], seen: Sequence[int]) -> tuple[list[list[CommandLike]], Ints, Ints]:
    """The commands numbered *seen* in groups, and for each command the number of its group and its index there."""
    members: list[list[CommandLike]] = []
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
    """Adds up the waits of each op. Time in the queue that no wait explains counts as the wait for its channel."""
    channel = ops["t_start_ps"] - ops["t_ready_ps"]
    if len(waits):
        order = np.argsort(ops["op_id"], kind="stable")
        rows = order[np.searchsorted(ops["op_id"], waits[:, 0], sorter=order)]
        for reason in WaitReason:
            mine = waits[:, 1] == reason
            np.add.at(ops[f"wait_{reason.name.lower()}_ps"], rows[mine], waits[mine, 2])
            np.subtract.at(channel, rows[mine], waits[mine, 2])
    ops["wait_channel_ps"] = channel


_COMMAND_NUMBERS: Final = {
    "command_seq": "submitted.command_seq",
    "n_tiles": "shared_plan.n_tiles",
    "first_op_id": "first_op",
    "n_ops": "shared_plan.n_stages",
    **{name: name for name in LOG_TABLES["commands"].ascending},
    **{name: name for name in ("after_seq", "after", "operand_seq", "operand_ps")},
}
"""The columns of `commands` that are numbers, each with the attribute of CommandLike that has the number."""
_numbers_of: Final = attrgetter(*_COMMAND_NUMBERS.values())


def command_table(finished: Sequence[CommandLike], intern: Callable[[str], int]) -> Array:
    """Returns the rows of `commands` for the *finished* commands. *intern* returns the number of a string of the log.

    Raises LogError for a time that does not fit 64 bits.
    """
    found = int_columns(map(_numbers_of, finished), len(_COMMAND_NUMBERS))
    columns = dict(zip(_COMMAND_NUMBERS, found, strict=True))
    columns |= dict(zip(("pe", "line", "name"), int_columns(_texts_of(finished, intern), 3), strict=True))
    return table("commands", [columns[name] for name, _ in LOG_TABLES["commands"].columns])


def _texts_of(finished: Sequence[CommandLike], intern: Callable[[str], int]) -> Iterator[tuple[int, int, int]]:
    """The string numbers of PE, line and name of each of *finished*. Equal texts are looked up once."""
    known: dict[tuple[str, str, str], tuple[int, int, int]] = {}
    for each in finished:
        submitted = each.submitted
        texts = submitted.pe, submitted.line, each.shared_plan.kind
        numbers = known.get(texts)
        if numbers is None:
            numbers = known[texts] = intern(texts[0]), intern(texts[1]), intern(texts[2])
        yield numbers


def tile_tables(dispatches: Table, transfers: Table) -> dict[str, Array]:
    """Returns the tables `dispatches` and `transfers`. The first column of *transfers*, a time, is left out."""
    return {
        "dispatches": table("dispatches", list(dispatches.T)),
        "transfers": table("transfers", list(transfers.T[1:])),
    }


def int_columns(rows: Iterable[Iterable[int]], width: int) -> Sequence[Array]:
    """Returns the *width* columns of *rows* as int64. Raises LogError for a number that needs more than 64 bits."""
    return list(int64s(chain.from_iterable(rows)).reshape(-1, width).T)


def table(name: str, columns: Sequence[Array]) -> Array:
    """Returns the auxiliary table *name* as a structured array with *columns*, in the order of its schema."""
    rows = np.empty(len(columns[0]), TABLE_DTYPES[name])
    for column, values in zip(rows.dtype.names or (), columns, strict=True):
        rows[column] = values
    return rows
