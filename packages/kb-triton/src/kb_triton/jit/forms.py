"""Forms of what a kernel is made of and given: equal ones decide the same."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum
from types import EllipsisType, NoneType
from typing import Any, Final
from weakref import ref

import numpy as np

from kb_engine.fastforward.replay import Untold, attributes_of, is_dataclass
from kb_triton.host import Storage
from kb_triton.language import Pointer
from kb_triton.language.constexprs import constexpr_float, constexpr_int, constexpr_str

_SIMPLE: Final = frozenset((int, str, bytes, bool, NoneType, EllipsisType, constexpr_int, constexpr_str))
_FLOATS: Final = frozenset((float, constexpr_float))


class NoFormError(Exception):
    """A value that somebody may change, or that tells what its form would not."""


class _Itself:
    """A value that is like no other, as long as it is there. It is kept only where no weak reference to it can be.

    A function would keep its module. Code that equals other code may have another source, or none.
    """

    __slots__ = ("_hash", "_value")

    def __init__(self, value: object) -> None:
        self._hash = id(value)
        try:
            self._value: Callable[[], object] = ref(value)
        except TypeError:
            self._value = lambda: value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Itself):
            return False
        value = self._value()
        return value is not None and value is other._value()

    def __hash__(self) -> int:
        return self._hash


def form_of(value: Any) -> Hashable:
    """What *value*, which nothing changes, has in common with values that decide the same. Raises NoFormError."""
    kind = type(value)
    if kind is Untold:
        raise NoFormError
    if isinstance(value, Pointer):
        return _form_of_pointer(value)
    if isinstance(value, Enum):
        if not all(name.startswith("_") for name in vars(value)):
            raise NoFormError  # an author's attribute, which a kernel could read
        return _Itself(value), form_of(value.value)
    if isinstance(value, (int, float, str, bytes, tuple, np.generic)) and getattr(value, "__dict__", None):
        raise NoFormError
    if kind in _SIMPLE:
        return kind, value
    if kind in _FLOATS:
        return kind, float(value).hex()
    if isinstance(value, (tuple, list)):
        return kind, tuple(map(form_of, value))
    if isinstance(value, np.generic):
        return kind, value.dtype.str, value.tobytes()
    if kind in (slice, range):
        return kind, form_of(value.start), form_of(value.stop), form_of(value.step)
    if is_dataclass(kind):
        return _Itself(value), tuple([(name, form_of(each)) for name, each in attributes_of(value).items()])
    return _Itself(value)


def _form_of_pointer(pointer: Pointer) -> Hashable:
    storage = pointer.storage
    if not isinstance(storage, Storage):
        raise NoFormError
    return Pointer, storage.chip_address, storage.nbytes, pointer.element_offset, str(pointer.dtype)
