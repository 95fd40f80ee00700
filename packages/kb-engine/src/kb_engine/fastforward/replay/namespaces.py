"""Namespaces: the values that modules, and classes of kernbench, have under the names that a kernel reads.

Design: docs/design/replay-and-purity.md

A program may replace each value at any time, and the next launch finds the new one.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from operator import is_
from pathlib import Path
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    ModuleType,
    NoneType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from msgspec import Struct

from kb_engine.program.author.kernel_lines import is_own

_OWN: Final = frozenset(("kb_dataexec", "kb_engine", "kb_messages", "kb_topology", "kb_triton"))
_PURE: Final = ("kb_messages", "kb_engine.language", "kb_engine.program", "kb_triton.language", "kb_triton.jit")
"""Modules and packages whose functions decide only by their arguments, and by the program that runs."""
_PURE_FUNCTIONS: Final = frozenset(
    (("kb_triton.shims.module_names", "cdiv"), ("kb_triton.shims.module_names", "next_power_of_2"))
)
BUILTINS: Final = frozenset((
    "abs", "all", "any", "bool", "dict", "divmod", "enumerate", "filter", "float", "int", "len", "list", "map", "max",
    "min", "next", "iter", "range", "reversed", "round", "set", "frozenset", "slice", "sorted", "str", "sum",
    "tuple", "zip", "isinstance", "ValueError", "AssertionError", "Ellipsis",
))  # fmt: skip
"""Builtins of Python that only compute."""
_NUMPY: Final = str(Path(np.__file__).parent)
"""The folder of numpy's sources."""
_OF_TYPES: Final = (MemberDescriptorType, GetSetDescriptorType, MethodDescriptorType, WrapperDescriptorType)
_CLOCKS: Final = (np.datetime64, np.timedelta64, np.void, np.object_)
"""Types of numpy that can read the time, or hold mutable objects."""
_OF_FILES: Final = frozenset((
    "DataSource", "fromfile", "fromregex", "genfromtxt", "load", "loadtxt", "memmap", "recfromcsv", "recfromtxt",
    "save", "savetxt", "savez", "savez_compressed",
))  # fmt: skip
"""Functions of numpy that read or write files."""
_PRINTS: Final = frozenset(("disp", "info", "lookfor", "show_config", "show_runtime", "source", "who"))
"""Functions of numpy that print."""
_MODULES: Final = frozenset(("fft", "linalg"))
"""Modules of numpy with functions that only compute."""
_MOST_KINDS: Final = 1 << 8
"""The method resolution orders whose classes of kernbench are cached. Source: assumed."""
_IS_MADE: Final = 1 << 9
"""The flag in `__flags__` of a class that was made while Python ran. Source: Py_TPFLAGS_HEAPTYPE of CPython."""


class Opaque:
    """Stands for *value*, which may behave differently at the next launch although it is the same object."""

    def __init__(self, value: object) -> None:
        self.value = value


class ClassOperators:
    """Stands for the operators of a class, which code calls without a name."""


class _Seen(NamedTuple):
    """The attributes of a class, its operators, and their stand-ins: the Opaque ones, or one object for all."""

    has: dict[str, object]
    operators: dict[str, object]
    stand: list[Opaque] | list[ClassOperators]


_OPERATORS: Final[WeakKeyDictionary[type, _Seen]] = WeakKeyDictionary()


def package_of(of: type | FunctionType) -> str:
    """Returns the package of *of*; "" for a class or function that an author made from a text without `__name__`."""
    module = of.__module__ or ""
    return "" if module == "builtins" and _is_made(of) else module.partition(".")[0]


def _is_made(of: object) -> bool:
    """Whether *of* is a class that was made while Python ran."""
    return isinstance(of, type) and bool(of.__flags__ & _IS_MADE)


def computes(name: str) -> bool:
    """Whether the attribute *name* of numpy only computes, unless a program has replaced it."""
    if name in _OF_FILES or name in _PRINTS:
        return False
    return name in _MODULES or not isinstance(vars(np).get(name, np), ModuleType)


def is_struct_of_own(kind: type) -> bool:
    """Whether *kind* is a class of kernbench whose values are defined by their fields, such as `TileShape`."""
    return issubclass(kind, Struct) and package_of(kind) in _OWN


