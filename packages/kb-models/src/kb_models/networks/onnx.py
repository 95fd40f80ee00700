"""ONNX models: the graph of a file without its weights, as JSON that a benchmark holds.

Needs the extra `kb-models[onnx]`. Shapes are inferred later, when the size of the batch is known (`graph.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from kb_messages import BenchmarkError

KEPT: Final = 64
"""The most elements of a tensor whose values are kept. Source: assumed; shapes, axes, paddings and scales have fewer,
and a bias or a filter of so few elements does no harm."""
_MOST_NBYTES = 2 << 30
_INSTALL = "pip install 'kb-models[onnx]'"


def onnx_for(where: str) -> Any:
    """The package onnx. Raises BenchmarkError for the model *where* if it is not installed."""
    try:
        return import_module("onnx")
    except ImportError:
        raise BenchmarkError(where, "an ONNX model", "the package onnx", _INSTALL) from None


def read_onnx(path: Path) -> str:
    """The model in the file *path* as JSON: nodes, attributes, and the shapes of weights, without their values.

    Weights in files of their own are not read. Raises BenchmarkError for a file that is no ONNX model, and for one of
    more than 2 GiB, which no protobuf may have.
    """
    onnx = onnx_for(str(path))
    nbytes = path.stat().st_size
    if nbytes > _MOST_NBYTES:
        needs = "at most 2 GiB, as any file of ONNX"
        fix = "save the model with external data: onnx.save(model, path, save_as_external_data=True)"
        raise BenchmarkError(str(path), f"a file of {nbytes} bytes", needs, fix)
    try:
        model = onnx.load_model(str(path), load_external_data=False)
    except Exception as error:  # noqa: BLE001 - protobuf raises errors of its own, and OSErrors
        got = f"no ONNX model ({type(error).__name__}: {str(error)[:100]})"
        raise BenchmarkError(str(path), got, "a file of onnx.save or of an exporter") from None
    if not model.graph.node:
        raise BenchmarkError(str(path), "an ONNX model without nodes", "one node or more")
    if model.functions:
        model = import_module("onnx.inliner").inline_local_functions(model)
    _strip(onnx, model, path.parent)
    data: bytes = import_module("onnx.serialization").registry.get("json").serialize_proto(model)
    return str(data, "utf-8")


def of_json(text: str, where: str) -> Any:
    """The model of *text*, which `read_onnx` made."""
    model = onnx_for(where).ModelProto()
    return import_module("onnx.serialization").registry.get("json").deserialize_proto(text.encode(), model)


def n_elements(dims: Any) -> int:
    """The elements of a tensor of shape *dims*."""
    count = 1
    for size in dims:
        count *= int(size)
    return count


def _strip(onnx: Any, model: Any, folder: Path) -> None:
    """Leaves the shapes and dtypes of large tensors, and the values of small ones. Notes of exporters go."""
    graph = model.graph
    model.ClearField("metadata_props")
    model.ClearField("training_info")
    for each in (model, graph, *graph.node):
        each.ClearField("doc_string")
    for each in (*graph.node, graph):
        each.ClearField("metadata_props")
    for tensor in _tensors(onnx, graph):
        if n_elements(tensor.dims) > KEPT:
            kept = onnx.TensorProto(dims=tensor.dims, data_type=tensor.data_type, name=tensor.name)
            tensor.CopyFrom(kept)
        elif tensor.data_location == onnx.TensorProto.EXTERNAL:
            _load(onnx, tensor, folder)
    known = {"", "ai.onnx"}
    foreign = {name for node in graph.node if node.domain not in known for name in node.output}
    stated = [value for value in graph.value_info if value.name in foreign]
    graph.ClearField("value_info")
    graph.value_info.extend(stated)


def _tensors(onnx: Any, graph: Any) -> Iterator[Any]:
    """The tensors of *graph*: initializers, and values of attributes."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t
            elif attribute.type == onnx.AttributeProto.TENSORS:
                yield from attribute.tensors
            elif attribute.type == onnx.AttributeProto.GRAPH:
                yield from _tensors(onnx, attribute.g)


def _load(onnx: Any, tensor: Any, folder: Path) -> None:
    """Loads the few bytes of a small *tensor* from its own file, because shapes may follow from it."""
    try:
        onnx.external_data_helper.load_external_data_for_tensor(tensor, str(folder))
    except Exception as error:  # noqa: BLE001 - a missing file, one that is too short, and a path outside of the folder
        got = f"the tensor {tensor.name}, whose file cannot be read ({str(error)[:100]})"
        raise BenchmarkError(str(folder), got, "the files beside the model, for small tensors") from None
    tensor.ClearField("data_location")
    tensor.ClearField("external_data")
