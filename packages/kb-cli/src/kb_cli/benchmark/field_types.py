"""Types of parameters in words, for error sentences."""

from __future__ import annotations

from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from msgspec import Meta

from kb_messages import TileShape
from kb_topology import listing

_WORDS: dict[Any, str] = {int: "an int", float: "a number", bool: "true or false", str: "text", NoneType: "none"}
_SIGNS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<", "multiple_of": "a multiple of"}


class Member(NamedTuple):
    """One alternative of a field's type, with its bounds."""

    type_: Any
    bounds: str


def describe(type_: Any, bounds: bool = True) -> str:
    """*type_* in words: `an int >= 1`."""
    return " or ".join(_word(member, bounds) for member in members_of(type_))


def members_of(type_: Any, bounds: str = "") -> list[Member]:
    """The alternatives of *type_*, inside Annotated and unions. Plain text comes last, because it takes any text."""
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


def choices_of(type_: Any) -> list[str]:
    """The values of an Enum or a Literal, as text."""
    if isinstance(type_, type) and issubclass(type_, Enum):
        return [str(item.value) for item in type_]
    return [str(choice) for choice in get_args(type_)] if get_origin(type_) is Literal else []


def _word(member: Member, bounds: bool) -> str:
    choices = choices_of(member.type_)
    if choices:
        return f"one of {listing(choices)}"
    word = "a tile MxNxK" if member.type_ is TileShape else _WORDS.get(member.type_, f"JSON of {member.type_}")
    return f"{word} {member.bounds}" if bounds and member.bounds else word
