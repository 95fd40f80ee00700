"""Namespaces of a kernel's code: what modules, and classes of kernbench, have under the names that the code reads.

A program may give each of them another value at any time, and the next launch finds that one.
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
"""Modules and packages whose functions decide by their arguments, and by the program that runs, alone."""
_PURE_FUNCTIONS: Final = frozenset(
    (("kb_triton.shims.module_names", "cdiv"), ("kb_triton.shims.module_names", "next_power_of_2"))
)
BUILTINS: Final = frozenset((
    "abs", "all", "any", "bool", "dict", "divmod", "enumerate", "filter", "float", "int", "len", "list", "map", "max",
    "min", "next", "iter", "range", "reversed", "round", "set", "frozenset", "slice", "sorted", "str", "sum",
    "tuple", "zip", "isinstance", "ValueError", "AssertionError", "Ellipsis",
))  # fmt: skip
"""Names of Python's own that compute, and do nothing else."""
_NUMPY: Final = str(Path(np.__file__).parent)
"""The folder of numpy's sources."""
_OF_TYPES: Final = (MemberDescriptorType, GetSetDescriptorType, MethodDescriptorType, WrapperDescriptorType)
_CLOCKS: Final = (np.datetime64, np.timedelta64, np.void, np.object_)
"""Types of numpy that can look at the time, or hold what changes."""
_OF_FILES: Final = frozenset((
    "DataSource", "fromfile", "fromregex", "genfromtxt", "load", "loadtxt", "memmap", "recfromcsv", "recfromtxt",
    "save", "savetxt", "savez", "savez_compressed",
))  # fmt: skip
"""What numpy has that reads or writes files."""
_SAYS: Final = frozenset(("disp", "info", "lookfor", "show_config", "show_runtime", "source", "who"))
"""What numpy has that prints."""
_MODULES: Final = frozenset(("fft", "linalg"))
"""Modules of numpy in which all computes."""
_MOST_KINDS: Final = 1 << 8
"""Orders of classes of which those of kernbench are kept. Source: assumed."""
_IS_MADE: Final = 1 << 9
"""Of `__flags__`: a class that was made while Python ran. Source: Py_TPFLAGS_HEAPTYPE of CPython."""


class Opaque:
    """Stands for *value*, which may do something else at the next launch although it is the same one."""

    def __init__(self, value: object) -> None:
        self.value = value


class ClassOperators:
    """Stands for what code calls of a class without a name."""


class _Seen(NamedTuple):
    """All that a class had, its operators, and what stands for these: the Untold ones, or one object for all."""

    has: dict[str, object]
    operators: dict[str, object]
    stand: list[Opaque] | list[ClassOperators]


_OPERATORS: Final[WeakKeyDictionary[type, _Seen]] = WeakKeyDictionary()


def package_of(of: type | FunctionType) -> str:
    """The package of *of*; "" for what is made from a text that has no `__name__`, as a kernel's author may do."""
    module = of.__module__ or ""
    return "" if module == "builtins" and _is_made(of) else module.partition(".")[0]


def _is_made(of: object) -> bool:
    """Whether *of* is a class that was made while Python ran."""
    return isinstance(of, type) and bool(of.__flags__ & _IS_MADE)


def computes(name: str) -> bool:
    """Whether what numpy has under *name* does nothing but compute, unless a program has put something there."""
    if name in _OF_FILES or name in _SAYS:
        return False
    return name in _MODULES or not isinstance(vars(np).get(name, np), ModuleType)


def is_struct_of_own(kind: type) -> bool:
    """Whether *kind* is a class of kernbench whose values are what their fields say, such as `TileShape`."""
    return issubclass(kind, Struct) and package_of(kind) in _OWN


class Reads(NamedTuple):
    """What code reads of namespaces: *names* of any, and operators of *front*, the classes that a front end gives.

    *is_known* says of an object of kernbench that what it has can be looked at, and *is_constant* of a value that it
    never changes.
    """

    names: Collection[str]
    front: Sequence[type]
    is_known: Callable[[Any], bool]
    is_constant: Callable[[object], bool]

    def values(self, used: Iterable[object]) -> list[object]:
        """What the namespaces among *used*, the classes of the front end, and namespaces in these have.

        A text says which of the names each of them has. There is an Opaque in the place of a value that does not tell
        what it does.
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
        told = [each if self._is_told(each) else Opaque(each) for each in found]
        return [*chain.from_iterable(map(_operators_of, self.front)), ".".join(places), *told]

    def _is_told(self, value: object) -> bool:
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
    """What stands for the operators of *kind*: the objects of the last time, if they are those of the last time."""
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
    """Whether *value* is code of Python, numpy or kernbench that decides by nothing but what it is called with."""
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
    return isinstance(value, (*_OF_TYPES, ClassOperators)) or _is_told_descriptor(value)


def _is_told_descriptor(value: object) -> bool:
    """As `is_transparent`, of what a class makes of functions."""
    functions = functions_in(value)
    return functions is not None and all(map(is_transparent, functions))


def functions_in(value: object) -> list[object] | None:
    """What a class has made *value* of, such as the functions of a property; None for a value of another kind."""
    if isinstance(value, property):
        return [each for each in (value.fget, value.fset, value.fdel) if each is not None]
    if isinstance(value, (staticmethod, classmethod)):
        return [value.__func__]
    return [value.func] if isinstance(value, cached_property) else None


def is_of_library(value: object) -> bool:
    """Whether *value* is a function or a class of numpy, or anything of kernbench.

    Programs of one launch find the same there. Another launch may not: some functions look at files, or at the time.
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
    """The names of *space*, and those of its classes."""
    if isinstance(space, ModuleType):
        return [vars(space)]
    kinds = space.__mro__ if isinstance(space, type) else type(space).__mro__
    own = [] if isinstance(space, type) else [getattr(space, "__dict__", {})]
    return own + [vars(each) for each in _own_among(kinds)]


@lru_cache(maxsize=_MOST_KINDS)
def _own_among(kinds: tuple[type, ...]) -> list[type]:
    """Those of *kinds* that are of kernbench."""
    return [each for each in kinds if package_of(each) in _OWN]
