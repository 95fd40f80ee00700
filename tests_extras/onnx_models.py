"""Small ONNX models, made by the functions of onnx, and a run of one as `kb run` does it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from kb_models.find import source_of
from kb_models.networks import OnnxParams, OnnxWorkload

sys.path.insert(0, str(Path(__file__).parents[1] / "packages/kb-models/tests"))
from running import Ran, chip

Shape = Sequence[int | str]


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Shape],
    weights: Mapping[str, Sequence[int] | np.ndarray[Any, Any]] | None = None,
    outputs: Sequence[str] = ("y",),
    *,
    integers: Sequence[str] = (),
    opset: int = 20,
    **others: Any,
) -> onnx.ModelProto:
    """A model of *nodes*. *weights* have a shape, or an array with values that matter. *integers* are inputs of i64."""
    given = [
        helper.make_tensor_value_info(name, TensorProto.INT64 if name in integers else TensorProto.FLOAT, shape)
        for name, shape in inputs.items()
    ]
    tensors = [
        numpy_helper.from_array(each if isinstance(each, np.ndarray) else np.ones(each, np.float32), name)
        for name, each in (weights or {}).items()
    ]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(list(nodes), "small", given, results, tensors)
    imports = [helper.make_opsetid("", opset), *others.pop("imports", [])]
    return helper.make_model(graph, opset_imports=imports, **others)


def saved(folder: Path, made: onnx.ModelProto, **options: Any) -> Path:
    """The file of *made* in *folder*."""
    path = folder / "small.onnx"
    onnx.save(made, str(path), **options)
    return path


def workload(path: Path) -> OnnxWorkload:
    """The benchmark of the file *path*, as kb makes it."""
    found = source_of(str(path))
    assert found is not None
    values: dict[str, Any] = {}
    exec(compile(found[1], str(found[0]), "exec"), values)
    made: OnnxWorkload = values["Network"]()
    return made


class Run:
    """A network that ran on a chip: its ops by name, in order, with their kinds, and what was skipped."""

    def __init__(self, path: Path, topology: str = "one_cube", **params: Any) -> None:
        self.workload = workload(path)
        self.params = OnnxParams(**params)
        self.ran = Ran(chip(topology), self.workload, 0, self.params)  # type: ignore[arg-type]
        self.kinds = [op.kind for op in self.workload.ops]
        self.names = [op.name for op in self.workload.ops]

    def check(self, *kinds: str) -> Run:
        """Every op is verified, and the ops are of these *kinds*."""
        assert not self.ran.failures, self.ran.failures
        assert self.kinds == list(kinds)
        return self
