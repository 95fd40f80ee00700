"""kb-models[onnx]: networks in files run op by op and compute what onnx computes; unknown operators are listed."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from kb_messages import BenchmarkError
from kb_models.models.builder import Builder
from kb_models.networks.axes import Laid, size_of
from kb_models.networks.graph import graph_of
from kb_models.networks.lower import Lowering
from kb_models.networks.norms import with_norms
from kb_models.networks.onnx import read_onnx
from kb_models.networks.operators import OPERATORS

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "packages/kb-models/tests")]
from onnx_models import Run, model, saved, workload  # noqa: E402
from running import Built, Ran, chip, two_sips  # noqa: E402

KB = Path(sysconfig.get_path("scripts")) / "kb"
node = helper.make_node


def refused(path: Path, **params: Any) -> str:
    made = workload(path)
    with pytest.raises(BenchmarkError) as found:
        made.prepare(made.Params(**params), chip("one_cube"), 0)
    return str(found.value)


# what onnx computes


def logical(tensor: Laid, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The elements of a tensor in the order of its axes, from the rows and columns of its value."""
    atoms = [*tensor.rows, *tensor.cols]
    order = [next(n for n, atom in enumerate(atoms) if atom is each) for axis in tensor.axes for each in axis]
    wide = array.astype(np.float64).reshape([atom.size for atom in atoms])
    return wide.transpose(order).reshape([size_of(axis) for axis in tensor.axes])


def against_onnx(made: onnx.ModelProto, folder: Path, layout: str = "") -> list[str]:
    """Runs *made* in f32, and compares its result with onnx's own, on the same inputs and weights. The kinds of ops."""
    graph = with_norms(graph_of(read_onnx(saved(folder, made)), "small", 1, {}))
    lowerings: list[Lowering] = []

    def build(m: Builder) -> None:
        lowerings.append(Lowering(m, graph))
        lowerings[0].run(OPERATORS)

    topology = two_sips() if layout else chip("one_cube")
    ran = Ran(topology, Built(layout, build, "f32"), 0)
    [lowering] = lowerings
    assert not lowering.unknown
    assert not ran.failures, ran.failures
    values = {value.name: value for op in ran.workload._made for value in (*op.reads, *op.writes)}
    for tensor in made.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and int(np.prod(tensor.dims)) > 1:
            tensor.CopyFrom(numpy_helper.from_array(weight(tensor, made, values, ran), tensor.name))
    inputs = {name: logical(lowering.get(name), ran.read(values[name])) for name in graph.inputs}
    given = {name: array.astype(np.float32) for name, array in inputs.items()}
    expected = ReferenceEvaluator(made).run(None, given)
    for name, array in zip(graph.outputs, expected, strict=True):
        tensor = lowering.get(name)
        np.testing.assert_allclose(logical(tensor, ran.read(tensor.value)), array, rtol=2e-4, atol=2e-4)
    return [op.kind for op in ran.workload._made]


def weight(tensor: onnx.TensorProto, made: onnx.ModelProto, values: dict[str, Any], ran: Ran) -> np.ndarray[Any, Any]:
    """The random content that a run gave a weight, in the shape of the file."""
    shape = tuple(tensor.dims)
    readers = [each for each in made.graph.node if tensor.name in each.input]
    for each in readers:
        place = list(each.input).index(tensor.name)
        before = [other for other in made.graph.node if each.op_type == "Add" and set(other.output) & set(each.input)]
        candidates = [
            *(f"{each.name}.{suffix}" for suffix in (["w"] if place == 1 else ["bias", "b", "w"])),
            *(f"{other.name}.{suffix}" for other in before for suffix in ("bias", "b")),
            *(f"{each.name if each.op_type == 'BatchNormalization' else out}.{tensor.name}" for out in each.output),
        ]
        candidates.extend(name for name in values if name.endswith(f".{tensor.name}"))
        for name in candidates:
            if name in values:
                return reshaped(ran.read(values[name]), shape, each)
            owner, _, suffix = name.rpartition(".")
            parts = [f"{owner}.{number}.{suffix}" for number in range(3)]  # of a product that is split
            if all(part in values for part in parts):
                return np.concatenate([ran.read(values[part]) for part in parts], axis=-1).astype(np.float32)
    raise AssertionError(f"{tensor.name}: none of {candidates} in {list(values)}")


