"""ResultCache: what came of closed commands, by key, as far as it is kept."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from kb_engine.fastforward.isolated.isolated_result import IsolatedResult

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
