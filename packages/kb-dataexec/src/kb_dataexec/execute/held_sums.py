"""Which registers a log shares between commands: those of sums that a command leaves for the next one."""

from __future__ import annotations

from typing import Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_messages import MemorySpace, Role

_RECTANGLE: Final = "owner", "offset", "rows", "row_nbytes", "stride"


def held_between_commands(rows: Array, command_seq: Array, listed: Array) -> Array:
    """Whether each of *rows*, operands of the commands *command_seq*, lies in registers of a sum that is held.

    A command holds a sum for others if it does not release the registers that it wrote, or reads registers that it did
    not write. Rows that are not *listed* tell nothing; they belong to commands whose records are not complete.
    """
    found = np.zeros(len(rows), bool)
    at = np.flatnonzero((rows["space"] == MemorySpace.REG.code) & listed)
    if not len(at):
        return found
    registers, seqs = rows[at], command_seq[at]
    columns = [registers[name] for name in _RECTANGLE]
    order = np.lexsort((registers["op_id"], *columns, seqs))
    keys = np.stack([seqs, *columns])[:, order]
    opens = np.append(True, (np.diff(keys) != 0).any(axis=0))
    first, last = order[opens], order[np.append(opens[1:], True)]
    is_held = ~np.isin(registers["role"][first], [role for role in Role if role.is_write])
    is_held |= registers["release"][last] == 0
    ends = registers["offset"] + (registers["rows"] - 1) * registers["stride"] + registers["row_nbytes"]
    sums = {(int(registers["owner"][n]), int(registers["offset"][n]), int(ends[n])) for n in first[is_held]}
    meets = np.zeros(len(at), bool)
    for owner, start, end in sorted(sums):
        meets |= (registers["owner"] == owner) & (registers["offset"] < end) & (ends > start)
    found[at] = meets
    return found
