"""ResultCache: what came of closed commands, by key, as far as it is kept."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

from kb_dataexec.log.compressed import CompressedTables
from kb_messages import Place

FlowCount = tuple[int, int, int, tuple[int, int], tuple[int, int]]
"""The number of the leg; bytes; transfers; and how long a read and a write take that meet nobody, as far as the op log
has a row of one, before the command and after."""


class IsolatedResult(NamedTuple):
    """What a command came to, in the terms of its footprint.

    Numbers are those of the footprint. `served` has a server, the picoseconds of its services, and their number;
    `requested` a memory, the picoseconds of its requests, and the bytes read and written. `ports_free` has a port of a
    memory, and `links_free` a link, with the picoseconds after the begin at which it is free again. `flows` has the
    transfers. `moved` are the pieces that lie in no slot, and `firsts` the first slots of the command's cuts, on which
    `moved` depends. `rows` is None without an op log.
    """

    duration_ps: int
    served: tuple[tuple[int, int, int], ...]
    requested: tuple[tuple[int, int, int, int], ...]
    ports_free: tuple[tuple[int, int], ...]
    links_free: tuple[tuple[int, int], ...]
    flows: tuple[FlowCount, ...]
    moved: dict[Place, dict[int, int]]
    firsts: tuple[int, ...]
    rows: CompressedTables | None


_MOST_NBYTES: Final = 1 << 28
"""Bytes of the rows of outcomes that are kept; those of the last key are kept in any case. Source: assumed; 256 MiB are
the rows of some 5 million stages that do not repeat."""


class ResultsOfKey:
    """The outcomes that commands with one key have had so far, and whether there was such a command."""

    def __init__(self) -> None:
        self.outcomes: list[IsolatedResult] = []
        self.was_seen = False

    def see(self) -> bool:
        """There is such a command. Whether there was one before."""
        before, self.was_seen = self.was_seen, True
        return before


class ResultCache:
    """The outcomes of closed commands. When their rows take *most_nbytes*, those that were last used longest ago go.

    Whoever needs a dropped outcome finds it out anew. Rows that are expected already stay with their command.
    """

    def __init__(self, most_nbytes: int = _MOST_NBYTES) -> None:
        self._most_nbytes = most_nbytes
        self._nbytes = 0
        self._by_key: dict[Hashable, ResultsOfKey] = {}
        self._large: dict[ResultsOfKey, int] = {}

    def of(self, key: Hashable) -> ResultsOfKey:
        """What is known of commands with *key*."""
        known = self._by_key.get(key)
        if known is None:
            known = self._by_key[key] = ResultsOfKey()
        return known

    def keep(self, known: ResultsOfKey, outcome: IsolatedResult) -> None:
        """*outcome* is one of *known*."""
        nbytes = 0 if outcome.rows is None else outcome.rows.nbytes
        known.outcomes.append(outcome)
        self._nbytes += nbytes
        self._large[known] = self._large.pop(known, 0) + nbytes
        while self._nbytes > self._most_nbytes and len(self._large) > 1:
            oldest = next(iter(self._large))
            self._nbytes -= self._large.pop(oldest)
            oldest.outcomes.clear()

    def use(self, known: ResultsOfKey) -> None:
        """An outcome of *known* was needed just now. It may have been dropped since whoever needs it took it."""
        nbytes = self._large.pop(known, None)
        if nbytes is not None:
            self._large[known] = nbytes
