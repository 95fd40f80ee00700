"""Finds the model or network that a user names: a bundled configuration, or a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent
CONFIGS = _FOLDER / "configs"


def names() -> list[str]:
    """The names of the bundled models."""
    return sorted(path.stem for path in CONFIGS.glob("*.json"))


def source_of(text: str) -> tuple[Path, bytes] | None:
    """The benchmark file of the workload that *text* names, as a path for its errors and its source; None for others.

    The source holds the configuration, the table or the graph, so a run folder repeats the run without the file that
    *text* names. Raises BenchmarkError for a file that is no network, with the look of the file.
    """
    if text in names():
        config = json.loads((CONFIGS / f"{text}.json").read_text(encoding="utf-8"))
        return _FOLDER / f"{text}.py", model_source(text, config)
    path = Path(text)
    if not path.exists():
        return None
    from kb_models.networks import network_file  # slow to load, and not needed for names

    found = network_file(path)
    if found is None:
        return None
    name, place = _name_of(path), path.resolve().with_name(f"{path.name}.py")
    if found.kind == "config":
        return place, model_source(name, found.content)
    if found.kind == "onnx":
        return place, _onnx_source(name, path)
    return place, _table_source(name, path, found.content)


source_of.names = names  # type: ignore[attr-defined]


def _name_of(path: Path) -> str:
    """The name of the network in *path*: that of the file, or of its folder for a `config.json`."""
    resolved = path.resolve()
    stem = resolved.parent.name if resolved.name == "config.json" and resolved.parent.name else resolved.stem
    return "".join(char if char.isprintable() and char != "\\" else "_" for char in stem[:80]).lstrip(".") or "network"


def model_source(name: str, config: dict[str, Any]) -> bytes:
    """The benchmark file of the model *config*, the content of a `config.json`. Raises as `architecture_of` does."""
    defaults, described = _described(name, config)
    types = {each: "Size" if isinstance(value, int) else "str" for each, value in defaults.items()}
    lines = "".join(f"    {each}: {types[each]} = {value!r}\n" for each, value in defaults.items())
    source = f'''{_docstring("", described, "")}

from kb_models import ModelParams, ModelWorkload, Size


class Params(ModelParams, frozen=True, kw_only=True, forbid_unknown_fields=True):
    __doc__ = ModelParams.__doc__
{lines}

class Model(ModelWorkload):
    """A model, from the sizes of its `config.json`."""

    name = {name!r}
    Params = Params
    config = {config!r}
'''
    return source.encode()


def _described(name: str, config: dict[str, Any]) -> tuple[dict[str, object], str]:
    """The defaults of the parameters of the model *config*, and a sentence about it."""
    from kb_models.models.registry import architecture_of  # slow to load, and not needed for names

    model = architecture_of(config, name)
    blocks = f"{model.layers} blocks, " if model.layers > 1 else ""
    return model.defaults, f"A model of type {config['model_type']}, of {blocks}{model.parameters:,} parameters."


def _table_source(name: str, path: Path, text: str) -> bytes:
    from kb_models.networks import read_table

    layers = "".join(f"        {layer!r},\n" for layer in read_table(str(path), text))
    source = f'''{_docstring("The layers of", path.name, "as a benchmark of kb-models.")}

from kb_models.networks import Convolution, Product, TableWorkload


class Network(TableWorkload):
    """The layers of a table."""

    name = {name!r}
    layers = (
{layers}    )
'''
    return source.encode()


def _onnx_source(name: str, path: Path) -> bytes:
    from kb_models.networks import read_onnx

    source = f'''{_docstring("The network", path.name, "as a benchmark of kb-models.")}

from kb_models.networks import OnnxWorkload

MODEL = {_raw(read_onnx(path))}


class Network(OnnxWorkload):
    """The graph of an ONNX model, with the shapes of its weights."""

    name = {name!r}
    model = MODEL
'''
    return source.encode()


def _raw(text: str) -> str:
    """*text*, which is JSON, as a literal of Python of many lines."""
    escaped = text.replace("\\", "\\\\")
    return f"'''\\\n{escaped}'''" if "'''" not in text else repr(text)


def _docstring(before: str, name: str, after: str) -> str:
    """A docstring on one line that names a file; *name* may be any text."""
    shown = ascii(name).strip("\"'").replace('"', "'")
    return f'"""{" ".join(filter(None, (before, shown, after)))}"""'