class Reads(NamedTuple):
    """The reads of code in namespaces: *names* of any, and operators of *front*, the classes that a front end gives.

    `is_known(value)` says whether the attributes of an object of kernbench can be read. `is_constant(value)` says
    whether a value never changes.
    """

    names: Collection[str]
    front: Sequence[type]
    is_known: Callable[[Any], bool]
    is_constant: Callable[[object], bool]

    def values(self, used: Iterable[object]) -> list[object]:
        """Returns the values of the names in the namespaces among *used*, in the classes of the front end, and below.

        A text lists the names of each namespace. An Opaque stands for a value whose behaviour is unknown.
        """
        found: list[object] = []
        places: list[str] = []
        unread = [*self.front, *filter(self._is_namespace, used)]
        seen = set(map(id, unread))
        while unread:
            for has in _names_of(unread.pop()):
                names = [name for name in self.names if name in has]
                values = [has[name] for name in names]
                places += "", *names
                found += values
                for each in values:
                    if self._is_namespace(each) and id(each) not in seen:
                        seen.add(id(each))
                        unread.append(each)
        clear = [each if self._is_clear(each) else Opaque(each) for each in found]
        return [*chain.from_iterable(map(_operators_of, self.front)), ".".join(places), *clear]

    def _is_clear(self, value: object) -> bool:
        return self._is_namespace(value) or self.is_constant(value) or is_transparent(value)

    def _is_namespace(self, value: object) -> bool:
        if isinstance(value, ModuleType):
            return value is not builtins
        if isinstance(value, type):
            return package_of(value) in _OWN
        if isinstance(value, SimpleNamespace):
            return type(value) is SimpleNamespace or package_of(type(value)) in _OWN
        return package_of(type(value)) in _OWN and self.is_known(value)


def _operators_of(kind: type) -> list[Opaque] | list[ClassOperators]:
    """Returns stand-ins for the operators of *kind*: the stand-ins of the last time, if the operators are the same."""
    found = _OPERATORS.get(kind)
    if found is not None and _are_one(found.has, vars(kind)):
        return found.stand
    has = dict(vars(kind))
    operators = {name: each for name, each in has.items() if name.startswith("__") and callable(each)}
    if found is not None and _are_one(found.operators, operators):
        stand = found.stand
    else:
        stand = [Opaque(each) for each in operators.values() if not is_transparent(each)] or [ClassOperators()]
    _OPERATORS[kind] = _Seen(has, operators, stand)
    return stand


def _are_one(before: Mapping[str, object], now: Mapping[str, object]) -> bool:
    """Whether both have the same objects under the same names, in one order."""
    return [*before] == [*now] and all(map(is_, before.values(), now.values()))


def is_transparent(value: object) -> bool:
    """Whether *value* is code of Python, numpy or kernbench that decides only by its arguments."""
    if isinstance(value, FunctionType):
        where = value.__module__ or ""
        is_pure = any(where == each or where.startswith(f"{each}.") for each in _PURE)
        return is_own(value.__code__.co_filename) and (is_pure or (where, value.__name__) in _PURE_FUNCTIONS)
    if isinstance(value, BuiltinFunctionType):
        of = value.__self__
        if of is builtins:
            return value.__name__ in BUILTINS
        return of is math or (isinstance(of, type) and of.__module__ == "builtins" and not _is_made(of))
    if isinstance(value, type):
        is_number = issubclass(value, np.generic) and not issubclass(value, _CLOCKS)
        return package_of(value) in _OWN or (not _is_made(value) and (is_number or value.__module__ == "builtins"))
    if isinstance(value, np.ufunc):
        return not value.__name__.endswith("(vectorized)")  # such a ufunc calls a function of an author
    return isinstance(value, (*_OF_TYPES, ClassOperators)) or _is_clear_descriptor(value)


def _is_clear_descriptor(value: object) -> bool:
    """Whether *value* is a descriptor that a class made of transparent functions."""
    functions = functions_in(value)
    return functions is not None and all(map(is_transparent, functions))


def functions_in(value: object) -> list[object] | None:
    """Returns the functions of a descriptor, such as a property, or None for another value."""
    if isinstance(value, property):
        return [each for each in (value.fget, value.fset, value.fdel) if each is not None]
    if isinstance(value, (staticmethod, classmethod)):
        return [value.__func__]
    return [value.func] if isinstance(value, cached_property) else None


def is_of_library(value: object) -> bool:
    """Whether *value* is a function or a class of numpy, or anything of kernbench.

    Programs of one launch get the same results. Another launch may not: some functions read files, or the time.
    """
    if isinstance(value, FunctionType):
        return is_own(value.__code__.co_filename) or value.__code__.co_filename.startswith(_NUMPY)
    if isinstance(value, BuiltinFunctionType):
        is_bound = not isinstance(value.__self__, (ModuleType, NoneType))
        return not is_bound and (value.__module__ or "").partition(".")[0] == "numpy"
    if isinstance(value, type):
        return package_of(value) in _OWN or package_of(value) == "numpy"
    return type(value) is type(np.prod) or package_of(type(value)) in _OWN


def _names_of(space: object) -> list[Mapping[str, object]]:
    """Returns the names of *space* and of its classes."""
    if isinstance(space, ModuleType):
        return [vars(space)]
    kinds = space.__mro__ if isinstance(space, type) else type(space).__mro__
    own = [] if isinstance(space, type) else [getattr(space, "__dict__", {})]
    return own + [vars(each) for each in _own_among(kinds)]


@lru_cache(maxsize=_MOST_KINDS)
def _own_among(kinds: tuple[type, ...]) -> list[type]:
    """Returns the classes of kernbench among *kinds*."""
    return [each for each in kinds if package_of(each) in _OWN]
