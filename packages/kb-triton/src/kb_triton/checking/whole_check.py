"""WholeCheck: what the rules of one function ask of the check of the whole kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from kb_triton.checking.values import Value


class WholeCheck(Protocol):
    """The check of a kernel with all functions that it calls."""

    @property
    def allows_globals(self) -> bool:
        """Whether functions may read all globals."""

    def step(self) -> None:
        """Counts a visited node."""

    def call(self, function: Any, arguments: Sequence[Value], named: Mapping[str, Value]) -> Value:
        """Returns the value of a call of *function*, a JITFunction, in a kernel."""
