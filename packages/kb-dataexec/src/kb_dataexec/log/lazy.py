"""Op logs whose rows (LazyOpLog) or operands (LazyOperandsLog) are made when they are first read."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from threading import Lock, RLock
from typing import Any, Final

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.tables import OpLog
from kb_messages import LogError

_SETTLING: Final = RLock()
"""Locked while the rows of a log are made, so that two threads do not both make them."""


class LazyOpLog(OpLog):
    """Makes an op log when an attribute is first read: *make* returns it, and is called once.

    If *make* raises an error, reading raises that error the first time, and LogError afterwards.
    """

    def __init__(self, make: Callable[[], OpLog]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:
        """Makes the log. Python calls this for an attribute that is not set yet."""
        if name.startswith("__") or name == "_make":
            raise AttributeError(name)
        self.settle()
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getstate__(self) -> dict[str, Any]:
        """Makes the rows before the log is copied or pickled."""
        self.settle()
        return vars(self)

    def settle(self) -> None:
        """Makes the rows now, unless they are made."""
        with _SETTLING:
            make = vars(self).get("_make")
            if make is None:
                return
            self._make = _refuse
            vars(self).update(vars(make()))
            del self._make


def _refuse() -> OpLog:
    """Takes the place of a `make` that failed: it may have made some of the rows, so it cannot run twice."""
    raise LogError("op log", "rows that could not be made when they were first asked for", "all rows", "run it again")


class LazyOperandsLog(OpLog):
    """A checked op log that reads its operands when they are first needed: *read* returns them, and is called once.

    *ops* and *others* are the other arguments of `OpLog`. Operands are half of a log, and the lanes of a timeline need
    none. *read* raises LogError for operands that differ from the checked ones.
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
