"""LogParts: a log as logs of some of its records, which follow each other in the order of pass 2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kb_dataexec.log.tables import OpLog


class LogParts(Protocol):
    """What pass 2 needs of a log: an OpLog is its only part, and a CommandLog makes one part after the other."""

    @property
    def n_ops(self) -> int:
        """The number of records."""

    @property
    def immediates(self) -> bytes:
        """The blob of immediates: the bytes of constants."""

    def parts(self, backwards: bool = False) -> Iterator[OpLog]:
        """Logs of records that follow each other in the order of pass 2; *backwards*, the last ones first."""
