"""Transfers of DMAs between PEs and memories, from an op log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_cli.trace.pairs import number_pairs
from kb_cli.trace.protobuf import Ints
from kb_dataexec import OpLog
from kb_dataexec.analysis import DmaOps
from kb_messages import StageType

READ: Final = StageType.DMA_READ.name.lower()
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
        """Returns the bytes that have moved at the times *t_ps*, which ascend. A service moves its bytes evenly."""
        end = np.maximum(self.end_ps, self.start_ps + 1)
        rate = self.nbytes / (end - self.start_ps)
        times = np.concatenate((self.start_ps, end))
        order = np.argsort(times, kind="stable")
        slope = np.cumsum(np.concatenate((rate, -rate))[order])
        times = times[order]
        moved = np.append(0, np.cumsum(slope[:-1] * np.diff(times)))
        found: Floats = np.interp(t_ps, times, moved)
        return found


def flows_of(log: OpLog, ops: DmaOps | None = None) -> Iterator[DmaFlow]:
    """Yields the flows of *log*, in an order that depends on its texts and memories alone.

    The fill values of a masked load come from the constants of the log and move nowhere. *ops* are the DMA ops of
    *log*, if the caller has them.
    """
    ops = DmaOps.of(log) if ops is None else ops
    kept = np.flatnonzero(ops.far.owner != _CONSTANTS)
    if not len(kept):
        return
    kept = kept[np.argsort(ops.row[kept], kind="stable")]
    start, end, owner, nbytes = (column[kept] for column in (ops.start_ps, ops.end_ps, *ops.far))
    owners, owner_number = np.unique(owner, return_inverse=True)
    servers = number_pairs(ops.component[kept], ops.name[kept])
    flows = number_pairs(servers.number, owner_number)
    order = np.argsort(flows.number, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(flows.number[order])) + 1)
    for (server, memory), rows in zip(flows.found, parts, strict=True):
        dma, stage = (log.strings[text] for text in servers.found[server])
        yield DmaFlow(dma, stage, int(owners[memory]), start[rows], end[rows], nbytes[rows])
