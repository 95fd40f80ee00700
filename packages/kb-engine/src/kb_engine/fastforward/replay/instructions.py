"""Instructions of a kernel's code, and what they say of it."""

from __future__ import annotations

import dis
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from types import CodeType, EllipsisType, FunctionType, NoneType
from typing import Final

TAKES: Final = frozenset(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"))
"""Those that take an attribute."""
_MOST_CODES: Final = 1 << 8
"""Of which the instructions are kept. Source: assumed; one takes 50 kB."""


@lru_cache(maxsize=_MOST_CODES)
def instructions_of(code: CodeType) -> Sequence[dis.Instruction]:
    """Those of *code*, and of the functions and comprehensions in it."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    own = [each for each in dis.get_instructions(code) if each.opname != "EXTENDED_ARG"]
    return tuple(chain(own, *map(instructions_of, inner)))


@lru_cache(maxsize=_MOST_CODES)
def compares_by_identity(code: CodeType) -> bool:
    """Whether *code*, or a function in it, asks by `is` whether two values are one, and not just equal.

    To ask that of None, True, False and `...` does not count.
    """
    return any(each.opname == "IS_OP" and not _is_single(before) for before, each in pairwise(instructions_of(code)))


def _is_single(operand: dis.Instruction) -> bool:
    return operand.opname == "LOAD_CONST" and type(operand.argval) in (NoneType, bool, EllipsisType)


def constants_of(code: CodeType) -> Iterable[object]:
    """The constants of *code*, and of the functions in it."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from constants_of(each)
        else:
            yield each


def identities_among(values: Sequence[object]) -> tuple[int, ...]:
    """A number for each of *values*, of what tuples among them hold, and of the constants of code: equal ones for one
    object. Nothing where no code among *values* asks by `is` whether two are one."""
    codes = [each for each in values if isinstance(each, CodeType)]
    if not any(map(compares_by_identity, codes)):
        return ()
    numbers: dict[int, int] = {}
    compared = chain(_with_parts(values), *map(constants_of, codes))
    return tuple([numbers.setdefault(id(each), len(numbers)) for each in compared])


def _with_parts(values: Iterable[object]) -> Iterable[object]:
    for each in values:
        yield each
        if isinstance(each, tuple):
            yield from _with_parts(each)


def enclosed_by(function: FunctionType, name: str) -> object:
    """What *function* has under *name* from the function around it; None for another name."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return next((cell.cell_contents for each, cell in cells if each == name), None)
