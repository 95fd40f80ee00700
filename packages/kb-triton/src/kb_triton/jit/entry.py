"""KernelEntry: the function that each program of a launch runs, with its arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from kb_triton.jit.arguments import KernelParameter, as_argument
from kb_triton.language import Machine, Pointer, constexpr, dtype, tensor
from kb_triton.language.tensors import program as programs

_OWN = ("kb_triton", "triton")


class _ToCheck(NamedTuple):
    """The parts of a kernel's arguments whose purity has to be checked: values of the front end, and other types."""

    values: list[object]
    kinds: list[type]


class KernelEntry:
    """Runs *function*, a runnable copy of the author's *fn*, with *arguments* in each program of a launch.

    *parameters* has the parameters by name. *inner* returns the function behind an object that
    kernels call, such as a `JITFunction`, and None for any other object.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        function: Callable[..., Any],
        arguments: Mapping[str, Any],
        parameters: Mapping[str, KernelParameter],
        inner: Callable[[object], Any],
    ) -> None:
        self.__name__ = getattr(fn, "__name__", "kernel")
        self._fn = fn
        self._function = function
        self._arguments = arguments
        self._parameters = parameters
        self._inner = inner

    def __call__(self, machine: Machine) -> None:
        """Runs the program of *machine*."""
        with programs.running_on(machine):
            self._function(**self._values())

    def _values(self) -> dict[str, Any]:
        """Returns the arguments as the kernel gets them."""
        return {name: as_argument(each, self._parameters[name]) for name, each in self._arguments.items()}

    def is_repeatable(self) -> bool:
        """Whether programs of the launch differ by nothing but their number, so that one may repeat another's steps."""
        # The wing alone asks, so a launch without it needs no import.
        from kb_engine.fastforward.replay import only_computes

        to_check = _ToCheck([], [])
        parameters = self._parameters
        if not all(
            self._is_fixed(each, parameters[name].is_constexpr, to_check) for name, each in self._arguments.items()
        ):
            return False
        if not isinstance(self._fn, FunctionType):
            return False
        return only_computes(self._fn, to_check.values, to_check.kinds, self._unfold, (tensor,))

    def _is_fixed(self, value: object, is_constant: bool, to_check: _ToCheck) -> bool:
        """Whether nothing changes the argument *value* while programs run, if *to_check* turns out pure.

        Adds the parts of *value* that have to be checked to *to_check*. A kernel gets a list as a tuple, unless the
        list *is_constant*.
        """
        if isinstance(value, Pointer):
            return True
        if isinstance(value, tuple) or (isinstance(value, list) and not is_constant):
            to_check.kinds.append(type(value))
            return all(self._is_fixed(each, is_constant, to_check) for each in value)
        if value is None or isinstance(value, (int, float, str, np.generic)):
            to_check.kinds.append(type(value))
            return True
        to_check.values.append(value)
        return self._unfold(value) is not None

    def _unfold(self, value: object) -> Iterable[FunctionType] | None:
        """Returns the functions behind *value*; None for a value that is not known to be pure."""
        if isinstance(value, (dtype, constexpr)) or _is_own(value):
            return ()
        inner = self._inner(value)
        return (inner,) if isinstance(inner, FunctionType) else None


def _is_own(value: object) -> bool:
    """Whether *value* is a module or a class of kb_triton."""
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return isinstance(value, (ModuleType, type)) and isinstance(name, str) and name.partition(".")[0] in _OWN