def reshaped(array: np.ndarray[Any, Any], shape: tuple[int, ...], reader: onnx.NodeProto) -> np.ndarray[Any, Any]:
    array = array.astype(np.float32)
    if reader.op_type == "Conv" and len(shape) > 2:
        n, channels, *sides = shape
        taps = int(np.prod(sides))  # a depthwise convolution has the bias as its last row
        return array[: taps * channels].reshape(taps, channels, n).transpose(2, 1, 0).reshape(shape)
    if reader.op_type == "Conv" and array.ndim == 2:
        return array[-1].reshape(shape)
    is_transposed = any(each.name == "transB" and each.i for each in reader.attribute)
    return (array.T if is_transposed and array.ndim == 2 else array).reshape(shape)


def attention(causal: bool) -> onnx.ModelProto:
    """Attention of 2 sequences of 5 tokens with 4 heads of 6 as exporters write it, with a residual."""
    weights: dict[str, Any] = {"wqkv": [24, 72], "bqkv": [72], "wo": [24, 24], "bo": [24], "mask": [9, 9]}
    weights |= {"heads": np.array([2, 5, 4, 6]), "tokens": np.array([2, 5, 24]), "scale": np.array(6**0.5, np.float32)}
    weights["mask"] = [5, 5] if causal else [2, 1, 1, 5]
    nodes = [
        node("MatMul", ["x", "wqkv"], ["a"], "qkv"),
        node("Add", ["bqkv", "a"], ["b"], "qkv_bias"),
        node("Split", ["b"], ["q", "k", "v"], "split", axis=-1, num_outputs=3),
        *(node("Reshape", [each, "heads"], [f"{each}1"], f"{each}_heads") for each in "qkv"),
        node("Transpose", ["q1"], ["q2"], perm=[0, 2, 1, 3]),
        node("Transpose", ["k1"], ["k2"], perm=[0, 2, 3, 1]),
        node("Transpose", ["v1"], ["v2"], perm=[0, 2, 1, 3]),
        node("MatMul", ["q2", "k2"], ["s"], "scores"),
        node("Div", ["s", "scale"], ["s1"], "scaled"),
        node("Add", ["s1", "mask"], ["s2"], "masked"),
        node("Softmax", ["s2"], ["p"], "softmax", axis=-1),
        node("MatMul", ["p", "v2"], ["o"], "values"),
        node("Transpose", ["o"], ["o1"], perm=[0, 2, 1, 3]),
        node("Reshape", ["o1", "tokens"], ["o2"]),
        node("MatMul", ["o2", "wo"], ["o3"], "out"),
        node("Add", ["o3", "bo"], ["o4"], "out_bias"),
        node("Add", ["x", "o4"], ["y"], "residual"),
    ]
    return model(nodes, {"x": [2, 5, 24]}, weights)


