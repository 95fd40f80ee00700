"""LazyOpLog: an op log in memory whose rows are made when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from threading import Lock, RLock
from typing import Any, Final

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.tables import OpLog
from kb_messages import LogError

_SETTLING: Final = RLock()
"""Held while the rows of a log are made, so that two threads do not make them both."""


class LazyOpLog(OpLog):
    """The log that *make* gives, as if it were that log. *make* is called once, when an attribute is asked for.

    Where *make* fails, its error is raised, and later looks raise a LogError.
    """

    def __init__(self, make: Callable[[], OpLog]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:
        """Called for what is not there yet."""
        if name.startswith("__") or name == "_make":
            raise AttributeError(name)
        self.settle()
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getstate__(self) -> dict[str, Any]:
        """The rows, where the log is copied or sent to another process."""
        self.settle()
        return vars(self)

    def settle(self) -> None:
        """Make the rows now, if nobody has asked for them yet."""
        with _SETTLING:
            make = vars(self).get("_make")
            if make is None:
                return
            self._make = _refuse
            vars(self).update(vars(make()))
            del self._make


def _refuse() -> OpLog:
    """Stands for a `make` that failed, which has made some of the rows already."""
    raise LogError("op log", "rows that could not be made when they were first asked for", "all rows", "run it again")


class LazyOperandsLog(OpLog):
    """The log of *ops* and *others*, the further arguments of `OpLog`. *read* gives its operands and is called once.

    Half of a log are operands, and the lanes of a timeline need none. *read* raises LogError for operands that are no
    longer those that were checked.
    """

    def __init__(self, ops: Array, read: Callable[[], Array], *others: Any) -> None:
        super().__init__(ops, [], *others)
        self._read, self._lock = read, Lock()

    @cached_property
    def operands(self) -> Array:
        """The operands table as one array."""
        with self._lock:
            found: Array | None = vars(self).get("operands")
            if found is None:
                found = vars(self)["operands"] = self._read()
            return found
