"""`triton.knobs`: settings of Triton's compiler, which does not make what runs here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_GROUPS: Final = (
    "amd", "autotuning", "build", "cache", "compilation", "language", "nvidia", "proton", "redis", "runtime",
)  # fmt: skip


class Knobs:
    """A group of settings. Each may be set and read back, and does nothing; one that nobody has set is None."""

    @staticmethod
    def groups() -> dict[str, Knobs]:
        """A group for each of Triton's, by name."""
        return {name: Knobs() for name in _GROUPS}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    @contextmanager
    def scope(self) -> Iterator[None]:
        """After the block, the settings are what they were before it."""
        before = dict(vars(self))
        try:
            yield
        finally:
            vars(self).clear()
            vars(self).update(before)
