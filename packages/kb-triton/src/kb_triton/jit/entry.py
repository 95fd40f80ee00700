"""KernelEntry: what each program of a launch runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from kb_triton.jit.arguments import as_argument
from kb_triton.language import Machine, Pointer, constexpr, dtype, tensor
from kb_triton.language.tensors import program as programs

_OWN = ("kb_triton", "triton")


class _Looks(NamedTuple):
    """What has to be looked at of a kernel's arguments: values of the front end, and types of other values."""

    values: list[object]
    kinds: list[type]


class KernelEntry:
    """*function*, a copy of the author's *fn* that runs, with *arguments*. *constants* names those of `tl.constexpr`.

    *inner* gives the function that an object which kernels call, such as a `JITFunction`, stands for, and None for
    anything else.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        function: Callable[..., Any],
        arguments: Mapping[str, Any],
        constants: frozenset[str],
        inner: Callable[[object], Any],
    ) -> None:
        self.__name__ = getattr(fn, "__name__", "kernel")
        self._fn = fn
        self._function = function
        self._arguments = arguments
        self._constants = constants
        self._inner = inner

    def __call__(self, machine: Machine) -> None:
        """Run the program of *machine*."""
        with programs.running_on(machine):
            self._function(**self._values())

    def _values(self) -> dict[str, Any]:
        """The arguments as the kernel sees them."""
        return {name: as_argument(each, name in self._constants) for name, each in self._arguments.items()}

    def is_repeatable(self) -> bool:
        """Whether programs of the launch differ by their number alone, as `kb_engine.fastforward.replay.MadeKernel` says."""
        from kb_engine.fastforward.replay import parts_of  # the wing alone asks, so a launch without it needs no import

        looks = _Looks([], [])
        if not all(self._is_fixed(each, name in self._constants, looks) for name, each in self._arguments.items()):
            return False
        if not isinstance(self._fn, FunctionType):
            return False
        return parts_of(self._fn, looks.values, looks.kinds, self._unfold, (tensor,)) is not None

    def _is_fixed(self, value: object, is_constant: bool, looks: _Looks) -> bool:
        """Whether nothing can change the argument *value*, if nothing can change what *looks* gets of it.

        Kernels see a list as a tuple, unless it *is_constant*.
        """
        if isinstance(value, Pointer):
            return True
        if isinstance(value, tuple) or (isinstance(value, list) and not is_constant):
            looks.kinds.append(type(value))
            return all(self._is_fixed(each, is_constant, looks) for each in value)
        if value is None or isinstance(value, (int, float, str, np.generic)):
            looks.kinds.append(type(value))
            return True
        looks.values.append(value)
        return self._unfold(value) is not None

    def _unfold(self, value: object) -> Iterable[FunctionType] | None:
        """The functions that *value* stands for; None for what is not known to be harmless."""
        if isinstance(value, (dtype, constexpr)) or _is_own(value):
            return ()
        inner = self._inner(value)
        return (inner,) if isinstance(inner, FunctionType) else None


def _is_own(value: object) -> bool:
    """Whether *value* is a module, a class or a function of Triton's names."""
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return isinstance(value, (ModuleType, type)) and isinstance(name, str) and name.partition(".")[0] in _OWN
