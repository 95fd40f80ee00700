"""`range` in a rehearsal: the turns of a loop whose bounds follow from the number of the program."""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import CodeType, FunctionType
from typing import Any, Final

from kb_engine.program.symbols import Symbol, plain, whole

_FIRST_BOUND: Final = 0
_NOTHING_DONE: Final = {"CACHE", "EXTENDED_ARG", "NOP"}


def rehearsed_kernel(kernel: FunctionType) -> Callable[..., None]:
    """*kernel*, whose loops over a `range` that follows from the program's number are those of its peers too.

    A kernel that does anything else with a `range` than to go through it at once is returned as it is.
    """
    if "range" in kernel.__globals__ or not _goes_through_ranges(kernel.__code__):
        return kernel
    names = {**kernel.__globals__, "range": _range}
    copy = FunctionType(kernel.__code__, names, kernel.__name__, kernel.__defaults__, kernel.__closure__)
    copy.__kwdefaults__ = kernel.__kwdefaults__
    return copy


def _goes_through_ranges(code: CodeType) -> bool:
    """Whether each `range` in *code* is called where a loop goes through it, so that nothing else ever has it."""
    steps = [each for each in dis.get_instructions(code) if each.opname not in _NOTHING_DONE]
    found = [number for number, each in enumerate(steps) if each.argval == "range"]
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return all(_is_gone_through(steps[number:]) for number in found) and all(map(_goes_through_ranges, inner))


def _is_gone_through(steps: list[dis.Instruction]) -> bool:
    """Whether *steps*, which begin with the name `range`, call it with some values, and then start a loop.

    The call is where one value is left on the stack in place of the name and what was put above it.
    """
    depth = 0
    for each, following in pairwise(steps):
        if each.opcode in dis.hasjrel or each.opcode in dis.hasjabs:
            return False
        depth += dis.stack_effect(each.opcode, each.arg if each.opcode >= dis.HAVE_ARGUMENT else None)
        if depth <= 1:
            return each.opname == "CALL" and following.opname == "GET_ITER"
    return False


def _range(*bounds: Any) -> Any:
    """As `range`, to be gone through once. All peers have as many numbers."""
    if not 1 <= len(bounds) <= 3 or not any(type(each) is Symbol for each in bounds):
        return range(*bounds)
    start, stop = (_FIRST_BOUND, bounds[0]) if len(bounds) == 1 else bounds[:2]
    start, stop, step = whole(start), whole(stop), plain(bounds[2]) if len(bounds) == 3 else 1
    if step == 0:
        return range(0, 0, step)
    count = plain((stop - start + step - (1 if step > 0 else -1)) // step)
    return _numbers(start, step, count)


def _numbers(start: Any, step: int, count: int) -> Iterator[Any]:
    for turn in range(count):
        yield start + turn * step
