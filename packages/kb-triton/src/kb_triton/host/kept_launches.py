"""Launches that repeat others: what they do follows from their key, so they are not simulated.

Each launch finds the chip as it was built (`Engine.rebase`) and its arrays at places that follow from their sizes. So
equal kernels with equal arguments write equal op logs, unless they decide by bytes or by addresses of this process.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

from kb_dataexec import OpLog

_MOST_NBYTES: Final = 1 << 27
"""Of the launches that are kept. Source: assumed; a record takes 0.3 kB."""
_OWN_NBYTES: Final = 1 << 12
"""Of the key, the texts and the objects of a launch. Source: 3.1 kB over 4,000 launches of a kernel with 4 records."""


class KeptLaunch(NamedTuple):
    """What a launch did: the rows that pass 2 executes, and the picoseconds that it took."""

    log: OpLog
    took_ps: int

    @classmethod
    def of(cls, log: OpLog, took_ps: int) -> KeptLaunch:
        """The launch that wrote *log*, without the rows that pass 2 does not need."""
        return cls(OpLog(log.ops, log.operands, log.strings, log.immediates), took_ps)

    @property
    def nbytes(self) -> int:
        """Bytes that the launch takes, about."""
        return _OWN_NBYTES + self.log.ops.nbytes + self.log.operands.nbytes + len(self.log.immediates)


class KeptLaunches:
    """The launches that took place last, by their keys."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, KeptLaunch] = {}
        self._nbytes = 0

    def find(self, key: Hashable) -> KeptLaunch | None:
        """The launch with *key*, which is now the last one."""
        found = self._kept.pop(key, None)
        if found is not None:
            self._kept[key] = found
        return found

    def keep(self, key: Hashable, launch: KeptLaunch) -> None:
        """*launch* with *key*, which is not known, took place. Those go that were used longest ago."""
        self._kept[key] = launch
        self._nbytes += launch.nbytes
        while self._nbytes > _MOST_NBYTES:
            self._nbytes -= self._kept.pop(next(iter(self._kept))).nbytes
