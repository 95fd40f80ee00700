"""Graphs of networks become ops whose results are those of numpy; views move nothing, and unknown nodes are listed."""

from collections import Counter

import numpy as np
import pytest
from running import Built, Ran, chip

from kb_models.models.builder import Builder
from kb_models.networks.axes import Laid, laid
from kb_models.networks.graph import Graph, Node
from kb_models.networks.lower import Lowering
from kb_models.networks.operators import OPERATORS
from kb_models.networks.unknown import UnknownNode, listed


def graph(nodes: list[Node], shapes: dict[str, tuple[int, ...]], weights: str, constants: dict[str, float]) -> Graph:
    """A graph of the input x and the result y."""
    uses = Counter(["y", *(name for node in nodes for name in node.inputs)])
    arrays = {name: np.array(value) for name, value in constants.items()}
    known = {**shapes, **dict.fromkeys(constants, ())}
    return Graph(("x",), ("y",), tuple(nodes), known, frozenset(), frozenset(weights.split()), arrays, uses)


def node(op: str, inputs: str, outputs: str, **attributes: object) -> Node:
    return Node(op, f"{op}_{outputs}", tuple(inputs.split()), tuple(outputs.split()), attributes)


HEADS, SPLIT, TURNED = (2, 3, 4, 5), (2, 3, 20), (2, 4, 3, 5)
ATTENTION = graph(
    [
        node("MatMul", "x w", "a"),
        node("Split", "a", "q k v", axis=2),
        *(node("Reshape", f"{each} h", f"{each}1") for each in "qkv"),
        *(node("Transpose", f"{each}1", f"{each}2", perm=[0, 2, 1, 3]) for each in "qv"),
        node("Transpose", "k1", "k2", perm=[0, 2, 3, 1]),
        node("MatMul", "q2 k2", "s"),
        node("Div", "s root", "s1"),
        node("Softmax", "s1", "p", axis=-1),
        node("MatMul", "p v2", "o"),
        node("Transpose", "o", "o1", perm=[0, 2, 1, 3]),
        node("Reshape", "o1 t", "o2"),
        node("Add", "x o2", "y"),
    ],
    {
        "x": SPLIT,
        "w": (20, 60),
        "a": (2, 3, 60),
        "q": SPLIT,
        "k": SPLIT,
        "v": SPLIT,
        **dict.fromkeys(("q1", "k1", "v1", "o1"), HEADS),
        "q2": TURNED,
        "v2": TURNED,
        "o": TURNED,
        "k2": (2, 4, 5, 3),
        "o2": SPLIT,
        "y": SPLIT,
        **dict.fromkeys(("s", "s1", "p"), (2, 4, 3, 3)),
        "h": (4,),
        "t": (3,),
    },
    "w h t",
    {"root": 5**0.5},
)


def test_attention_of_views_is_that_of_numpy() -> None:
    lowerings: list[Lowering] = []

    def build(m: Builder) -> None:
        lowerings.append(Lowering(m, ATTENTION))
        lowerings[0].run(OPERATORS)

    ran = Ran(chip("one_cube"), Built("", build, "f32"), 0)
    assert not lowerings[0].unknown
    assert not ran.failures
    ops = {op.name: op for op in ran.workload._made}
    kinds = [op.kind for op in ops.values()]
    assert kinds == ["linear"] * 3 + ["matmul", "elementwise", "softmax", "matmul", "elementwise"]
    x = ran.read(ops["MatMul_a.0"].reads[0]).astype(np.float64)
    q, k, v = (
        (x @ ran.read(ops[f"MatMul_a.{number}"].reads[1]).astype(np.float64)).reshape(HEADS) for number in range(3)
    )
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / 5**0.5
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = x + np.einsum("bhqk,bkhd->bqhd", powers / powers.sum(axis=-1, keepdims=True), v).reshape(6, 20)
    result = next(op.writes[0] for op in reversed(ops.values()))
    np.testing.assert_allclose(ran.read(result), expected, rtol=1e-5, atol=1e-5)


def built(given: Graph) -> Lowering:
    lowerings: list[Lowering] = []

    def build(m: Builder) -> None:
        lowerings.append(Lowering(m, given))
        lowerings[0].run(OPERATORS)

    Built("", build, "f32").prepare(None, chip("one_cube"), 0)
    return lowerings[0]


def test_unknown_nodes_and_the_nodes_behind_them_are_listed() -> None:
    nodes = [
        node("Relu", "x", "a"),
        node("Acme", "a", "b"),
        node("Acme", "b", "c"),
        node("Exp", "b", "d"),
        node("Softmax", "x", "e", axis=0),
        node("Add", "a e", "y"),
    ]
    shapes = dict.fromkeys("xaey", (3, 4))
    found = built(graph(nodes, shapes, "", {}))
    assert listed(found.unknown) == (
        "1 Acme (first Acme_b), 1 Softmax (an axis that is not the last) (first Softmax_e)"
    )
    assert listed(found.lost) == "1 Acme (first Acme_c), 1 Exp (first Exp_d)"
    assert [op.name for op in found.m.ops] == ["a", "y"]
    assert listed([UnknownNode("A", "first"), UnknownNode("A", "second")]) == "2 A (first first)"


@pytest.fixture
def tensor() -> Laid:
    lowering = built(graph([node("Relu", "x", "y")], {"x": (2, 3, 20), "y": (2, 3, 20)}, "", {}))
    return laid(lowering.get("y").value, (2, 3, 20), 2)


@pytest.mark.parametrize(
    ("order", "shape", "is_view"),
    [
        ((0, 1, 2), (6, 20), True),
        ((0, 1, 2), (2, 3, 4, 5), True),
        ((0, 1, 2), (2, 60), True),
        ((0, 1, 2), (1, 2, 3, 20, 1), True),
        ((0, 1, 2), (4, 30), False),  # no axis of 3 is cut in equal parts by 30 elements
        ((2, 0, 1), (4, 5, 6), True),
        ((2, 0, 1), (40, 3), True),
        ((1, 0, 2), (2, 60), False),
    ],
)
def test_views_are_cuts_and_merges_of_axes(
    tensor: Laid, order: tuple[int, ...], shape: tuple[int, ...], is_view: bool
) -> None:
    found = tensor.transposed(order).reshaped(shape)
    assert (found is not None) == is_view
    if found is not None:
        assert found.shape == shape
        assert found.value is tensor.value
