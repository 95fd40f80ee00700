"""LazyParts: values that are computed at their first use, once for all threads."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar, cast

from kb_messages import KbError

_Part = TypeVar("_Part")


class LazyParts:
    """Keeps values by name. Threads that want one value wait for one computation, and not for that of another value."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._parts: dict[object, _LazyPart] = {}

    def part(self, name: object, make: Callable[[], _Part]) -> _Part:
        """Returns the value of *name*, which *make* computes at its first use. A KbError of *make* is raised at every
        use.

        *make* may use other parts, as long as none of them uses this one.
        """
        with self._lock:
            part = self._parts.setdefault(name, _LazyPart())
        return cast(_Part, part.get(make))

    def is_done(self) -> dict[object, bool]:
        """Whether each value that was asked for is there, in the order of the first requests."""
        with self._lock:
            return {name: part.is_done for name, part in self._parts.items()}


class _LazyPart:
    def __init__(self) -> None:
        self._lock = Lock()
        self._found: list[Any] = []

    @property
    def is_done(self) -> bool:
        return bool(self._found)

    def get(self, make: Callable[[], Any]) -> Any:
        with self._lock:
            if not self._found:
                try:
                    self._found.append(make())
                except KbError as error:
                    self._found.append(error)
        (found,) = self._found
        if isinstance(found, KbError):
            raise found.with_traceback(None)
        return found
