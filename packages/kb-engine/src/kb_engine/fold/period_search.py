"""PeriodSearch: finds two equal states of a simulation, at little cost.

A look at a state costs as much as some 30 stages, so most looks compare no more than the times to the next events.
Source of the order of looks: Brent, "An improved Monte Carlo factorization algorithm", BIT 20, 1980: one state is kept,
those that follow are compared with it, and it is replaced after twice as many looks each time. A state is kept only
where the times to the next events were so before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kb_engine.fold.state_look import StateLook

Signature = tuple[object, ...]
Take = Callable[[], "StateLook | None"]

_FIRST_LIMIT: Final = 2
_MOST_SEEN: Final = 1 << 12


class PeriodSearch:
    """Looks at every place of one kind, such as the begins of output tiles."""

    __slots__ = ("_kept", "_left", "_limit", "_quiet", "_seen", "_signature", "_wait")

    def __init__(self) -> None:
        self._kept: StateLook | None = None
        self._signature: Signature = ()
        self.restart()

    def restart(self) -> None:
        """Forget the state that is kept."""
        self._kept = None
        self._left = self._limit = _FIRST_LIMIT
        self._quiet, self._wait = 0, 1
        self._seen: set[Signature] = set()

    def earlier(self, signature: Signature) -> StateLook | None:
        """The state that is kept, if this one may be equal to it by *signature*."""
        if self._quiet:
            self._quiet -= 1
            return None
        return self._kept if self._signature == signature else None

    def false_alarm(self, look: StateLook) -> None:
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