def grouped() -> onnx.ModelProto:
    """Attention of 4 heads that share 2 key heads, which are repeated, with keys rotated by halves and a norm."""
    weights: dict[str, Any] = {"wq": [24, 24], "wk": [24, 12], "wv": [24, 12], "cos": [5, 6], "sin": [5, 6], "g": [24]}
    sizes = {"heads": [2, 5, 4, 6], "keys": [2, 5, 2, 6], "tokens": [2, 5, 24], "merged": [2, 4, 5, 6], "two": [2]}
    sizes |= {"wide": [2, 2, 2, 5, 6], "zero": [0], "three": [3], "six": [6], "last": [3]}
    weights |= {name: np.array(each) for name, each in sizes.items()}
    weights |= {"square": np.array(2, np.float32), "eps": np.array(1e-5, np.float32), "one": np.array(1, np.float32)}
    shared = [
        [
            node("Unsqueeze", [f"{each}2", "two"], [f"{each}3"]),
            node("Expand", [f"{each}3", "wide"], [f"{each}4"]),
            node("Reshape", [f"{each}4", "merged"], [f"{each}5"]),
        ]
        for each in "kv"
    ]
    nodes = [
        node("Pow", ["x", "square"], ["n1"]),
        node("ReduceMean", ["n1"], ["n2"], axes=[-1]),
        node("Add", ["n2", "eps"], ["n3"]),
        node("Sqrt", ["n3"], ["n4"]),
        node("Div", ["one", "n4"], ["n5"]),
        node("Mul", ["x", "n5"], ["n6"]),
        node("Mul", ["g", "n6"], ["n"], "norm"),
        *(node("MatMul", ["n", f"w{each}"], [each], each) for each in "qkv"),
        node("Reshape", ["q", "heads"], ["q1"]),
        *(node("Reshape", [each, "keys"], [f"{each}1"]) for each in "kv"),
        *(node("Transpose", [f"{each}1"], [f"{each}2" if each != "k" else "k0"], perm=[0, 2, 1, 3]) for each in "qkv"),
        node("Slice", ["k0", "zero", "three", "last"], ["left"], "left"),
        node("Slice", ["k0", "three", "six", "last"], ["right"], "right"),
        node("Neg", ["right"], ["minus"]),
        node("Concat", ["minus", "left"], ["turned"], "turned", axis=-1),
        node("Mul", ["k0", "cos"], ["r1"]),
        node("Mul", ["turned", "sin"], ["r2"]),
        node("Add", ["r1", "r2"], ["k2"], "rotated"),
        *shared[0],
        *shared[1],
        node("Transpose", ["k5"], ["k6"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q2", "k6"], ["s"], "scores"),
        node("Softmax", ["s"], ["p"], "softmax", axis=-1),
        node("MatMul", ["p", "v5"], ["o"], "values"),
        node("Transpose", ["o"], ["o1"], perm=[0, 2, 1, 3]),
        node("Reshape", ["o1", "tokens"], ["o2"]),
        node("Add", ["x", "o2"], ["y"], "residual"),
    ]
    return model(nodes, {"x": [2, 5, 24]}, weights, opset=16)


def images() -> onnx.ModelProto:
    """Convolutions of every kind, with a batch norm, pools, a residual and a concatenation of channels."""
    weights: dict[str, Any] = {"w1": [16, 5, 3, 3], "b1": [16], "w2": [16, 1, 3, 3], "b2": [16], "w3": [16, 8, 1, 1]}
    weights |= {"w4": [65, 32], "b4": [65]}
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], "conv", pads=[0, 1, 1, 0], strides=[2, 1], dilations=[1, 2]),
        node("Relu", ["c1"], ["r1"], "relu"),
        node("MaxPool", ["r1"], ["m"], "pool", kernel_shape=[2, 3], strides=[1, 2], pads=[0, 1, 0, 1]),
        node("Conv", ["m", "w2", "b2"], ["c2"], "depthwise", group=16, pads=[1, 1, 1, 1]),
        node("Clip", ["c2", "zero", "six"], ["r2"], "clip"),
        node("Conv", ["r2", "w3"], ["c3"], "grouped", group=2),
        node("Add", ["m", "c3"], ["s"], "sum"),
        node("Relu", ["s"], ["r3"], "relu3"),
        node("Concat", ["r3", "m"], ["t"], "concat", axis=1),
        node("GlobalAveragePool", ["t"], ["g"], "mean"),
        node("Flatten", ["g"], ["f"], "flat"),
        node("Gemm", ["f", "w4", "b4"], ["y"], "fc", transB=1),
    ]
    weights |= {"zero": np.array(0, np.float32), "six": np.array(6, np.float32)}
    return model(nodes, {"x": [2, 5, 9, 8]}, weights)


