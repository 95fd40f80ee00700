"""Loops, assertions, prints, and hints, which do nothing."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from kb_engine.program import HostValue, Symbol, plain
from kb_messages import write_out
from kb_triton.language.compile_errors import CompileTimeAssertionFailure, failed_assertion
from kb_triton.language.tensors.arithmetic import as_tensor, constant_number
from kb_triton.language.tensors.constexprs import constant_of
from kb_triton.language.tensors.dtypes import int32, promoted, type_of_number
from kb_triton.language.tensors.program import is_running, line, machine, refuse
from kb_triton.language.tensors.tensor import elements_of, tensor
from kb_triton.language.tensors.values import FORMS, NUMBERS, Data, as_argument


def runtime_range(*bounds: Any) -> Iterator[tensor]:
    """Python's `range` with scalars of the kernel as its integers."""
    kind = int32
    for each in bounds:
        kind = promoted(kind, each.dtype if isinstance(each, tensor) else type_of_number(int(each)))
    numbers = [each.value if isinstance(each, tensor) and type(each.value) is Symbol else int(each) for each in bounds]
    for number in _turns(*numbers) if Symbol in map(type, numbers) else builtins.range(*numbers):
        yield tensor(number, (), kind)


def _turns(*bounds: Any) -> Iterator[Any]:
    """Yields the integers of a loop whose bounds follow from the program's number.

    Only the number of turns becomes a plain integer, so programs with the same number of turns issue the same commands.
    """
    start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    step = plain(step)
    span = stop - start if step > 0 else start - stop
    for number in builtins.range(plain((span - 1) // abs(step) + 1)):
        yield start + number * step


class range:  # noqa: A001 - Triton's name
    """Python's `range` in a kernel. The hints for a compiler do nothing."""

    def __init__(
        self,
        arg1: Any,
        arg2: Any = None,
        step: Any = None,
        num_stages: Any = None,
        loop_unroll_factor: Any = None,
        disallow_acc_multi_buffer: Any = False,
        flatten: Any = False,
        warp_specialize: Any = False,
        disable_licm: Any = False,
    ) -> None:
        self.start: Any = 0 if arg2 is None else arg1
        self.end: Any = arg1 if arg2 is None else arg2
        self.step = 1 if step is None else step

    def __iter__(self) -> Iterator[tensor]:
        return runtime_range(self.start, self.end, self.step)


class static_range:
    """Python's `range` of constants, with constants as its integers. Raises KernelError for values of the run."""

    def __init__(self, arg1: Any, arg2: Any = None, step: Any = None) -> None:
        bounds = (0, arg1) if arg2 is None else (arg1, arg2)
        numbers = [_constant(each) for each in (*bounds, 1 if step is None else step)]
        self.start, self.end, self.step = numbers

    def __iter__(self) -> Iterator[Any]:
        number = self.start
        while number < self.end if self.step > 0 else number > self.end:
            yield constant_of(number)
            number += self.step


def condition(arg1: Any, disable_licm: Any = False) -> Any:
    """Returns *arg1*, the condition of a `while`. The hint does nothing."""
    return arg1


def expect_zero(x: Any, mask: Any) -> Any:
    """Returns *x*. The promise that *x* is 0 where *mask* is true is not checked."""
    return x


def _constant(value: Any) -> int:
    number = constant_number(value)
    if not isinstance(number, int):
        refuse("tl.static_range of values of the run", "tl.constexpr integers", "use tl.range")
    return number


def static_assert(cond: Any, msg: Any = "") -> None:
    """Raises CompileTimeAssertionFailure, a KernelError, unless *cond* holds."""
    if not cond:
        where = line() if is_running() else "triton.language"
        error = CompileTimeAssertionFailure(where, *failed_assertion(msg))
        error.error_message = str(msg)
        raise error


def static_print(*values: Any, sep: str = " ", end: str = "\n", file: Any = None, flush: Any = False) -> None:
    """Prints *values* as Python's `print` does."""
    if is_running():
        machine().leave("prints")
    write_out(sep.join(map(str, values)) + end)


def device_print(prefix: Any, *args: Any, hex: Any = False) -> None:  # noqa: A002
    """Prints the kernel's line, *prefix* and each of *args*. A pending block is printed as pending."""
    machine().leave("prints")
    shown = [_shown(each) for each in args]
    write_out(" ".join([f"{line()}:", str(prefix), *shown]) + "\n")


def _shown(value: Any) -> str:
    given = value if isinstance(value, tensor) else None
    if given is None:
        return str(value)
    is_pending = type(given.value) not in NUMBERS and type(given.value) not in FORMS and type(given.value) is not Data
    if is_pending and getattr(given.value, "known", None) is None:
        return f"pending {given.type}"
    return np.array2string(np.asarray(elements_of(given)), threshold=64)


def device_assert(cond: Any, msg: Any = "", mask: Any = None) -> None:
    """Raises KernelError where *cond* does not hold and *mask* is true. The data of the launch decide a pending one."""
    given, chosen = as_tensor(cond), None if mask is None else as_tensor(mask)
    machine().device_assert(_asserted(given), str(msg), None if chosen is None else _asserted(chosen))


def _asserted(given: tensor) -> Any:
    """The value of *given* as the kernel language takes it: a pending value, or known elements."""
    if type(given.value) in NUMBERS:
        return bool(given.value)
    if type(given.value) in FORMS or type(given.value) is Data:
        return HostValue(np.asarray(elements_of(given)) != 0, line)
    return as_argument(given.value)


def debug_barrier() -> None:
    """Does nothing: the commands of a program take effect in their order."""


def assume(cond: Any) -> None:
    """Does nothing: the hint is for a compiler."""


def multiple_of(input: Any, values: Any) -> Any:  # noqa: A002
    """Returns *input*. The hint does nothing."""
    return input


def max_contiguous(input: Any, values: Any) -> Any:  # noqa: A002
    """Returns *input*. The hint does nothing."""
    return input


def max_constancy(input: Any, values: Any) -> Any:  # noqa: A002
    """Returns *input*. The hint does nothing."""
    return input


def inline_asm_elementwise(*arguments: Any, **named: Any) -> NoReturn:
    """Raises KernelError: the chip has no instructions of a GPU."""
    refuse("tl.inline_asm_elementwise", "functions of tl: the chip does not have the instructions of a GPU")
