"""The rows of the op log's operands, computed for all records of a group at once."""

from __future__ import annotations

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.formulas.address_arrays import addresses_of, owners_and_offsets
from kb_dataexec.log.formulas.command_group import CommandGroup, Positions
from kb_dataexec.log.formulas.group_texts import Ints
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE
from kb_messages import (
    Axis,
    MemorySpace,
    Place,
    StageTemplate,
    space_code_of,
)


def fill_operand(group: CommandGroup, part: Array, which: tuple[int, int], users: Positions) -> None:
    """Fill *part*, which has a row for each of the records *users*, with one operand of *group*.

    *which* is the number of the stage template and the number of its operand.
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
    """The rows of all operands of a DMA stage in pieces, which every tile moves alike."""
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
    """The length of each tile along *axis*, one number where all are equal. *numbers* are those of the tiles."""
    tile = np.int64(axis.tile)
    if axis.total % axis.tile == 0:
        return tile  # type: ignore[return-value]  # broadcasts as an array would
    lengths: Ints = np.minimum(tile, axis.total - numbers * tile)
    return lengths


def _in_slots(group: CommandGroup, place: Place, users: Positions) -> Ints:
    """The offset of each buffer of the records *users*: that of its slot, or the place to which it was moved."""
    base, nbytes, count, first = (group.each(each, users) for each in group.places.slots(place))
    number = _numbers(group, place)[users]
    offsets = (first + number) % count * nbytes + base
    for which, moved in group.places.moved(place):
        numbers, places = (np.array(each, dtype=np.int64) for each in zip(*sorted(moved.items()), strict=True))
        at = np.minimum(np.searchsorted(numbers, number), len(numbers) - 1)
        offsets = np.where((numbers[at] == number) & (group.which[users] == which), places[at], offsets)
    return offsets


def _numbers(group: CommandGroup, place: Place) -> Ints:
    """For each record, the number of its piece of *place* among those of its command."""
    if place is Place.PANEL:
        pieces: Ints = group.outer * group.commands[0].shared_plan.grid[2] + group.k
        return pieces
    return group.tile if place in (Place.INPUT_BUFFER, Place.REGISTERS) else group.mn
