"""Code through which addresses of objects may decide something: texts of objects, and the order of sets.

Two programs that make equal objects get them at other addresses. An object without a text of its own is shown by its
address, and a set of objects without a hash of their own is ordered by addresses.

Design: docs/design/replay-and-purity.md
"""

from __future__ import annotations

import dis
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from types import CodeType
from typing import Final, NamedTuple

SETS: Final = "builds a set, whose order may follow from the addresses of its items"
TEXTS: Final = "makes a text of a value, which may show the address of the value"
_BUILDS_SETS: Final = frozenset(("BUILD_SET", "SET_ADD", "SET_UPDATE"))
_MAKES_TEXTS: Final = frozenset(("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"))
_NAMES: Final = {"set": SETS, "frozenset": SETS, "str": TEXTS}
"""Builtins that build sets, and that make texts."""
_OF_VIEWS: Final = frozenset(("keys", "items"))
_SET_OPERATORS: Final = frozenset(("&", "|", "^", "-", "&=", "|=", "^=", "-="))
_CHECKS: Final = frozenset(("isinstance", "static_assert", "device_assert"))
"""Functions that show a text, or a class, to nobody but the reader of an error."""
_ENDS: Final = ("JUMP", "STORE", "RETURN", "YIELD", "POP_TOP", "FOR_ITER")
"""The begin of the names of instructions that end the way to a RAISE_VARARGS."""
_CONVERSION: Final = re.compile(r"%(\(.*?\))?[#0\- +]*(\*|\d+)?(\.(\*|\d+))?[sra]")
"""A place of a text for any object, as `%s`."""
_MOST_CODES: Final = 1 << 8
"""The codes whose findings are cached. Source: assumed."""


class Findings(NamedTuple):
    """The instructions of a code that build sets or make texts, each with its cause, and whether the code formats.

    `remainders` are the instructions with the operator `%`, and `has_formats` says whether the code has a text with a
    place for any object. Both together make a text.
    """

    found: Sequence[tuple[dis.Instruction, str]]
    remainders: Sequence[dis.Instruction]
    has_formats: bool


def is_format(value: object) -> bool:
    """Whether *value* is a text with a place for any object, as `"%s"`."""
    return isinstance(value, str) and _CONVERSION.search(value) is not None


@lru_cache(maxsize=_MOST_CODES)
def addresses_in(code: CodeType) -> Findings:
    """Returns the findings of *code*, and of the functions and comprehensions in it.

    A text for an error that is raised at once, and for the front end's own checks, decides nothing.
    """
    own = [each for each in dis.get_instructions(code) if each.opname not in ("EXTENDED_ARG", "CACHE")]
    found: list[tuple[dis.Instruction, str]] = []
    remainders: list[dis.Instruction] = []
    takes_views = any(each.opname in ("LOAD_ATTR", "LOAD_METHOD") and each.argval in _OF_VIEWS for each in own)
    has_formats = False
    for at, each in enumerate(own):
        cause = _cause(each, takes_views)
        is_text = cause == TEXTS or each.argrepr in ("%", "%=") or is_format(each.argval)
        if is_text and (_is_raised(own, at) or _callee(own, at) in _CHECKS):
            continue
        if cause:
            found.append((each, cause))
        elif each.opname == "BINARY_OP" and each.argrepr in ("%", "%="):
            remainders.append(each)
        has_formats |= each.opname in ("LOAD_CONST", "RETURN_CONST") and is_format(each.argval)
    inner = [addresses_in(each) for each in code.co_consts if isinstance(each, CodeType)]
    return Findings(
        [*found, *chain.from_iterable(each.found for each in inner)],
        [*remainders, *chain.from_iterable(each.remainders for each in inner)],
        has_formats or any(each.has_formats for each in inner),
    )


def _cause(instruction: dis.Instruction, takes_views: bool) -> str:
    """Why *instruction* may let addresses decide; "" if it does not."""
    name = instruction.opname
    if name in _BUILDS_SETS:
        return SETS
    if name in _MAKES_TEXTS:
        return TEXTS
    if name == "LOAD_GLOBAL":
        return _NAMES.get(instruction.argval, "")
    return SETS if takes_views and name == "BINARY_OP" and instruction.argrepr in _SET_OPERATORS else ""


def _is_raised(own: Sequence[dis.Instruction], at: int) -> bool:
    """Whether nothing but the end of an error's text comes between instruction *at* and the raise."""
    for each in own[at + 1 :]:
        if each.opname == "RAISE_VARARGS":
            return True
        if each.opname.startswith(_ENDS) or "_JUMP" in each.opname:
            return False
    return False


def _callee(own: Sequence[dis.Instruction], at: int) -> str:
    """The name of the function among whose arguments instruction *at* is; "" for none."""
    calls = 0
    for each in reversed(own[:at]):
        if each.opname.startswith("STORE"):
            return ""
        if each.opname.startswith("CALL"):
            calls += 1
        elif each.opname == "LOAD_METHOD" or "NULL" in each.argrepr:
            if not calls:
                return str(each.argval)
            calls -= 1
    return ""
