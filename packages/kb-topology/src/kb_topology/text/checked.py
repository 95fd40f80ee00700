"""Conversion of plain data to a typed msgspec Struct. An error names the line that is wrong.

The messages of msgspec leave mapping keys out of paths (`$.nodes[...].rows`). So this module walks to the wrong value
again, in the data and in the type together, and writes the error from the value and the type at that place.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from threading import RLock
from types import UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from kb_messages import TopologyError
from kb_topology.text.sentences import did_you_mean, listing, short
from kb_topology.text.source import YamlSource
from kb_topology.text.yaml_reader import YamlPath

T = TypeVar("T")

_ONE_AT_A_TIME: Final = RLock()
"""msgspec looks at a type when it is first used, and a thread that uses the type meanwhile crashes the process."""
_STEP = re.compile(r"\[(\d+|\.\.\.)\]|\.([^.\[]+)")
_FIELD = re.compile(r"Object (?:missing required|contains unknown) field `(.*)`")
_EXPECTED = re.compile(r"Expected `([^`]*)`(.*?)(?:, got .*)?")
_WORDS = {
    "object": "a mapping",
    "array": "a list",
    "str": "a string",
    "bool": "true or false",
    "int": "an int",
    "float": "a number",
}


class UnknownKeyError(TopologyError):
    """A key that is unknown in its part of a topology."""


class WrongValueError(TopologyError):
    """A value whose type or range is never allowed at its place in a topology."""


class _Problem(msgspec.Struct):
    """The *value* at *path* that msgspec refused to read as *type_*, and the message of msgspec without the path."""

    path: YamlPath
    value: Any
    type_: Any
    message: str


def convert_checked(
    raw: object, type_: type[T], source: YamlSource, base_path: YamlPath = (), *, also_known: Iterable[str] = ()
) -> T:
    """*raw*, the data at *base_path* of *source*, converted to *type_*.

    *also_known* are legal keys that *type_* does not have, because the caller took them out of *raw*. The error about
    an unknown key lists them. Raises WrongValueError for the first value of a wrong type or range, UnknownKeyError for
    the first unknown key, and TopologyError for the first missing key.
    """
    if isinstance(raw, Mapping):
        raw = dict(raw)  # msgspec accepts unknown keys in mappings other than dict
    try:
        with _ONE_AT_A_TIME:
            return msgspec.convert(raw, type_)
    except msgspec.ValidationError as error:
        problem = _find(raw, type_, base_path) or _Problem(base_path, raw, type_, str(error))
    raise _sentence(problem, source, tuple(also_known))


def _find(value: Any, type_: Any, path: YamlPath) -> _Problem | None:
    try:
        with _ONE_AT_A_TIME:
            msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$")
    else:
        return None
    # msgspec writes `[...]` for every key of a mapping: each item is tried again, to find the wrong one.
    for index, key in _STEP.findall(where.rstrip("`")):
        if index == "...":
            item_type = _child_type(type_, None)
            found = (_find(item, item_type, (*path, name)) for name, item in value.items())
            return next(filter(None, found), _Problem(path, value, type_, message))
        step = key or int(index)
        value, type_, path = value[step], _child_type(type_, step), (*path, step)
    return _Problem(path, value, type_, message)


def _child_type(type_: Any, step: str | int | None) -> Any:
    """The type of the item at *step* of a *type_*: the key of a struct, the index of a list, None for a mapping."""
    for member in _members(type_):
        origin, args = get_origin(member) or member, get_args(member)
        if isinstance(step, str) and _is_struct(origin):
            return next((f.type for f in msgspec.structs.fields(member) if f.encode_name == step), Any)
        if step is None and isinstance(origin, type) and issubclass(origin, Mapping):
            return args[1] if args else Any
        if isinstance(step, int) and args and isinstance(origin, type) and issubclass(origin, Collection):
            return _item_type(origin, args, step)
    return Any


def _item_type(origin: type, args: tuple[Any, ...], index: int) -> Any:
    return args[index] if origin is tuple and args[-1] is not Ellipsis else args[0]


def _members(type_: Any) -> Iterator[Any]:
    """The alternatives of a union, without Annotated. A plain type is its own only alternative."""
    if get_origin(type_) is Annotated:
        yield from _members(get_args(type_)[0])
    elif get_origin(type_) in (Union, UnionType):
        for member in get_args(type_):
            yield from _members(member)
    else:
        yield type_


def _is_struct(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)


def _keys(type_: Any) -> list[str]:
    return [f.encode_name for member in _members(type_) if _is_struct(member) for f in msgspec.structs.fields(member)]


def _choices(type_: Any) -> list[str]:
    """The values of every Enum and Literal among the members of *type_*, in their form in a YAML file."""
    choices: list[str] = []
    for member in _members(type_):
        if isinstance(member, type) and issubclass(member, Enum):
            choices += [str(item.value) for item in member]
        elif get_origin(member) is Literal:
            choices += [str(value) for value in get_args(member)]
    return choices


def _sentence(problem: _Problem, source: YamlSource, also_known: tuple[str, ...]) -> TopologyError:
    field = _FIELD.fullmatch(problem.message)
    if field and "unknown" in problem.message:
        return _unknown_key(problem, field[1], source, also_known)
    if field:
        return source.error(problem.path, f"no {field[1]!r}", "that key", f"add `{field[1]}: ...`")
    choices = _choices(problem.type_)
    if problem.message.startswith("Invalid enum value") and choices:
        fix = did_you_mean(str(problem.value), choices)
        error = source.error(problem.path, short(problem.value), f"one of {listing(choices)}", fix)
    else:
        error = source.error(problem.path, short(problem.value), _needs(problem))
    return WrongValueError(*error.args)


def _unknown_key(problem: _Problem, key: str, source: YamlSource, also_known: tuple[str, ...]) -> TopologyError:
    known = [*_keys(problem.type_), *also_known]
    fix = did_you_mean(key, known) or "remove it"
    error = source.error((*problem.path, key), "an unknown key", f"one of {listing(known)}", fix)
    return UnknownKeyError(*error.args)


def _needs(problem: _Problem) -> str:
    expected = _EXPECTED.fullmatch(problem.message)
    if not expected:
        return f"a legal value ({problem.message})"
    bound = expected[2].strip()
    if bound.startswith(("<", ">")):
        return re.sub(r"\.0$", "", bound)
    words = " or ".join(_WORDS.get(kind, kind) for kind in expected[1].split(" | "))
    return f"{words} {bound}".strip()
