"""Log writers that add up where the tiles spent their time, while the log is written."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kb_dataexec import FolderLogWriter, LogWriter, MemoryLogWriter, OpLog, read_log
from kb_messages import WaitReason

Rows = npt.NDArray[Any]
SERVICE, QUEUE_FULL = "service", "queue_full"
_WAITS = {reason.name.lower(): f"wait_{reason.name.lower()}_ps" for reason in WaitReason}


class TallyingWriter(LogWriter):
    """A writer that adds up the times of its records by name of op, so that the log is not read again for them."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._texts: dict[int, str] = {}
        self._totals: dict[int, dict[str, int]] = {}

    def intern(self, text: str) -> int:
        """As in LogWriter."""
        index = super().intern(text)
        self._texts[index] = text
        return index

    def append(self, ops: Rows, operands: Rows) -> None:
        """As in LogWriter."""
        for index in np.unique(ops["name"]).tolist():
            totals = self._totals.setdefault(index, dict.fromkeys((SERVICE, *_WAITS, QUEUE_FULL), 0))
            mine = ops[ops["name"] == index]
            totals[SERVICE] += int((mine["t_end_ps"] - mine["t_start_ps"]).sum())
            totals[QUEUE_FULL] += int((mine["t_out_ps"] - mine["t_end_ps"]).sum())
            for reason, column in _WAITS.items():
                totals[reason] += int(mine[column].sum())
        super().append(ops, operands)

    @property
    def stage_times(self) -> dict[str, dict[str, int]]:
        """Picoseconds by stage: in service, waiting by reason, and held by a full queue after the service."""
        return {self._texts[index]: totals for index, totals in sorted(self._totals.items())}

    @abstractmethod
    def written(self) -> OpLog:
        """The complete log. Call this after `close`."""


class TallyingFolderWriter(TallyingWriter, FolderLogWriter):
    """A writer that streams to *folder*, and reads the log back from there."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._written_to = folder

    def written(self) -> OpLog:
        """As in TallyingWriter."""
        return read_log(self._written_to)


class TallyingMemoryWriter(TallyingWriter, MemoryLogWriter):
    """A writer that keeps the log in memory."""

    def close(self) -> OpLog:
        """As in MemoryLogWriter."""
        self._log = super().close()
        return self._log

    def written(self) -> OpLog:
        """As in TallyingWriter."""
        return self._log


def new_writer(folder: Path | None) -> TallyingWriter:
    """A writer to *folder*, or to memory when *folder* is None."""
    return TallyingMemoryWriter() if folder is None else TallyingFolderWriter(folder)
