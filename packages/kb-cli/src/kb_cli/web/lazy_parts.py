"""LazyParts: values that are computed when somebody first asks for them, once for all threads."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, TypeVar, cast

from kb_messages import KbError

_Part = TypeVar("_Part")


class LazyParts:
    """Keeps values by name. Several threads at once wait for one computation."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._parts: dict[object, Any] = {}

    def part(self, name: object, make: Callable[[], _Part]) -> _Part:
        """What *make* gave for *name*, now or before. A KbError that it raised is raised again for each who asks."""
        with self._lock:
            if name not in self._parts:
                try:
                    self._parts[name] = make()
                except KbError as error:
                    self._parts[name] = error
            found = self._parts[name]
        if isinstance(found, KbError):
            raise found.with_traceback(None)
        return cast(_Part, found)
