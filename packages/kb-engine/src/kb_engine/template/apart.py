"""Objects that are made for many programs at once, with an array in the place of each integer, taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
from msgspec import Struct

from kb_messages import VectorProgram


def taken_apart(value: Any, n: int) -> Sequence[Any]:
    """The *n* values that *value* stands for: where it has an array of *n* integers, each of them has one of these."""
    found = _parts(value)
    return [value] * n if found is None else found


def _parts(value: Any) -> Sequence[Any] | None:
    """As `taken_apart`; None where all have the same."""
    if isinstance(value, np.ndarray):
        numbers: list[int] = value.tolist()
        return numbers
    if isinstance(value, tuple):
        parts = [_parts(each) for each in value]
        if all(each is None for each in parts):
            return None
        return list(
            zip(*[repeat(one) if each is None else each for one, each in zip(value, parts, strict=True)], strict=False)
        )
    if isinstance(value, Struct) and not isinstance(value, VectorProgram):
        return _structs(value)
    return None


def _structs(value: Struct) -> Sequence[Any] | None:
    fixed: dict[str, Any] = {}
    names, columns = [], []
    for name in value.__struct_fields__:
        each = getattr(value, name)
        parts = _parts(each)
        if parts is None:
            fixed[name] = each
        else:
            names.append(name)
            columns.append(parts)
    if not names:
        return None
    make = partial(type(value), **fixed)
    if len(names) == 1:
        name = names[0]
        return [make(**{name: each}) for each in columns[0]]
    return [make(**dict(zip(names, each, strict=True))) for each in zip(*columns, strict=True)]