@pytest.mark.parametrize("layout", ["", "mlp=sip*cube,heads=sip*cube,channels=sip*cube"])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_what_onnx_computes(tmp_path: Path, layout: str, causal: bool) -> None:
    kinds = against_onnx(attention(causal), tmp_path, layout)
    assert [kind for kind in kinds if kind in ("matmul", "softmax")] == ["matmul", "softmax", "matmul"]
    assert "copy" not in kinds
    assert "all_gather" not in kinds  # each cube has the queries, keys and values of its heads


@pytest.mark.parametrize("layout", ["", "mlp=sip*cube,heads=sip*cube,channels=sip*cube"])
def test_shared_heads_are_what_onnx_computes(tmp_path: Path, layout: str) -> None:
    kinds = against_onnx(grouped(), tmp_path, layout)
    assert kinds[0] == "norm"
    assert kinds.count("matmul") == 2


@pytest.mark.parametrize("layout", ["", "mlp=sip*cube,heads=sip*cube,channels=sip*cube"])
def test_images_are_what_onnx_computes(tmp_path: Path, layout: str) -> None:
    kinds = against_onnx(images(), tmp_path, layout)
    own = [kind for kind in kinds if kind not in ("all_gather", "all_reduce")]
    assert own == ["convolution", "pool", "depthwise", "convolution", "copy", "pool", "linear"]


GELU = [
    node("Div", ["x", "root"], ["a"]),
    node("Erf", ["a"], ["b"]),
    node("Add", ["b", "one"], ["c"]),
    node("Mul", ["x", "c"], ["d"]),
    node("Mul", ["d", "half"], ["y"], "gelu"),
]
NUMBERS = {name: np.array(each, np.float32) for name, each in (("root", 2**0.5), ("one", 1.0), ("half", 0.5))}
ELEMENTS: dict[str, tuple[list[onnx.NodeProto], dict[str, Any]]] = {
    "gelu of five nodes": (GELU, NUMBERS),
    "gelu": ([node("Gelu", ["x"], ["y"], "gelu")], {}),
    "gelu by tanh": ([node("Gelu", ["x"], ["y"], "gelu", approximate="tanh")], {}),
    "silu": ([node("Sigmoid", ["x"], ["s"]), node("Mul", ["x", "s"], ["y"])], {}),
    "hard swish": ([node("HardSwish", ["x"], ["y"])], {}),
    "hard sigmoid": ([node("HardSigmoid", ["x"], ["y"], alpha=0.3)], {}),
    "leaky": ([node("LeakyRelu", ["x"], ["y"], alpha=0.1)], {}),
    "power": ([node("Pow", ["x", "p"], ["y"])], {"p": np.array(3.0, np.float32)}),
    "clip from below": ([node("Clip", ["x", "p"], ["y"])], {"p": np.array(-0.25, np.float32)}),
    "a weight for the columns": ([node("Mul", ["x", "w"], ["y"])], {"w": [80]}),
    "a weight for the rows": ([node("Sub", ["w", "x"], ["y"])], {"w": [70, 1]}),
    "a table of positions": ([node("Add", ["x", "w"], ["y"])], {"w": [70, 80]}),
    "batch norm": ([node("BatchNormalization", ["x", "w", "b", "m", "v"], ["y"], "bn")], {key: [70] for key in "wbmv"}),
    "several": ([node("Max", ["x", "x", "p"], ["a"]), node("Neg", ["a"], ["y"])], {"p": np.array(0.5, np.float32)}),
}


@pytest.mark.parametrize("name", [each for each in ELEMENTS if each != "batch norm"])
def test_functions_of_elements_are_one_op(tmp_path: Path, name: str) -> None:
    nodes, weights = ELEMENTS[name]
    kinds = against_onnx(model(nodes, {"x": [2, 70, 80]}, weights), tmp_path)
    assert kinds == ["elementwise"]


VIEWS = [
    node("Slice", ["x", "starts", "ends", "axes", "steps"], ["a"], "slice"),
    node("Gather", ["a", "chosen"], ["b"], "gather", axis=1),
    node("Transpose", ["b"], ["c"], perm=[2, 0, 1]),
    node("Concat", ["c", "c"], ["d"], "concat", axis=0),
    node("Split", ["d"], ["e", "f"], "split", axis=0),
    node("Sub", ["e", "f"], ["y"], "difference"),
]


