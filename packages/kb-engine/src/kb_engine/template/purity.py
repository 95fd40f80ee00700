"""Kernels that do nothing but what their port is told: their programs differ by the program's number alone.

Such a kernel keeps nothing between its programs and looks at nothing that changes. That is found out from its code, and
what cannot be told so is taken for a kernel that does more.
"""

from __future__ import annotations

import builtins
import dis
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np
from msgspec import Struct

from kb_engine.program.kernel_lines import is_own
from kb_engine.program.tensors import TensorRef

Unfold: TypeAlias = Callable[[object], Iterable[FunctionType] | None]
"""Gives the functions that a value stands for; None for a value that it does not know."""

_BUILTINS: Final = frozenset((
    "abs", "all", "any", "bool", "dict", "divmod", "enumerate", "filter", "float", "int", "len", "list", "map", "max",
    "min", "next", "iter", "pow", "range", "reversed", "round", "set", "frozenset", "slice", "sorted", "str", "sum",
    "tuple", "zip", "isinstance", "ValueError", "AssertionError", "Ellipsis",
))  # fmt: skip
_INSTRUCTIONS: Final = frozenset((
    "STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "IMPORT_NAME", "IMPORT_FROM", "POP_EXCEPT",
    "LOAD_BUILD_CLASS", "LOAD_NAME", "STORE_NAME", "LOAD_LOCALS", "GET_AWAITABLE",
))  # fmt: skip
"""Those of code that changes or looks at more than its own values, or goes on after an error."""
_ATTRIBUTES: Final = frozenset((
    "known", "place", "holder", "producer", "completion", "readers", "matrix", "operators", "is_pending", "freed",
    "in_registers", "print", "capture", "materialize", "free", "random",
))  # fmt: skip
"""Attributes that tell how the simulation goes on, and calls whose effect is not in the commands."""
_PLAIN: Final = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis), slice, range, np.generic, Enum)


@runtime_checkable
class MadeKernel(Protocol):
    """A kernel that a front end has made of an author's functions, and of the arguments of a launch."""

    def is_repeatable(self) -> bool:
        """Whether programs of the kernel differ by the program's number alone."""


def is_repeatable(kernel: object, arguments: Sequence[Any]) -> bool:
    """Whether programs of *kernel* with *arguments* differ by the program's number alone."""
    if isinstance(kernel, MadeKernel):
        return not arguments and kernel.is_repeatable()
    if not isinstance(kernel, FunctionType):
        return False
    return all(map(_is_fixed, arguments)) and is_pure(kernel, lambda _: None)


def is_pure(function: FunctionType, unfold: Unfold) -> bool:
    """Whether *function* does nothing but compute with its own values and call its front end.

    *unfold* says what a value of the front end, which *function* or what it calls uses, stands for: functions, of which
    each has to be pure too; None for a value that it does not know.
    """
    return _Purity(unfold).is_pure(function)


def mutable_parts(arguments: Sequence[Any]) -> list[Any]:
    """The lists, sets and dicts among *arguments*, as they are now."""
    found: list[Any] = []
    for each in arguments:
        if isinstance(each, (list, tuple)):
            found.append([id(part) for part in each])
            found += mutable_parts(each)
        elif isinstance(each, dict):
            found.append([(id(key), id(value)) for key, value in each.items()])
            found += mutable_parts(list(each.values()))
    return found


def _is_fixed(value: object) -> bool:
    """Whether nothing but a kernel can change *value*, which has no code of an author."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_fixed, value))
    if isinstance(value, dict):
        return all(_is_fixed(key) and _is_fixed(each) for key, each in value.items())
    if isinstance(value, Struct):
        return type(value).__struct_config__.frozen and all(
            _is_fixed(getattr(value, name)) for name in value.__struct_fields__
        )
    return isinstance(value, (*_PLAIN, TensorRef))


def _is_constant(value: object) -> bool:
    """As `_is_fixed`, for what a kernel does not get as an argument: a container that can be changed is not."""
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    return not isinstance(value, (list, dict)) and _is_fixed(value)


class _Purity:
    """Looks at functions, each once. *unfold* is as for `is_pure`."""

    def __init__(self, unfold: Unfold) -> None:
        self._unfold = unfold
        self._seen: set[CodeType] = set()

    def is_pure(self, function: FunctionType) -> bool:
        """Whether *function*, and all that it calls, touches nothing but its own values."""
        code = function.__code__
        if code in self._seen:
            return True
        self._seen.add(code)
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        if function.__dict__ or not all(map(self._is_usable, (*defaults, *cells))):
            return False
        outer = set(code.co_freevars)
        return all(self._is_harmless(each, function.__globals__, outer) for each in _instructions(code))

    def _is_harmless(self, instruction: dis.Instruction, names: dict[str, Any], outer: set[str]) -> bool:
        name, value = instruction.opname, instruction.argval
        if name in _INSTRUCTIONS:
            return False
        if name in ("STORE_DEREF", "DELETE_DEREF"):
            return value not in outer
        if name in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
            return isinstance(value, str) and not value.startswith("_") and value not in _ATTRIBUTES
        if name != "LOAD_GLOBAL":
            return True
        if value not in names:
            return value in _BUILTINS and hasattr(builtins, value)
        return self._is_usable(names[value])

    def _is_usable(self, value: object) -> bool:
        """Whether *value* is a constant, or a function or a module that a kernel may use."""
        if _is_constant(value):
            return True
        if isinstance(value, ModuleType) and value in (math, np):
            return True
        if isinstance(value, type) and issubclass(value, (Enum, Struct)):
            return issubclass(value, Enum) or value.__struct_config__.frozen
        if isinstance(value, FunctionType):
            return is_own(value.__code__.co_filename) or self.is_pure(value)
        functions = self._unfold(value)
        return functions is not None and all(map(self.is_pure, functions))


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    """Those of *code*, and of the functions and comprehensions in it."""
    yield from dis.get_instructions(code)
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _instructions(each)
