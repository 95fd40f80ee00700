"""Values of dataclasses among the arguments of kernels: the parts of their classes, and their attributes.

Design: docs/design/replay-and-purity.md

The class of such a value has nothing but fields, constants, methods, properties, and the methods that Python generates
for a dataclass. So the behaviour of a value follows from its attributes and its class.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Iterator, Mapping
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final, NamedTuple

_FIELDS: Final = "__dataclass_fields__"
_PARAMS: Final = "__dataclass_params__"
_FILES: Final = (dataclasses.__file__, reprlib.__file__)
_MADE: Final = "__create_fn__.<locals>."
"""The prefix of names of functions that Python generates for a dataclass. Source: dataclasses.py of CPython 3.11."""
_DECIDING: Final = ("__repr__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__")
_OF_DATACLASS: Final = ("__init__", "__setattr__", "__delattr__", *_DECIDING)
_OF_COPIES: Final = ("__getstate__", "__setstate__", "__replace__")
_UNUSED: Final = frozenset((
    "__module__", "__qualname__", "__doc__", "__annotations__", "__annotate_func__", "__annotations_cache__",
    "__match_args__", "__slots__", "__firstlineno__", "__static_attributes__", "__post_init__", _FIELDS, _PARAMS,
))  # fmt: skip
"""Names of a class that no kernel can use: their first character is `_`, and no operator looks for them."""


class ClassParts(NamedTuple):
    """The parts of a dataclass: generated methods that decide, as constants, and the author's attributes, by name."""

    made: tuple[tuple[str, bytes, tuple[str, ...]], ...]
    written: Mapping[str, Any]


def is_dataclass(kind: type) -> bool:
    """Whether *kind*, and each of its classes but `object`, is a dataclass and has no metaclass of its own."""
    if type(kind) is not type or _FIELDS not in vars(kind):
        return False
    return all(_FIELDS in vars(each) for each in kind.__mro__[:-1])


def is_frozen(kind: type) -> bool:
    """Whether no attribute of a value of the dataclass *kind* can be set."""
    return bool(vars(kind)[_PARAMS].frozen)


def parts_of_dataclass(kind: type) -> list[ClassParts] | None:
    """Returns the parts of the dataclass *kind* and of its bases, or None where values may do more."""
    kinds = kind.__mro__[:-1]
    has_dict = any("__dict__" in vars(each) for each in kinds)
    if has_dict and any(isinstance(part, MemberDescriptorType) for each in kinds for part in vars(each).values()):
        return None
    found = [_parts_of(each) for each in kinds]
    return [each for each in found if each is not None] if None not in found else None


def attributes_of(value: object) -> Mapping[str, Any]:
    """Returns the attributes of a value of a dataclass, by name, if `parts_of_dataclass` knows its class."""
    if hasattr(value, "__dict__"):
        return vars(value)
    return {name: getattr(value, name) for name in _slots_of(type(value)) if hasattr(value, name)}


def _slots_of(kind: type) -> Iterator[str]:
    for each in kind.__mro__:
        yield from (name for name, part in vars(each).items() if isinstance(part, MemberDescriptorType))


def _parts_of(kind: type) -> ClassParts | None:
    """Returns the parts of *kind* alone. Values that compare or print by their address may do more, and give None."""
    params = vars(kind)[_PARAMS]
    if not (params.eq and params.repr) or params.unsafe_hash:
        return None
    made, written = [], {}
    for name, part in vars(kind).items():
        if name in _OF_DATACLASS or name in _OF_COPIES:
            inner = _generated(name, part)
            if inner is None and not (name == "__hash__" and part is None):
                return None
            if inner is not None and name in _DECIDING:
                made.append((name, inner.__code__.co_code, inner.__code__.co_names))
        elif name in ("__dict__", "__weakref__"):
            if not isinstance(part, GetSetDescriptorType):
                return None
        elif not name.startswith("__"):
            written[name] = part
        elif name not in _UNUSED:
            return None
    return ClassParts(tuple(made), written)


def _generated(name: str, part: object) -> FunctionType | None:
    """Returns *part* if Python generated it as the method *name* of a dataclass, else None."""
    if not isinstance(part, FunctionType):
        return None
    code = part.__code__
    if name in _OF_COPIES:
        return part if code.co_filename == dataclasses.__file__ and part.__module__ == "dataclasses" else None
    if code.co_filename == "<string>" and code.co_qualname == _MADE + name:
        return part
    if name == "__repr__" and code.co_filename in _FILES:
        inner = [cell.cell_contents for cell in part.__closure__ or ()]
        functions = [each for each in inner if isinstance(each, FunctionType)]
        return _generated(name, functions[0]) if len(functions) == 1 else None
    return None
