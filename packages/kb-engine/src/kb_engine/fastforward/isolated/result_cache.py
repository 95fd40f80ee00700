"""ResultCache: the results of isolated commands, by key.

Design: docs/design/isolated-commands.md
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

from kb_dataexec.log.compressed import CompressedTables
from kb_messages import Place

FlowCount = tuple[int, int, int, tuple[int, int], tuple[int, int]]
"""The number of the leg, the bytes and the count of transfers, and the times of an uncontended read and write before
the command and after. A time is -1 without a row in the op log."""


class IsolatedResult(NamedTuple):
    """The result of a command that ran apart, relative to its begin.

    Parts have their numbers in the footprint. `served` has a server, the picoseconds of its services, and their number;
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
"""The bytes of the rows of all cached results. The results of the last key stay in any case. Source: assumed; 256 MiB
hold the rows of some 5 million stages that do not repeat."""


class CachedResults:
    """The cached results of commands with one key, and whether there was such a command."""

    def __init__(self) -> None:
        self.results: list[IsolatedResult] = []
        self.was_seen = False

    def see(self) -> bool:
        """Notes a command with the key. Returns whether there was one before."""
        before, self.was_seen = self.was_seen, True
        return before


class ResultCache:
    """Keeps the results of isolated commands. When their rows exceed *most_nbytes*, the least recently used ones go.

    A dropped result is simulated anew when a command needs it. Rows that the recorder expects stay with their command.
    """

    def __init__(self, most_nbytes: int = _MOST_NBYTES) -> None:
        self._most_nbytes = most_nbytes
        self._nbytes = 0
        self._by_key: dict[Hashable, CachedResults] = {}
        self._large: dict[CachedResults, int] = {}

    def of(self, key: Hashable) -> CachedResults:
        """Returns the cached results for *key*."""
        cached = self._by_key.get(key)
        if cached is None:
            cached = self._by_key[key] = CachedResults()
        return cached

    def keep(self, cached: CachedResults, result: IsolatedResult) -> None:
        """Adds *result* to *cached*."""
        nbytes = 0 if result.rows is None else result.rows.nbytes
        cached.results.append(result)
        self._nbytes += nbytes
        self._large[cached] = self._large.pop(cached, 0) + nbytes
        while self._nbytes > self._most_nbytes and len(self._large) > 1:
            oldest = next(iter(self._large))
            self._nbytes -= self._large.pop(oldest)
            oldest.results.clear()

    def use(self, cached: CachedResults) -> None:
        """Notes a use of *cached*. Its results may have been dropped since the caller took them."""
        nbytes = self._large.pop(cached, None)
        if nbytes is not None:
            self._large[cached] = nbytes
