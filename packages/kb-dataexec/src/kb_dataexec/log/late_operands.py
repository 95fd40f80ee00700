"""LateOperandsLog: a checked op log whose operands are read again when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from threading import Lock
from typing import Any

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.tables import OpLog


class LateOperandsLog(OpLog):
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
