"""LaunchWork: how the launches of a script were simulated, all together."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from kb_cli.run.how_simulated import both, how_simulated
from kb_cli.run.result_parts import HowSimulated
from kb_engine import Engine


class LaunchWork:
    """Adds up what engines did. A script has one engine, and another one after each launch that failed."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._before: HowSimulated | None = None

    def add(self, engine: Engine) -> None:
        """A launch on *engine* has ended."""
        if self._engine is not None and engine is not self._engine:
            self._before = self._all()
        self._engine = engine

    @property
    def so_far(self) -> HowSimulated | UnsetType:
        """How all launches were simulated; missing without one."""
        return UNSET if self._engine is None else self._all()

    def _all(self) -> HowSimulated:
        assert self._engine is not None
        found = how_simulated(self._engine, is_noted=False)
        return found if self._before is None else both(self._before, found)
