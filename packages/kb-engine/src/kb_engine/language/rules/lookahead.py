"""Loops whose loads are issued ahead of their use."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeVar

from kb_engine.program.author.arguments import describe
from kb_engine.program.language_base import LanguageBase
from kb_engine.program.values.symbols import plain
from kb_messages import KernelError

ItemT = TypeVar("ItemT")


class LookAhead(LanguageBase):
    """`tl.ahead`."""

    def ahead(self, items: Iterable[ItemT], n: int = 1) -> Iterator[ItemT]:
        """*items* in their order, each after the next *n* have been made. Takes no time of its own.

        Made of `load_async`, they are loads that run while the loop works on the item before:
        `for a, b in tl.ahead((tl.load_async(x[k]), tl.load_async(y[k])) for k in steps)`. The TCM holds *n* + 1 items,
        and the one before that the loop's names still have. Raises KernelError for an *n* that is no integer of at
        least 0.
        """
        n = plain(n)
        if type(n) is not int or n < 0:
            raise KernelError(self._port.line(), f"tl.ahead of {n!r}", "an integer of at least 0")
        if not isinstance(items, Iterable):
            needs = "what a loop takes, such as (tl.load_async(x[k]) for k in steps)"
            raise KernelError(self._port.line(), f"tl.ahead of {describe(items)}", needs)
        return _delayed(items, n)


def _delayed(items: Iterable[ItemT], n: int) -> Iterator[ItemT]:
    """*items*, each when *n* more of them exist. An item that was handed out is not kept."""
    made: deque[ItemT] = deque()
    for item in items:
        made.append(item)
        del item
        if len(made) > n:
            yield made.popleft()
    while made:
        yield made.popleft()
