"""Values of dataclasses, as kernels are given them: what Python has made for their class, and their attributes."""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Mapping
from types import FunctionType, MemberDescriptorType
from typing import Any, Final

_FILES: Final = (dataclasses.__file__, reprlib.__file__)
_MADE: Final = "__create_fn__.<locals>."
"""What the names of functions begin with that Python makes for a dataclass. Source: dataclasses.py of CPython 3.11."""
_FIELDS: Final = "__dataclass_fields__"


def is_dataclass(kind: type) -> bool:
    """Whether values of *kind* are nothing but their attributes: its classes, but for `object`, are dataclasses."""
    return hasattr(kind, _FIELDS) and all(_FIELDS in vars(each) for each in kind.__mro__[:-1])


def is_frozen(kind: type) -> bool:
    """Whether no attribute of a value of the dataclass *kind* can be set."""
    return bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]


def attributes_of(value: object) -> Mapping[str, Any]:
    """What a value of a dataclass has, by name. Those of its fields come in their order, unless they were set anew."""
    slots = (name for kind in type(value).__mro__ for name, each in vars(kind).items() if _is_slot(each))
    return {name: getattr(value, name) for name in slots if hasattr(value, name)} | getattr(value, "__dict__", {})


def _is_slot(part: object) -> bool:
    return isinstance(part, MemberDescriptorType)


def is_made_for_dataclass(function: FunctionType) -> bool:
    """Whether Python has made *function* for a dataclass, such as `__eq__`, which compares the fields."""
    code = function.__code__
    if code.co_filename in _FILES:
        wrapped = getattr(function, "__wrapped__", None)
        return wrapped is None or (isinstance(wrapped, FunctionType) and is_made_for_dataclass(wrapped))
    return code.co_filename == "<string>" and code.co_qualname.startswith(_MADE)
