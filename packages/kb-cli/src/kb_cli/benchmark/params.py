"""A benchmark's parameters from text: `-p KEY=VALUE` and cells of a table, converted by the type of the field."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo, fields

from kb_cli.benchmark.field_types import Member, choices_of, describe, members_of
from kb_messages import BenchmarkError, PlanError, TileShape
from kb_topology import did_you_mean, listing

_EXPECTED = re.compile(r"Expected `[^`]*`(.*?)(?:, got .*)?")
_BOOLS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class BadValue(Exception):
    """A text that is no value of a field: what it needs to be, and how to get there."""

    def __init__(self, got: str, needs: str, fix: str = "") -> None:
        super().__init__(got, needs, fix)
        self.got, self.needs, self.fix = got, needs, fix

    def at(self, where: str) -> BenchmarkError:
        """The error that says where the text stands."""
        return BenchmarkError(where, self.got, self.needs, self.fix)


def parse_assignments(texts: Iterable[str]) -> dict[str, str]:
    """`KEY=VALUE` texts as a dict. Raises BenchmarkError for one without `=` or a key given twice."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise BenchmarkError("-p", repr(text), "KEY=VALUE", "write it like -p M=512")
        key = key.strip()
        if key in found:
            raise BenchmarkError(f"-p {key}", f"{found[key]!r} and {value!r}", "one value", "give it once")
        found[key] = value
    return found


def build_params(params_type: type[Struct], texts: Mapping[str, str], given: Mapping[str, object] | None = None) -> Any:
    """A *params_type* with the fields of *texts* converted and those of *given* as they are, others at their default.

    Raises BenchmarkError for an unknown key, a text that is no value of its field, and a field without a value.
    """
    known = {field.encode_name: field for field in fields(params_type)}
    values: dict[str, object] = dict(given or {})
    for key, text in texts.items():
        if key not in known:
            fix = next((f"did you mean {name!r}?" for name in known if name.lower() == key.lower()), "")
            fix = fix or did_you_mean(key, known)
            raise BenchmarkError(f"-p {key}", "an unknown parameter", f"one of {listing(known)}", fix)
        try:
            values[key] = value_of(text, known[key].type)
        except BadValue as refusal:
            raise refusal.at(f"-p {key}") from None
    for key, field in known.items():
        if key not in values and field.required:
            raise BenchmarkError(f"-p {key}", "no value", describe(field.type), f"add -p {key}=...")
    return _convert(params_type, values)


def value_of(text: str, type_: Any, full: bool = False) -> object:
    """The value of *type_* that *text* says. Raises BadValue, whose `needs` always has all bounds when *full*."""
    members = members_of(type_)
    for member in members:
        try:
            value = _read(text.strip(), member.type_)
        except ValueError:
            continue
        try:
            msgspec.convert(value, type_)
        except msgspec.ValidationError as error:
            raise _refusal(error, value, type_, full) from None
        return value
    raise _no_member(text, type_, members, full)


def as_text(value: object) -> object:
    """A parameter as JSON and a report show it: what `-p` would take, numbers staying numbers."""
    return str(value) if isinstance(value, TileShape) else msgspec.to_builtins(value)


def shown_params(params: Struct) -> dict[str, object]:
    """Every parameter by name."""
    return {field.encode_name: as_text(getattr(params, field.name)) for field in fields(params)}


def field_of(params_type: type[Struct], name: str) -> FieldInfo | None:
    """The field *name*, or None."""
    return next((field for field in fields(params_type) if field.encode_name == name), None)


def _convert(params_type: type[Struct], values: dict[str, object]) -> Any:
    try:
        return msgspec.convert(values, params_type)
    except msgspec.ValidationError as error:
        raise BenchmarkError("-p", f"parameters that do not go together ({error})", "a legal combination") from None


def _read(text: str, type_: Any) -> object:
    """*text* as a *type_*. Raises ValueError when it is none."""
    origin = get_origin(type_)
    if type_ is NoneType:
        return _one_of(text.lower(), {"none": None, "null": None})
    if type_ is bool:
        return _one_of(text.lower(), _BOOLS)
    if type_ is int or type_ is float:
        return type_(text)
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
    return msgspec.json.decode(text)


def _one_of(text: str, choices: Mapping[str, object]) -> object:
    if text not in choices:
        raise ValueError(text)
    return choices[text]


def _refusal(error: msgspec.ValidationError, value: object, type_: Any, full: bool) -> BadValue:
    bound = _EXPECTED.fullmatch(str(error).partition(" - at ")[0])
    needs = re.sub(r"\.0$", "", bound[1].strip()) if bound else ""
    got = repr(value) if isinstance(value, str) else str(value)
    return BadValue(got, describe(type_) if full or not needs else needs)


def _no_member(text: str, type_: Any, members: list[Member], full: bool) -> BadValue:
    choices = [choice for member in members for choice in choices_of(member.type_)]
    tile = any(member.type_ is TileShape for member in members)
    fix = did_you_mean(text, choices) or ("write it like 128x128x128" if tile else "")
    return BadValue(repr(text), describe(type_, bounds=full), fix)