def test_parts_of_tensors_are_copies(tmp_path: Path) -> None:
    given = {"starts": [1, -1], "ends": [5, -9], "axes": [1, 2], "steps": [2, -3], "chosen": [1, 0, 1]}
    weights: dict[str, Any] = {name: np.array(each) for name, each in given.items()}
    weights["split"] = np.array([2, 4])
    nodes = [*VIEWS[:4], node("Split", ["d", "split"], ["e", "f"], "split", axis=0), node("Exp", ["f"], ["y"])]
    kinds = against_onnx(model(nodes, {"x": [2, 6, 9]}, weights), tmp_path)
    assert kinds[-1] == "elementwise"
    assert set(kinds[:-1]) == {"copy"}


def test_pixels_are_flattened_by_a_copy(tmp_path: Path) -> None:
    nodes = [
        node("Conv", ["x", "w"], ["a"], "conv"),
        node("Flatten", ["a"], ["b"], "flat"),
        node("Gemm", ["b", "v"], ["y"], "fc"),
    ]
    path = saved(tmp_path, model(nodes, {"x": [2, 3, 6, 5]}, {"w": [16, 3, 3, 3], "v": [192, 40]}))
    Run(path).check("convolution", "copy", "linear")


def test_batch_norm_is_a_part_of_its_convolution(tmp_path: Path) -> None:
    factors = {name: np.ones(80, np.float32) for name in ("s", "b", "m", "v")}
    nodes = [
        node("Conv", ["x", "w"], ["a"], "conv"),
        node("BatchNormalization", ["a", "s", "b", "m", "v"], ["c"], "bn"),
        node("Relu", ["c"], ["y"], "relu"),
    ]
    Run(saved(tmp_path, model(nodes, {"x": [1, 3, 6, 5]}, {"w": [80, 3, 3, 3], **factors}))).check("convolution")
    alone = model([nodes[1]], {"a": [2, 80, 4, 4]}, factors, outputs=["c"])
    Run(saved(tmp_path, alone)).check("elementwise")


def test_an_embedding_and_norms(tmp_path: Path) -> None:
    nodes = [
        node("Gather", ["table", "ids"], ["a"], "words"),
        node("LayerNormalization", ["a", "s", "b"], ["y"], "norm", axis=-1),
    ]
    made = model(nodes, {"ids": [2, "tokens"]}, {"table": [300, 80], "s": [80], "b": [80]}, integers=["ids"])
    path = saved(tmp_path, made)
    Run(path, dims="tokens=7").check("embedding", "norm")
    assert "dynamic dimensions: tokens of ids, needs a size for each; -p dims=tokens=128" in refused(path)
    assert "-p dims: got token, needs dynamic dimensions of the file: tokens" in refused(path, dims="token=3")
    assert "NAME=SIZE, with a size of at least 1" in refused(path, dims="tokens")


def norm(kind: str) -> tuple[list[onnx.NodeProto], dict[str, Any]]:
    """A norm as exporters write it that know no operator for it."""
    if kind == "layer":
        start = [node("ReduceMean", ["x"], ["m"], axes=[-1]), node("Sub", ["x", "m"], ["c"])]
    else:
        start = [node("Identity", ["x"], ["c"])]
    middle = [
        node("Pow", ["c", "two"], ["p"]),
        node("ReduceMean", ["p"], ["v"], axes=[-1]),
        node("Add", ["v", "eps"], ["e"]),
        node("Sqrt", ["e"], ["r"]),
    ]
    quotient = (
        [node("Div", ["c", "r"], ["q"])]
        if kind == "layer"
        else [node("Reciprocal", ["r"], ["i"]), node("Mul", ["c", "i"], ["q"])]
    )
    end = [node("Mul", ["q", "w"], ["s"], "scaled"), node("Add", ["s", "b"], ["y"], "shifted")]
    numbers = {"two": np.array(2, np.float32), "eps": np.array(1e-5, np.float32)}
    return [*start, *middle, *quotient, *end], {**numbers, "w": [80], "b": [80]}


