"""Adds up where tiles spent their time, while the op log is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kb_engine.observe import Observer
from kb_messages import StageType, WaitReason

SERVICE, QUEUE_FULL = "service", "queue_full"
_WAITS = {reason.name.lower(): f"wait_{reason.name.lower()}_ps" for reason in WaitReason}


class StageTally(Observer):
    """Adds up the times of all records by name of op. So nobody has to read the log again for these sums.

    Services that overlap count each.
    """

    def __init__(self) -> None:
        self._times: dict[str, dict[str, int]] = {}

    @property
    def stage_times(self) -> dict[str, dict[str, int]]:
        """Picoseconds by stage, in the order of a pipeline, and then of other ops by name.

        In service, waiting by reason, and held after the service: by a full queue, or by an earlier transfer of the
        channel.
        """
        stages = [stage.name.lower() for stage in StageType]
        order = [name for name in stages if name in self._times]
        return {name: self._times[name] for name in (*order, *sorted(self._times.keys() - order))}

    def on_chunk(self, ops: npt.NDArray[Any], strings: Sequence[str]) -> None:
        """Add the records of a chunk."""
        for index in np.unique(ops["name"]).tolist():
            totals = self._times.setdefault(strings[index], dict.fromkeys((SERVICE, *_WAITS, QUEUE_FULL), 0))
            mine = ops[ops["name"] == index]
            totals[SERVICE] += int((mine["t_end_ps"] - mine["t_start_ps"]).sum())
            totals[QUEUE_FULL] += int((mine["t_out_ps"] - mine["t_end_ps"]).sum())
            for reason, column in _WAITS.items():
                totals[reason] += int(mine[column].sum())
