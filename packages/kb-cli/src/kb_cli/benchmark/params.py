"""A benchmark's parameters from `-p KEY=VALUE` texts and table cells, and back to text for reports."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo, fields

from kb_cli.benchmark.field_types import describe
from kb_cli.benchmark.field_values import BadValue, value_of
from kb_cli.benchmark.user_code import user_code
from kb_messages import BenchmarkError, TileShape
from kb_topology import did_you_mean, listing


def parse_assignments(texts: Iterable[str]) -> dict[str, str]:
    """`KEY=VALUE` texts as a dict. Raises BenchmarkError for a text without `=`, and for a key given twice."""
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
    """A *params_type* with the values that *texts* say and the values *given*; other fields have their default.

    Raises BenchmarkError for an unknown key, for a text that is no value of its field, and for a field without a value.
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
        except BadValue as bad:
            raise bad.at(f"-p {key}") from None
    for key, field in known.items():
        if key not in values and field.required:
            raise BenchmarkError(f"-p {key}", "no value", describe(field.type), f"add -p {key}=...")
    return _convert(params_type, values)


def as_text(value: object) -> object:
    """A parameter as JSON and reports show it. Numbers stay numbers; other values are texts that `-p` takes.

    Raises TypeError, ValueError, OverflowError or RecursionError for what JSON cannot hold.
    """
    shown: object = str(value) if isinstance(value, TileShape) else msgspec.to_builtins(value)
    msgspec.json.encode(shown)
    return shown


def shown_params(params: Struct) -> dict[str, object]:
    """Every parameter by name. Raises BenchmarkError for a value that JSON, and so a run folder, cannot hold."""
    shown: dict[str, object] = {}
    for field in fields(params):
        try:
            shown[field.encode_name] = as_text(value := getattr(params, field.name))
        except (TypeError, ValueError, OverflowError, RecursionError):
            got, needs = f"a {type(value).__name__} that JSON cannot hold", "numbers, texts, lists or dicts"
            raise BenchmarkError(f"-p {field.encode_name}", got, needs) from None
    return shown


def field_of(params_type: type[Struct], name: str) -> FieldInfo | None:
    """The field *name*, or None."""
    return next((field for field in fields(params_type) if field.encode_name == name), None)


def _convert(params_type: type[Struct], values: dict[str, object]) -> Any:
    module = sys.modules.get(params_type.__module__)
    with user_code(Path(getattr(module, "__file__", None) or params_type.__module__), f"{params_type.__name__}()"):
        try:
            return msgspec.convert(values, params_type)
        except msgspec.ValidationError as error:
            got = f"parameters that do not go together ({error})"
            raise BenchmarkError("-p", got, "a legal combination") from None
