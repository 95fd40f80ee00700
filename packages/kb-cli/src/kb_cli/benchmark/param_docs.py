"""The parameters of a benchmark as `kb run BENCH --params` prints them: type, default, and meaning."""

from __future__ import annotations

import inspect
from typing import Annotated, Any, get_args, get_origin

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import FieldInfo, fields

from kb_cli.benchmark.load import LoadedBenchmark
from kb_cli.benchmark.values.field_values import describe
from kb_cli.benchmark.values.params import default_of, params_code


class ParamDoc(Struct, frozen=True, kw_only=True):
    """One parameter. `default` is missing for one that has to be given; `doc` is the description in its type."""

    name: str
    type: str
    default: Any | UnsetType = UNSET
    doc: str = ""


class BenchmarkDoc(Struct, frozen=True, kw_only=True):
    """A benchmark, its author's texts on it and on its parameters, and the parameters."""

    benchmark: str
    doc: str
    params_doc: str
    parameters: list[ParamDoc]


def benchmark_doc(loaded: LoadedBenchmark) -> BenchmarkDoc:
    """Returns the documentation of *loaded*. Raises BenchmarkError for a default that cannot be made."""
    params_type = loaded.bench.Params
    with params_code(params_type):
        parameters = [_param_doc(field) for field in fields(params_type)]
    return BenchmarkDoc(
        benchmark=loaded.name,
        doc=_doc(loaded.bench, type(loaded.bench)),
        params_doc=_doc(params_type),
        parameters=parameters,
    )


def _param_doc(field: FieldInfo) -> ParamDoc:
    text = _field_doc(field.type)
    return ParamDoc(name=field.encode_name, type=describe(field.type), default=default_of(field), doc=text)


def _field_doc(type_: Any) -> str:
    """Returns the description in the annotations of *type_*."""
    if get_origin(type_) is not Annotated:
        return ""
    notes = [note.description for note in get_args(type_)[1:] if isinstance(note, Meta) and note.description]
    return " ".join(notes)


def _doc(*found: object) -> str:
    """Returns the first docstring that one of *found* has itself."""
    own = next((text for each in found if (text := vars(each).get("__doc__"))), None)
    return inspect.cleandoc(own) if isinstance(own, str) else ""
