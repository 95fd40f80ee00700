"""Reads texts as values of parameter types, and describes these types in words for errors."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from kb_dataexec.files import decode_json
from kb_messages import BenchmarkError, PlanError, TileShape
from kb_topology import did_you_mean, listing

_WORDS: dict[Any, str] = {int: "an int", float: "a number", bool: "true or false", str: "text", NoneType: "none"}
_SIGNS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<", "multiple_of": "a multiple of"}


class Member(NamedTuple):
    """One alternative of a field's type, with its bounds."""

    type_: Any
    bounds: str


def describe(type_: Any, bounds: bool = True) -> str:
    """Returns *type_* in words: `an int >= 1`."""
    return " or ".join(_word(member, bounds) for member in members_of(type_))


def members_of(type_: Any, bounds: str = "") -> list[Member]:
    """Returns the alternatives of *type_*, inside Annotated and unions. Plain text comes last, because it takes any
    text.
    """
    if get_origin(type_) is Annotated:
        inner, *notes = get_args(type_)
        return members_of(inner, " and ".join(filter(None, (bounds, *map(_bounds, notes)))))
    if get_origin(type_) in (Union, UnionType):
        found = [member for part in get_args(type_) for member in members_of(part, bounds)]
        return sorted(found, key=lambda member: (member.type_ is str, member.type_ is float, member.type_ is NoneType))
    return [Member(type_, bounds)]


def _bounds(note: object) -> str:
    if not isinstance(note, Meta):
        return ""
    given = ((sign, getattr(note, name)) for name, sign in _SIGNS.items())
    return " and ".join(f"{sign} {bound}" for sign, bound in given if bound is not None)


def _renamed(type_: Any) -> Mapping[str, str]:
    """Returns the present names of values that had other names, by those: a note `Meta(extra={"renamed": {...}})`."""
    if get_origin(type_) in (Union, UnionType):
        return {old: new for part in get_args(type_) for old, new in _renamed(part).items()}
    notes = get_args(type_)[1:] if get_origin(type_) is Annotated else ()
    extras = [note.extra for note in notes if isinstance(note, Meta) and note.extra]
    return {old: new for extra in extras for old, new in extra.get("renamed", {}).items()}


def choices_of(type_: Any) -> list[str]:
    """Returns the values of an Enum or a Literal, as text."""
    if isinstance(type_, type) and issubclass(type_, Enum):
        return [str(item.value) for item in type_]
    return [str(choice) for choice in get_args(type_)] if get_origin(type_) is Literal else []


def _word(member: Member, bounds: bool) -> str:
    choices = choices_of(member.type_)
    if choices:
        return f"one of {listing(choices)}"
    word = "a tile MxNxK" if member.type_ is TileShape else _WORDS.get(member.type_, f"JSON of {member.type_}")
    return f"{word} {member.bounds}" if bounds and member.bounds else word


_EXPECTED = re.compile(r"Expected `[^`]*`(.*?)(?:, got .*)?")
"""The message of msgspec for a value out of bounds; the group is the bound."""
_MOST_CHARACTERS = 200
_BOOLS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class BadValue(Exception):
    """Raised for a text that is no value of a field, with the parts of an error: *got*, *needs* and *fix*."""

    def __init__(self, got: str, needs: str, fix: str = "") -> None:
        super().__init__(got, needs, fix)
        self.got, self.needs, self.fix = got, needs, fix

    def at(self, where: str) -> BenchmarkError:
        """Returns the error for users, which names the place of the text."""
        return BenchmarkError(where, self.got, self.needs, self.fix)


def value_of(text: str, type_: Any, full: bool = False) -> object:
    """Returns *text* as a value of *type_*. Raises BadValue, which states the whole type and all bounds when *full*
    is set.
    """
    members = members_of(type_)
    for member in members:
        try:
            value = _read(text.strip(), member.type_)
        except ValueError:
            continue
        try:
            msgspec.convert(value, type_)
        except msgspec.ValidationError as error:
            raise _out_of_bounds(error, value, type_, full) from None
        return value
    raise _no_member(text, type_, members, full)


def _read(text: str, type_: Any) -> object:
    """Returns *text* as a *type_*, bounds apart. Raises ValueError when *text* is no *type_*."""
    origin = get_origin(type_)
    if type_ is NoneType:
        return _one_of(text.lower(), {"none": None, "null": None})
    if type_ is bool:
        return _one_of(text.lower(), _BOOLS)
    if type_ is int:
        return _int(text)
    if type_ is float:
        return _float(text)
    if type_ is TileShape:
        try:
            return TileShape.parse(text)
        except PlanError as error:
            raise ValueError(str(error)) from None
    if type_ is str or type_ is Any:
        return text
    if isinstance(type_, type) and issubclass(type_, Enum):
        return _one_of(text, {str(item.value): item for item in type_})
    if origin is Literal:
        return _one_of(text, {str(choice): choice for choice in get_args(type_)})
    return decode_json(text.encode("utf-8", "surrogatepass"), object, "the value", _NoJson)


_KIBI = re.compile(r"(\d{1,15})k")


class _NoJson(BenchmarkError, ValueError):
    """Raised for a text that is no JSON."""


def _int(text: str) -> int:
    """Returns *text* as an integer of 64 bits, as JSON and numpy hold it. `4k` is 4096, as contexts are written."""
    kibi = _KIBI.fullmatch(text)
    value = int(text) if kibi is None else int(kibi[1]) * 1024
    if not -(2**63) <= value < 2**63:
        raise ValueError("more than 64 bits")
    return value


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("NaN or infinity, which JSON cannot hold")
    return value


def _one_of(text: str, choices: Mapping[str, object]) -> object:
    if text not in choices:
        raise ValueError(text)
    return choices[text]


def _out_of_bounds(error: msgspec.ValidationError, value: object, type_: Any, full: bool) -> BadValue:
    bound = _EXPECTED.fullmatch(str(error).partition(" - at ")[0])
    needs = re.sub(r"\.0$", "", bound[1].strip()) if bound else ""
    got = repr(value) if isinstance(value, str) else str(value)
    return BadValue(got, describe(type_) if full or not needs else needs)


def _no_member(text: str, type_: Any, members: list[Member], full: bool) -> BadValue:
    choices = [choice for member in members for choice in choices_of(member.type_)]
    tile = any(member.type_ is TileShape for member in members)
    renamed = _renamed(type_).get(text)
    fix = f"{text!r} is called {renamed!r} now" if renamed else ""
    fix = fix or did_you_mean(text, choices) or ("write it like 128x128x128" if tile else "")
    got = repr(text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}...")
    types = {member.type_ for member in members if member.type_ in (int, float)}
    if not fix and types and _LIST.fullmatch(text):
        fix = "kb sweep runs each of several values"
    if not fix and types and _is_number(text):
        fix = "numbers are finite, and integers have at most 64 bits"
    return BadValue(got, describe(type_, bounds=full), fix)


_LIST = re.compile(r"\s*\d[\w.]*(\s*,\s*\d[\w.]*)+\s*")


def _is_number(text: str) -> bool:
    return text.strip().lower().lstrip("+-") in ("nan", "inf", "infinity") or text.strip().lstrip("+-").isdigit()
