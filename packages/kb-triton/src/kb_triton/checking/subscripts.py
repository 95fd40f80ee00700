"""Subscripts in a kernel: new axes of a block, and elements of a tuple."""

from __future__ import annotations

from typing import Any

from kb_triton.checking.host_functions import OUTSIDE
from kb_triton.checking.refusals import Refusal
from kb_triton.checking.values import (
    UNKNOWN,
    Constant,
    Group,
    Plain,
    Typed,
    Value,
    block,
    is_unknown,
    python_of,
    wrapped,
)


def element_of(owner: Value, index: Value) -> Value:
    """Returns `owner[index]`. A block takes `:` and `None` alone."""
    if isinstance(owner, Typed):
        return owner if is_unknown(index) else _of_block(owner, index)
    if isinstance(owner, Group):
        return _of_group(owner, index)
    if isinstance(owner, (Constant, Plain)) and isinstance(index, (Constant, Plain)):
        try:
            return wrapped(owner.value[index.value])
        except (TypeError, LookupError, ValueError):
            return UNKNOWN
    return UNKNOWN


def _of_block(owner: Typed, index: Value) -> Typed:
    parts = index.values if isinstance(index, Group) else (index,)
    shape, used = list[int](), 0
    for each in parts:
        found = python_of(each)
        if found is None:
            shape.append(1)
        elif isinstance(found, slice) and all(_is_none(part) for part in (found.start, found.stop, found.step)):
            used += 1
            if used > len(owner.shape):
                raise Refusal(f"too many indices for tensor of rank {len(owner.shape)}")
            shape.append(owner.shape[used - 1])
        else:
            raise Refusal(OUTSIDE if isinstance(each, Typed) else f"unsupported tensor index: {_shown(each)}")
    found_shape = (*shape, *owner.shape[used:])
    return owner if found_shape == owner.shape else block(owner.dtype, found_shape)


def _is_none(value: Any) -> bool:
    return value is None or (isinstance(value, (Constant, Plain)) and value.value is None)


def _shown(index: Value) -> str:
    if isinstance(index, Plain) and isinstance(index.value, slice):
        return "<triton.language.core.slice object>"
    return str(index)


def _of_group(owner: Group, index: Value) -> Value:
    if isinstance(index, Typed):
        raise Refusal("")
    at = python_of(index)
    if isinstance(at, slice):
        parts = [
            python_of(each) if isinstance(each, (Constant, Plain)) else each for each in (at.start, at.stop, at.step)
        ]
        if not all(each is None or isinstance(each, int) for each in parts):
            return UNKNOWN
        return Group(owner.values[slice(*parts)])
    if not isinstance(at, int):
        return UNKNOWN
    if not -len(owner.values) <= at < len(owner.values):
        raise Refusal("list index out of range")
    return owner.values[at]