def test_norms_of_many_nodes_are_one_op(tmp_path: Path) -> None:
    nodes, weights = norm("layer")
    run = Run(saved(tmp_path, model(nodes, {"x": [2, 3, 80]}, weights, opset=16))).check("norm")
    assert run.names == ["shifted"]
    nodes, weights = norm("rms")
    path = saved(tmp_path, model(nodes[1:], {"c": [2, 3, 80]}, weights, opset=16))
    run = Run(path).check("norm", "elementwise")
    assert run.names == ["scaled", "y"]
    nodes, weights = norm("layer")  # a norm whose root somebody else reads too
    made = model([*nodes, node("Neg", ["r"], ["z"])], {"x": [2, 3, 80]}, weights, ["y", "z"], opset=16)
    run = Run(saved(tmp_path, made))
    assert not run.ran.failures
    assert run.kinds.count("pool") == 2


# what is not known

UNKNOWN = [
    node("Conv", ["x", "w"], ["a"], "conv"),
    node("ConvTranspose", ["a", "u"], ["b"], "up"),
    node("Mish", ["b"], ["c"], "mish1"),
    node("Mish", ["c"], ["d"], "mish2"),
    node("Acme", ["d"], ["e"], "acme", domain="com.acme"),
    node("Relu", ["e"], ["f"], "lost1"),
    node("Relu", ["f"], ["g"], "lost2"),
    node("Relu", ["d"], ["h"], "known"),
]


def test_unknown_operators_are_listed_before_anything_runs(tmp_path: Path) -> None:
    made = model(
        UNKNOWN,
        {"x": [1, 3, 6, 5]},
        {"w": [80, 3, 3, 3], "u": [80, 70, 2, 2]},
        ["g", "h"],
        imports=[helper.make_opsetid("com.acme", 1)],
    )
    path = saved(tmp_path, made)
    text = refused(path)
    assert text == (
        "small: got operators that no op of kb computes: 1 ConvTranspose (first up), 2 Mish (first mish1), "
        "1 com.acme.Acme (first acme); behind them, without shapes: 2 Relu (first lost1), needs known operators; "
        "-p unknown=skip runs the other 2 ops, with random content in place of what these compute"
    )
    run = Run(path, unknown="skip").check("convolution", "elementwise")
    assert run.ran.choices["skipped"].startswith("1 ConvTranspose (first up), 2 Mish (first mish1), 1 com.acme.Acme")
    assert run.ran.choices["weights"] == "random, of the shapes of the file"


def test_forms_of_known_operators_are_refused_by_what_is_not_known(tmp_path: Path) -> None:
    nodes = [
        node("MaxPool", ["x"], ["a"], "pool", kernel_shape=[2, 2], ceil_mode=1, strides=[2, 2]),
        node("Softmax", ["x"], ["b"], "softmax", axis=2),
        node("Conv", ["z", "w"], ["c"], "volume"),
        node("Pow", ["x", "x"], ["d"], "power"),
        node("Reshape", ["x", "shape"], ["e"], "moved"),
        node("Relu", ["x"], ["f"], "relu"),
    ]
    weights: dict[str, Any] = {"w": [80, 3, 3, 3, 3], "shape": np.array([1, 5, 18])}
    path = saved(tmp_path, model(nodes, {"x": [1, 3, 6, 5], "z": [1, 3, 4, 4, 4]}, weights, list("abcdef")))
    text = refused(path)
    for part in (
        "1 MaxPool (with ceil_mode) (first pool)",
        "1 Softmax (an axis that is not the last) (first softmax)",
        "1 Conv (of 3 dimensions) (first volume)",
        "1 Pow (first power)",
        "1 Reshape (elements that move) (first moved)",
    ):
        assert part in text
    assert "runs the other 1 ops" in text


