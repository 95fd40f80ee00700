"""Instructions of a kernel's code, and the ones that make the kernel impure.

Design: docs/design/replay-and-purity.md
"""

from __future__ import annotations

import dis
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from pathlib import Path
from types import CodeType, EllipsisType, FunctionType, NoneType
from typing import Final, NamedTuple

from kb_engine.observe.slow_path import SkipRefusal
from kb_engine.program.author.kernel_lines import line_of

TAKES: Final = frozenset(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"))
"""The instructions that take an attribute."""
_MOST_CODES: Final = 1 << 8
"""The codes whose instructions are cached. Source: assumed; one takes 50 kB."""


@lru_cache(maxsize=_MOST_CODES)
def instructions_of(code: CodeType) -> Sequence[dis.Instruction]:
    """Returns the instructions of *code*, and of the functions and comprehensions in it."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    own = [each for each in dis.get_instructions(code) if each.opname != "EXTENDED_ARG"]
    return tuple(chain(own, *map(instructions_of, inner)))


@lru_cache(maxsize=_MOST_CODES)
def compares_by_identity(code: CodeType) -> bool:
    """Whether *code*, or a function in it, compares values by `is`.

    Comparisons with None, True, False and `...` do not count.
    """
    return any(each.opname == "IS_OP" and not _is_single(before) for before, each in pairwise(instructions_of(code)))


def _is_single(operand: dis.Instruction) -> bool:
    return operand.opname == "LOAD_CONST" and type(operand.argval) in (NoneType, bool, EllipsisType)


def constants_of(code: CodeType) -> Iterable[object]:
    """Yields the constants of *code*, and of the functions in it."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from constants_of(each)
        else:
            yield each


def identities_among(values: Sequence[object]) -> tuple[int, ...]:
    """Returns a number for each object among *values*, in tuples among them and in constants of code.

    Equal numbers stand for one object. The result is empty where no code among *values* compares by `is`.
    """
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
    """Returns the value of *name* in the scope around *function*, or None for another name."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return next((cell.cell_contents for each, cell in cells if each == name), None)


INSTRUCTIONS: Final = frozenset((
    "STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "IMPORT_NAME", "IMPORT_FROM", "POP_EXCEPT",
    "LOAD_BUILD_CLASS", "LOAD_NAME", "STORE_NAME", "LOAD_LOCALS", "GET_AWAITABLE", "MATCH_CLASS",
))  # fmt: skip
"""Instructions that change or read more than the code's own values, read attributes by computed names, or catch
errors."""
ATTRIBUTES: Final = frozenset((
    "known", "place", "holder", "producer", "completion", "readers", "matrix", "operators", "is_pending", "freed",
    "in_registers", "print", "capture", "materialize", "free", "random", "datetime64", "format", "format_map",
    "gi_frame", "cr_frame", "ag_frame", "geterr", "seterr", "geterrcall", "seterrcall", "getbufsize", "setbufsize",
    "get_printoptions", "set_printoptions", "dump", "tofile",
))  # fmt: skip
"""Impure attributes: progress of the simulation, time, calls with effects beyond commands, attributes by names in a
text, names of a frame, lasting settings of numpy, and methods of arrays that write files."""
CHANGES: Final = frozenset((
    "append", "clear", "extend", "insert", "pop", "popitem", "remove", "reverse", "setdefault", "sort", "update",
    "STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE", "+=", "*=", "|=",
))  # fmt: skip
"""Attributes, instructions and operators that change a list or a dict."""


class Impurity(NamedTuple):
    """The reason why programs of a kernel may differ: a clause, and its line, if there is one."""

    cause: str
    filename: str = ""
    lineno: int = 0

    def why(self, root: Path) -> SkipRefusal:
        """Returns the refusal, with a line relative to *root*."""
        line = line_of(self.filename, self.lineno, root) if self.filename else ""
        return SkipRefusal(self.cause, "let the kernel use only its arguments and its own names", line)
