"""CycleSearch: finds two equal states among the last looks at a simulation, at little cost.

A look at a whole state is dear, so one is taken only where the times to the next events were so before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from kb_engine.fastforward.steady_state.tile_snapshot import TileSnapshot

LookT = TypeVar("LookT")

_MOST_LOOKS: Final = 8
"""Looks with equal times that are kept. Source: assumed; what takes turns, as ranges of TCM do, takes a few."""
_MOST_SIGNATURES: Final = 256


class CycleSearch(Generic[LookT]):
    """The looks so far, by the times to the next events."""

    def __init__(self) -> None:
        self._looks: dict[Signature, list[LookT]] = {}

    def restart(self) -> None:
        """Forget all looks."""
        self._looks.clear()

    def earlier(
        self, signature: Signature, take: Callable[[], LookT | None], is_equal: Callable[[LookT, LookT], bool]
    ) -> tuple[LookT, LookT] | None:
        """The last earlier look at a state that is that of now, and the look now; None without one."""
        known = self._looks.get(signature)
        if known is None:
            if len(self._looks) >= _MOST_SIGNATURES:
                self._looks.clear()
            self._looks[signature] = []
            return None
        look = take()
        if look is None:
            return None
        for earlier in reversed(known):
            if is_equal(earlier, look):
                return earlier, look
        known.append(look)
        del known[:-_MOST_LOOKS]
        return None


Signature = tuple[object, ...]
Take = Callable[[], "TileSnapshot | None"]

_FIRST_LIMIT: Final = 2
_MOST_SEEN: Final = 1 << 12


class TileCycleSearch:
    """Looks at every place of one kind, such as the begins of output tiles."""

    __slots__ = ("_kept", "_left", "_limit", "_quiet", "_seen", "_signature", "_wait")

    def __init__(self) -> None:
        self._kept: TileSnapshot | None = None
        self._signature: Signature = ()
        self.restart()

    def restart(self) -> None:
        """Forget the state that is kept."""
        self._kept = None
        self._left = self._limit = _FIRST_LIMIT
        self._quiet, self._wait = 0, 1
        self._seen: set[Signature] = set()

    def earlier(self, signature: Signature) -> TileSnapshot | None:
        """The state that is kept, if this one may be equal to it by *signature*."""
        if self._quiet:
            self._quiet -= 1
            return None
        return self._kept if self._signature == signature else None

    def false_alarm(self, look: TileSnapshot) -> None:
        """The state, *look*, was not equal: keep it instead, and wait twice as long before the next comparison."""
        self._kept = look
        self._quiet = self._wait
        self._wait *= 2

    def passes(self, signature: Signature, take: Take) -> None:
        """A state that was equal to none passes. Keep it if it is time to, and if its signature comes again."""
        self._left -= 1
        if self._kept is not None and self._left > 0:
            return
        if signature not in self._seen:
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            self._seen.add(signature)
            return
        look = take()
        if look is None:
            return
        if self._kept is not None:
            self._limit *= 2
        self._kept, self._signature, self._left = look, signature, self._limit
