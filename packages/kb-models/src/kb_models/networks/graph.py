"""Graph: the nodes of an ONNX model with static shapes. Values that follow from shapes are computed already."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_messages import BenchmarkError, decode_text
from kb_models.networks.onnx import n_elements, of_json, onnx_for
from kb_topology import did_you_mean, listing

MOST_COMPUTED: Final = 1 << 16
"""The most elements of a constant that is computed. Source: assumed; larger ones are masks and tables, of random
content as weights."""
Shape = tuple[int, ...]


class Node(NamedTuple):
    """A node that is left: its operator, its name, its inputs ("" for one left out), its outputs and its attributes."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    def get(self, name: str, default: Any) -> Any:
        """The attribute *name*, or *default* where the node leaves it out."""
        return self.attributes.get(name, default)


class Graph(NamedTuple):
    """The nodes in order, and facts about their values by name.

    `shapes` are static shapes; a value without one depends on an operator that nobody knows. `integers` are the values
    of integer or boolean elements. `weights` have no values; `constants` have. `uses` is how often a value is read,
    by the outputs of the model too.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    shapes: Mapping[str, Shape]
    integers: frozenset[str]
    weights: frozenset[str]
    constants: Mapping[str, npt.NDArray[Any]]
    uses: Mapping[str, int]


def graph_of(text: str, where: str, batch: int, dims: Mapping[str, int]) -> Graph:
    """The graph of *text*, which `read_onnx` made, with *batch* and *dims* for its dynamic dimensions.

    A dynamic dimension is *batch* if it is the first of an input or has `batch` in its name; *dims* have precedence.
    Raises BenchmarkError for a dynamic dimension without a size, for a size of no dimension, and for a batch where the
    file fixes its own.
    """
    inference = _Inference(of_json(text, where), where)
    inference.set_inputs(batch, dims)
    for node in inference.model.graph.node:
        inference.step(node)
    return inference.graph()


class _Inference:
    def __init__(self, model: Any, where: str) -> None:
        self.model, self.where = model, where
        self._onnx = onnx_for(where)
        self._versions = {each.domain if each.domain != "ai.onnx" else "": each.version for each in model.opset_import}
        self._types: dict[str, Any] = {}
        self._constants: dict[str, Any] = {}
        self._weights: set[str] = set()
        self._inputs: list[str] = []
        self._left: list[Any] = []
        self._stated = {value.name: value.type for value in model.graph.value_info}
        for tensor in model.graph.initializer:
            self._add_tensor(tensor.name, tensor)
        for sparse in model.graph.sparse_initializer:
            self._add_weight(sparse.values.name, sparse.values.data_type, sparse.dims)

    def set_inputs(self, batch: int, dims: Mapping[str, int]) -> None:
        """Fixes the dynamic dimensions of inputs, and takes their types."""
        open_dims: dict[str, str] = {}
        named: dict[str, int] = {}
        used = False
        for value in self.model.graph.input:
            if value.name in self._types:
                continue  # older files list weights among the inputs too
            self._inputs.append(value.name)
            self._types[value.name] = value.type
            for number, dim in enumerate(value.type.tensor_type.shape.dim):
                if dim.HasField("dim_value") and dim.dim_value > 0:
                    continue
                name = dim.dim_param or f"{value.name}[{number}]"
                if name in dims:
                    named[name] = dims[name]
                    dim.MergeFrom(type(dim)(dim_value=dims[name]))
                elif number == 0 or "batch" in name.lower():
                    used = True
                    dim.MergeFrom(type(dim)(dim_value=batch))
                    open_dims.setdefault(name, "")
                else:
                    open_dims[name] = value.name
        unknown = [name for name in dims if name not in named]
        if unknown:
            known = [*named, *open_dims]
            needs = f"dynamic dimensions of the file: {listing(known)}"
            raise BenchmarkError("-p dims", unknown[0], needs, did_you_mean(unknown[0], known))
        missing = [f"{name} of {of}" for name, of in open_dims.items() if of]
        if missing:
            fix = f"-p dims={','.join(f'{name}=128' for name, of in open_dims.items() if of)}"
            raise BenchmarkError(self.where, f"dynamic dimensions: {listing(missing)}", "a size for each", fix)
        if batch > 1 and not used:
            fix = "export the model with a dynamic batch, such as with dynamic_axes or dynamic_shapes"
            raise BenchmarkError("-p batch", f"{batch}", "1: the file fixes the sizes of its inputs", fix)

    def step(self, node: Any) -> None:
        """Computes the results of *node*, or infers their types and leaves the node."""
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            self._constant(node)
            return
        if node.op_type in ("Shape", "Size") and self._shape(node.input[0]) is not None:
            self._shape_of(node)
            return
        given = [name for name in node.input if name]
        types = self._inferred(node)
        if given and all(name in self._constants for name in given) and self._computed(node, types):
            return
        self._types.update(types)
        fixed = given and all(name in self._constants or name in self._weights for name in given)
        if fixed and all(name in types for name in node.output if name):
            self._weights.update(name for name in node.output if name)
            return
        self._left.append(node)

    def graph(self) -> Graph:
        """The graph after all steps."""
        outputs = tuple(value.name for value in self.model.graph.output)
        uses: dict[str, int] = dict.fromkeys(outputs, 1)
        nodes = []
        for number, node in enumerate(self._left):
            for name in node.input:
                uses[name] = uses.get(name, 0) + 1
            nodes.append(self._node(node, number))
        shapes = {name: shape for name, type_ in self._types.items() if (shape := _static(type_)) is not None}
        floats = {self._onnx.TensorProto.DataType.Value(name) for name in ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE")}
        integers = {name for name, type_ in self._types.items() if type_.tensor_type.elem_type not in floats}
        arrays = {name: self._onnx.numpy_helper.to_array(tensor) for name, tensor in self._constants.items()}
        return Graph(
            inputs=tuple(self._inputs),
            outputs=outputs,
            nodes=tuple(nodes),
            shapes=shapes,
            integers=frozenset(integers),
            weights=frozenset(self._weights),
            constants=arrays,
            uses=uses,
        )

    def _node(self, node: Any, number: int) -> Node:
        standard = node.domain in ("", "ai.onnx")
        values = {each.name: self._onnx.helper.get_attribute_value(each) for each in node.attribute}
        attributes = {name: self._plain(name, each) for name, each in values.items()}
        if node.op_type == "Softmax" and self._versions.get("", 13) < 13:
            attributes.setdefault("axis", 1)  # the default changed
        return Node(
            op=node.op_type if standard else f"{node.domain}.{node.op_type}",
            name=node.name or f"{node.op_type}_{number}",
            inputs=tuple(node.input),
            outputs=tuple(node.output),
            attributes=attributes,
        )

    def _plain(self, name: str, value: Any) -> Any:
        return (
            decode_text(value, f"{self.where}: {name}", "text", BenchmarkError) if isinstance(value, bytes) else value
        )

    def _shape(self, name: str) -> Shape | None:
        return _static(self._types[name]) if name in self._types else None

    def _add_tensor(self, name: str, tensor: Any) -> None:
        """A tensor with its values is a constant; a tensor whose values were left out is a weight."""
        count = n_elements(tensor.dims)
        held = tensor.raw_data or any(
            len(getattr(tensor, field))
            for field in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
        )
        self._add_weight(name, tensor.data_type, tensor.dims)
        if held or not count:
            self._weights.discard(name)
            self._constants[name] = tensor

    def _add_weight(self, name: str, data_type: int, dims: Any) -> None:
        self._types[name] = self._onnx.helper.make_tensor_type_proto(data_type, list(dims))
        self._weights.add(name)

    def _add_array(self, name: str, array: npt.NDArray[Any]) -> None:
        self._add_tensor(name, self._onnx.numpy_helper.from_array(np.asarray(array), name))

    def _constant(self, node: Any) -> None:
        [attribute] = node.attribute
        value = self._onnx.helper.get_attribute_value(attribute)
        if attribute.name == "value":
            self._add_tensor(node.output[0], value)
        elif attribute.name == "sparse_value":
            self._add_weight(node.output[0], value.values.data_type, value.dims)
        elif attribute.name in ("value_float", "value_floats"):
            self._add_array(node.output[0], np.asarray(value, np.float32))
        elif attribute.name in ("value_int", "value_ints"):
            self._add_array(node.output[0], np.asarray(value, np.int64))
        else:
            self._left.append(node)

    def _shape_of(self, node: Any) -> None:
        shape = self._shape(node.input[0])
        assert shape is not None, "the caller looked"
        if node.op_type == "Size":
            self._add_array(node.output[0], np.asarray(math.prod(shape), np.int64))
            return
        values = {each.name: each.i for each in node.attribute}
        part = shape[values.get("start", 0) : values.get("end", len(shape))]
        self._add_array(node.output[0], np.asarray(part, np.int64))

    def _inferred(self, node: Any) -> dict[str, Any]:
        """The types of the results of *node*, as onnx infers them; {} where it cannot."""
        domain = "" if node.domain == "ai.onnx" else node.domain
        stated = {name: self._stated[name] for name in node.output if name in self._stated}
        if any(name and name not in self._types for name in node.input):
            return stated
        try:
            schema = self._onnx.defs.get_schema(node.op_type, self._versions.get(domain, 1), domain)
            given = {name: self._types[name] for name in node.input if name}
            data = {name: self._constants[name] for name in node.input if name in self._constants}
            infer = self._onnx.shape_inference.infer_node_outputs
            found = infer(schema, node, given, data, opset_imports=list(self.model.opset_import))
        except Exception:  # noqa: BLE001 - no schema, or sizes that do not fit: the operator is listed as unknown
            return stated
        return {name: type_ for name, type_ in found.items() if type_.HasField("tensor_type")}

    def _computed(self, node: Any, types: Mapping[str, Any]) -> bool:
        """Computes the small results of *node*, whose inputs are constants. Whether that went well."""
        shapes = [_static(types[name]) for name in node.output if name in types]
        if any(shape is not None and math.prod(shape) > MOST_COMPUTED for shape in shapes):
            return False
        evaluator = import_module("onnx.reference").ReferenceEvaluator
        helper = self._onnx.helper
        names = [name for name in dict.fromkeys(node.input) if name]
        inputs = [helper.make_value_info(name, self._types[name]) for name in names]
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = helper.make_graph([node], "one", inputs, outputs)
        model = helper.make_model(graph, opset_imports=list(self.model.opset_import))
        arrays = {name: self._onnx.numpy_helper.to_array(self._constants[name]) for name in names}
        try:
            found = evaluator(model).run(None, arrays)
        except Exception:  # noqa: BLE001 - what onnx cannot compute stays a node
            return False
        for name, array in zip((name for name in node.output if name), found, strict=True):
            self._add_array(name, array)
        return True


def _static(type_: Any) -> Shape | None:
    """The shape in *type_*; None unless all dimensions are known."""
    tensor = type_.tensor_type
    if not tensor.HasField("shape") or any(not dim.HasField("dim_value") for dim in tensor.shape.dim):
        return None
    return tuple(dim.dim_value for dim in tensor.shape.dim)
