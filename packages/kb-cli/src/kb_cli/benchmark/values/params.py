"""A benchmark's parameters from `-p KEY=VALUE` texts and table cells, and back to text for reports."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import NODEFAULT, UNSET, Struct
from msgspec.structs import FieldInfo, fields

from kb_cli.benchmark.code.user_code import user_code
from kb_cli.benchmark.values.field_values import BadValue, describe, value_of
from kb_messages import BenchmarkError, TileShape, check_text
from kb_topology import did_you_mean, listing


def parse_assignments(texts: Iterable[str]) -> dict[str, str]:
    """Returns `KEY=VALUE` texts as a dict. Raises BenchmarkError for a text without `=`, and for a key given twice."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise BenchmarkError("-p", repr(text), "KEY=VALUE", "write it like -p M=512")
        key = key.strip()
        if key in found:
            raise BenchmarkError(f"-p {key}", f"{found[key]!r} and {value!r}", "one value", "give it once")
        check_text(value, f"-p {key}", BenchmarkError)
        found[key] = value
    return found


def build_params(params_type: type[Struct], texts: Mapping[str, str]) -> Any:
    """Returns a *params_type* with the values of *texts*; other fields have their default.

    Raises BenchmarkError for an unknown key, for a text that is no value of its field, and for a field without a value.
    """
    with params_code(params_type):
        return ParamsBuilder(params_type, texts).build({})


class ParamsBuilder:
    """Builds parameters of *params_type* that have the values of *texts* in common.

    Raises BenchmarkError for an unknown key, and for a text that is no value of its field.
    """

    def __init__(self, params_type: type[Struct], texts: Mapping[str, str]) -> None:
        self._type = params_type
        self._known = {field.encode_name: field for field in fields(params_type)}
        self._values: dict[str, object] = {}
        for key, text in texts.items():
            if key not in self._known:
                fix = did_you_mean(key, self._known)
                raise BenchmarkError(f"-p {key}", "an unknown parameter", f"one of {listing(self._known)}", fix)
            try:
                self._values[key] = value_of(text, self._known[key].type)
            except BadValue as bad:
                raise bad.at(f"-p {key}") from None

    def build(self, given: Mapping[str, object]) -> Any:
        """Returns parameters with the values *given* too. The caller guards the author's code, with `params_code`.

        Raises BenchmarkError for a field without a value, and for values that do not go together.
        """
        values = {**self._values, **given}
        for key, field in self._known.items():
            if key not in values and field.required:
                raise BenchmarkError(f"-p {key}", "no value", describe(field.type), f"add -p {key}=...")
        try:
            return msgspec.convert(values, self._type)
        except msgspec.ValidationError as error:
            got = f"parameters that do not go together ({error})"
            raise BenchmarkError("-p", got, "a legal combination") from None


def params_code(params_type: type[Struct]) -> AbstractContextManager[None]:
    """Returns a guard for the code of *params_type*, such as its `__post_init__`."""
    module = sys.modules.get(params_type.__module__)
    return user_code(Path(getattr(module, "__file__", None) or params_type.__module__), f"{params_type.__name__}()")


def as_text(value: object) -> object:
    """Returns a parameter as JSON and reports show it. Numbers stay numbers; other values are texts that `-p` takes.

    Raises TypeError, ValueError, OverflowError or RecursionError for a value that JSON cannot hold.
    """
    shown: object = str(value) if isinstance(value, TileShape) else msgspec.to_builtins(value)
    msgspec.json.encode(shown)
    return shown


def default_of(field: FieldInfo) -> object:
    """Returns the default of the parameter *field* as `as_text` shows it, and UNSET for one that has to be given.

    The caller guards the author's code, with `params_code`. Raises the errors of `as_text`.
    """
    if field.default is not NODEFAULT:
        return as_text(field.default)
    return UNSET if field.default_factory is NODEFAULT else as_text(field.default_factory())


def shown_params(params: Struct) -> dict[str, object]:
    """Returns every parameter by name. Raises BenchmarkError for a value that JSON, and so a run folder, cannot
    hold.
    """
    shown: dict[str, object] = {}
    for field in fields(params):
        try:
            shown[field.encode_name] = as_text(value := getattr(params, field.name))
        except (TypeError, ValueError, OverflowError, RecursionError):
            got, needs = f"a {type(value).__name__} that JSON cannot hold", "numbers, texts, lists or dicts"
            raise BenchmarkError(f"-p {field.encode_name}", got, needs) from None
    return shown