# files


def mlp(batch: int | str = "batch") -> onnx.ModelProto:
    nodes = [
        node("Gemm", ["x", "w1", "b1"], ["a"], "fc1", transB=1),
        node("Relu", ["a"], ["b"], "relu"),
        node("MatMul", ["b", "w2"], ["y"], "fc2"),
    ]
    return model(nodes, {"x": [batch, 70]}, {"w1": [90, 70], "b1": [90], "w2": [90, 66]})


def test_a_dynamic_batch(tmp_path: Path) -> None:
    path = saved(tmp_path, mlp())
    run = Run(path, batch=3).check("linear", "linear")
    assert run.workload._made[-1].writes[0].shape == (3, 66)
    fixed = saved(tmp_path, mlp(2))
    assert Run(fixed).check("linear", "linear").workload._made[-1].writes[0].shape == (2, 66)
    assert "-p batch: got 3, needs 1: the file fixes the sizes of its inputs" in refused(fixed, batch=3)


def test_weights_are_neither_kept_nor_read(tmp_path: Path) -> None:
    path = saved(tmp_path, mlp(), save_as_external_data=True, location="weights.bin", size_threshold=0)
    (tmp_path / "weights.bin").unlink()
    made = workload(path)
    assert len(made.model) < 4000
    path.unlink()
    made.prepare(made.Params(), chip("one_cube"), 0)
    assert [op.name for op in made._made] == ["fc1", "fc2"]


def test_small_tensors_beside_a_model_are_read(tmp_path: Path) -> None:
    nodes = [node("Reshape", ["x", "shape"], ["a"]), node("Relu", ["a"], ["y"], "relu")]
    made = model(nodes, {"x": [4, 6]}, {"shape": np.array([2, 2, 6])})
    path = saved(tmp_path, made, save_as_external_data=True, location="weights.bin", size_threshold=0)
    Run(path).check("elementwise")
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(BenchmarkError, match="the tensor shape, whose file cannot be read"):
        workload(path)


def test_damaged_files(tmp_path: Path) -> None:
    path = saved(tmp_path, mlp())
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(BenchmarkError, match="no ONNX model"):
        workload(path)
    path.write_bytes(onnx.ModelProto(ir_version=8).SerializeToString())
    with pytest.raises(BenchmarkError, match="an ONNX model without nodes"):
        workload(path)


def test_functions_of_the_file_are_inlined(tmp_path: Path) -> None:
    inner = [node("Relu", ["p"], ["q"], "inner"), node("Add", ["q", "p"], ["r"], "sum")]
    imports = [helper.make_opsetid("", 20)]
    function = helper.make_function("local", "Twice", ["p"], ["r"], inner, imports)
    made = model(
        [node("Twice", ["x"], ["y"], "twice", domain="local")],
        {"x": [70, 80]},
        functions=[function],
        imports=[helper.make_opsetid("local", 1)],
    )
    Run(saved(tmp_path, made)).check("elementwise")


def test_the_command_runs_a_network_and_repeats_it_without_the_file(tmp_path: Path) -> None:
    path = saved(tmp_path, mlp())
    command = [str(KB), "run", str(path), "-p", "batch=5", "--out", str(tmp_path / "runs"), "--levers", "0"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "fc1" in ran.stdout
    path.unlink()
    [source] = (tmp_path / "runs").glob("*/*.py")
    again = subprocess.run([*command[:2], str(source), *command[3:]], capture_output=True, text=True, check=True)
    assert again.stdout.splitlines()[:12] == ran.stdout.splitlines()[:12]


def test_thousands_of_nodes(tmp_path: Path) -> None:
    count = 2000
    names = ["x", *(f"v{number}" for number in range(count - 1)), "y"]
    nodes = [node("Identity", [a], [b], b) for a, b in pairwise(names)]
    path = saved(tmp_path, model([*nodes, node("Relu", ["y"], ["z"], "relu")], {"x": [4, 6]}, outputs=["z"]))
    Run(path).check("elementwise")
