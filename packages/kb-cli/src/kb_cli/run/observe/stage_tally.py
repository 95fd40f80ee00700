"""Adds up the times of tiles by stage, while the op log is read."""

from __future__ import annotations

from typing import Final

import numpy as np

from kb_dataexec import OpLog
from kb_messages import StageType, WaitReason

SERVICE, QUEUE_FULL = "service", "queue_full"
_WAITS = {reason.name.lower(): f"wait_{reason.name.lower()}_ps" for reason in WaitReason}
_ROWS: Final = 1 << 16
"""The number of records whose columns are copied at a time. Source: assumed; 8 MB."""


class StageTally:
    """Adds up the times of all records by name of op. A reader of the log passes each chunk to `look`.

    Services that overlap count each.
    """

    def __init__(self) -> None:
        self._times: dict[str, dict[str, int]] = {}

    @property
    def stage_times(self) -> dict[str, dict[str, int]]:
        """Picoseconds by stage, in the order of a pipeline, and then of other ops by name.

        Each stage has its time in service, its waits by reason, and the time it was held after the service, by a full
        queue or by an earlier transfer of the channel.
        """
        stages = [stage.name.lower() for stage in StageType]
        order = [name for name in stages if name in self._times]
        return {name: self._times[name] for name in (*order, *sorted(self._times.keys() - order))}

    def look(self, chunk: OpLog) -> None:
        """Adds the records of *chunk*, a part of a log or a whole one."""
        for low in range(0, chunk.n_ops, _ROWS):
            ops = chunk.ops[low : low + _ROWS]
            for index in np.unique(ops["name"]).tolist():
                totals = self._times.setdefault(chunk.strings[index], dict.fromkeys((SERVICE, *_WAITS, QUEUE_FULL), 0))
                mine = ops[ops["name"] == index]
                totals[SERVICE] += int((mine["t_end_ps"] - mine["t_start_ps"]).sum())
                totals[QUEUE_FULL] += int((mine["t_out_ps"] - mine["t_end_ps"]).sum())
                for reason, column in _WAITS.items():
                    totals[reason] += int(mine[column].sum())
