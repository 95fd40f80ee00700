"""What DMAs moved between PEs and memories, from an op log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_cli.trace.pairs import number_pairs
from kb_cli.trace.protobuf import Ints
from kb_dataexec import OpLog
from kb_messages import Role, StageType

READ, WRITE = (stage.name.lower() for stage in (StageType.DMA_READ, StageType.DMA_WRITE))
_FAR_END: Final = {READ: Role.SRC, WRITE: Role.DST}
"""The role of the operand that lies in the memory."""

_CONSTANTS: Final = 0
"""The owner of the constants of a log."""

Floats = npt.NDArray[np.float64]


class DmaFlow(NamedTuple):
    """All transfers of one stage of the DMA *dma*, the id of a node, that read or write the memory *owner*.

    The arrays are of one length: begin and end of the DMA's service, and the bytes of the memory.
    """

    dma: str
    stage: str
    owner: int
    start_ps: Ints
    end_ps: Ints
    nbytes: Ints

    def moved_until(self, t_ps: Ints) -> Floats:
        """The bytes that have moved at the times *t_ps*, which ascend. A service moves its bytes evenly."""
        end = np.maximum(self.end_ps, self.start_ps + 1)
        rate = self.nbytes / (end - self.start_ps)
        times = np.concatenate((self.start_ps, end))
        order = np.argsort(times, kind="stable")
        slope = np.cumsum(np.concatenate((rate, -rate))[order])
        times = times[order]
        moved = np.append(0, np.cumsum(slope[:-1] * np.diff(times)))
        found: Floats = np.interp(t_ps, times, moved)
        return found


def flows_of(log: OpLog) -> Iterator[DmaFlow]:
    """The flows of *log*, in an order that depends on its texts and memories alone."""
    stages = [log.strings.index(stage) for stage in (READ, WRITE) if stage in log.strings]
    ops = log.ops[np.isin(log.ops["name"], stages)]
    nbytes, owner = _far_ends(ops, log) if len(ops) else (np.empty(0, np.int64), np.empty(0, np.int64))
    of_memory = owner != _CONSTANTS
    ops, nbytes, owner = ops[of_memory], nbytes[of_memory], owner[of_memory]
    if not len(ops):
        return
    owners, owner_number = np.unique(owner, return_inverse=True)
    servers = number_pairs(ops["component"], ops["name"])
    flows = number_pairs(servers.number, owner_number)
    order = np.argsort(flows.number, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(flows.number[order])) + 1)
    start, end = np.ascontiguousarray(ops["t_start_ps"]), np.ascontiguousarray(ops["t_end_ps"])
    for (server, memory), rows in zip(flows.found, parts, strict=True):
        dma, stage = (log.strings[text] for text in servers.found[server])
        yield DmaFlow(dma, stage, int(owners[memory]), start[rows], end[rows], nbytes[rows])


def _far_ends(ops: npt.NDArray[Any], log: OpLog) -> tuple[Ints, Ints]:
    """For each of *ops*, the bytes of its operands in the memory, and the owner of that memory.

    What a masked load fills in comes from the constants of the log and moves nowhere. An op of these alone has their
    owner.
    """
    roles = np.full(len(log.strings), -1)
    for stage, role in _FAR_END.items():
        if stage in log.strings:
            roles[log.strings.index(stage)] = role
    at, row = _operands_of(np.ascontiguousarray(ops["op_id"]), log)
    far = log.operands["role"][at] == roles[ops["name"]][row]
    far &= log.operands["owner"][at] != _CONSTANTS
    at, row = at[far], row[far]
    columns = log.operands["rows"][at], log.operands["row_nbytes"][at]
    nbytes = np.bincount(row, columns[0] * columns[1], len(ops)).astype(np.int64)
    owner = np.full(len(ops), _CONSTANTS, np.int64)
    owner[row] = log.operands["owner"][at]
    return nbytes, owner


def _operands_of(ids: Ints, log: OpLog) -> tuple[Ints, Ints]:
    """The rows of the operands of the ops *ids*, and for each of them the place of its op among *ids*."""
    wanted = np.ascontiguousarray(log.operands["op_id"])
    by_id = np.argsort(ids, kind="stable")
    ordered = ids[by_id]
    place = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    at = np.flatnonzero(ordered[place] == wanted)
    return at, by_id[place[at]]
