"""Lists and tuples among the arguments of a launch, with other items and of the same type."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from kb_engine.program.author.arguments import describe
from kb_messages import KernelError


def rebuilt(container: list[Any] | tuple[Any, ...], items: Sequence[Any]) -> Any:
    """*container* with *items* in place of its own. The constructor of a subclass is not called: it may want others.

    Raises KernelError for a type that cannot hold other items, unless the items are its own.
    """
    kind = type(container)
    if kind is list or kind is tuple:
        return kind(items)
    if len(items) == len(container) and all(new is old for new, old in zip(items, container, strict=True)):
        return container
    try:
        if isinstance(container, tuple):
            return tuple.__new__(kind, items)  # type: ignore[type-var]
        same = copy.copy(container)
        same[:] = items
    except Exception:  # noqa: BLE001 - a subclass may override anything
        raise KernelError("launch", f"tensors in {describe(container)}", "them in a list or a tuple") from None
    return same
