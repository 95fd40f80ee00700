"""The host's streams in a log: the waits of kernels apart from those of streams, and the calls of launches.

Design: docs/design/launch-and-host.md
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_messages import HostCallKind, SyncReason


def of_programs(waits: Array) -> Array:
    """Returns the rows of the table *waits* in which a kernel waits for another program of its launch."""
    rows: Array = waits[waits["reason"] <= SyncReason.BARRIER]
    return rows


def of_streams(waits: Array) -> Array:
    """Returns the rows of the table *waits* in which a launch waits for a PE, or a stream for an event."""
    rows: Array = waits[waits["reason"] > SyncReason.BARRIER]
    return rows


class LaunchCall(NamedTuple):
    """The call of a stream that launched, and the launch before it in the stream; -1 for none.

    The driver called at `called_ps` and had made the call at `made_ps`. The launch left the host at `sent_ps`.
    """

    number: int
    before: int
    called_ps: int
    made_ps: int
    sent_ps: int

    @classmethod
    def of(cls, calls: Array, launch: int) -> LaunchCall | None:
        """Returns the call of *launch* among the table *calls*; None for a launch without a stream."""
        launches = calls[calls["call_kind"] == HostCallKind.LAUNCH]
        mine = launches[launches["launch"] == launch]
        if not len(mine):
            return None
        row = mine[0]
        earlier = launches[(launches["stream"] == row["stream"]) & (launches["number"] < row["number"])]
        before = int(earlier["launch"][np.argmax(earlier["number"])]) if len(earlier) else -1
        return cls(int(row["number"]), before, *(int(row[name]) for name in ("t_called_ps", "t_made_ps", "t_start_ps")))
