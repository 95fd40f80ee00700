"""Sums over what passes by: times of the stages as the log is written, bytes of the plans as they are issued."""

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
    """A writer that adds up, by name of op, where its records spent their time. No row is read twice."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._texts: dict[int, str] = {}
        self._totals: dict[int, dict[str, int]] = {}

    def intern(self, text: str) -> int:
        """As LogWriter's."""
        index = super().intern(text)
        self._texts[index] = text
        return index

    def append(self, ops: Rows, operands: Rows) -> None:
        """As LogWriter's."""
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
        """Picoseconds by stage: in service, waiting by reason, and done but kept by a full queue downstream."""
        return {self._texts[index]: totals for index, totals in sorted(self._totals.items())}

    @abstractmethod
    def written(self) -> OpLog:
        """The log, after `close`."""


class TallyingFolderWriter(TallyingWriter, FolderLogWriter):
    """Streams to *folder*, and reads the log back from there."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._written_to = folder

    def written(self) -> OpLog:
        """As TallyingWriter's."""
        return read_log(self._written_to)


class TallyingMemoryWriter(TallyingWriter, MemoryLogWriter):
    """Keeps the log."""

    def close(self) -> OpLog:
        """As MemoryLogWriter's."""
        self._log = super().close()
        return self._log

    def written(self) -> OpLog:
        """As TallyingWriter's."""
        return self._log


def new_writer(folder: Path | None) -> TallyingWriter:
    """A writer to *folder*, or without one to memory."""
    return TallyingMemoryWriter() if folder is None else TallyingFolderWriter(folder)
