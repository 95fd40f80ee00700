"""Norms that older exporters write as a dozen nodes, as one node each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kb_models.networks.graph import Graph, Node


class _Found(NamedTuple):
    """A norm of the value `x`: the operator that says so, its constant, and the names of values inside of it."""

    op: str
    x: str
    epsilon: float
    inside: frozenset[str]


def with_norms(graph: Graph) -> Graph:
    """*graph* with a LayerNormalization or RMSNormalization for each norm that is written as means, powers and roots.

    A factor and a summand for each column that follow are parts of the norm. A norm whose values other nodes read too
    stays as it is.
    """
    makers = {name: node for node in graph.nodes for name in node.outputs}
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    replaced: dict[str, Node] = {}
    gone: set[str] = set()
    for node in graph.nodes:
        found = _norm(graph, makers, node)
        if found is None or any(not _is_inside(name, found, readers, node) for name in found.inside):
            continue
        last, weights, inside = _weights(graph, readers, node, found)
        attributes = {"axis": -1, "epsilon": found.epsilon}
        replaced[last.outputs[0]] = Node(found.op, last.name, (found.x, *weights), last.outputs, attributes)
        gone |= (found.inside | inside) - {last.outputs[0]}
    if not replaced:
        return graph
    nodes = tuple(replaced.get(node.outputs[0], node) for node in graph.nodes if node.outputs[0] not in gone)
    uses = dict.fromkeys(graph.outputs, 1)
    for node in nodes:
        for name in node.inputs:
            uses[name] = uses.get(name, 0) + 1
    return graph._replace(nodes=nodes, uses=uses)


def _norm(graph: Graph, makers: Mapping[str, Node], node: Node) -> _Found | None:
    """The norm that ends in the quotient or product *node*, before its factor and summand."""
    x, *others = node.inputs
    if node.op == "Div":
        [root] = others
        inside = {node.outputs[0], root}
    elif node.op == "Mul" and _inverse_of(graph, makers, others[0]):
        root = _inverse_of(graph, makers, others[0])
        inside = {node.outputs[0], others[0], root}
    else:
        return None
    total = _made(makers, root, "Sqrt")
    summed = _made(makers, total.inputs[0], "Add") if total else None
    if total is None or summed is None:
        return None
    mean, epsilon = _with_number(graph, summed)
    squares = _mean_of(graph, makers, mean)
    if squares is None or not _is_square(graph, makers, squares, x):
        return None
    inside |= {total.inputs[0], mean, squares}
    centred = _made(makers, x, "Sub")
    if centred is not None and _mean_of(graph, makers, centred.inputs[1]) == centred.inputs[0]:
        inside |= {x, centred.inputs[1]}
        return _Found("LayerNormalization", centred.inputs[0], epsilon, frozenset(inside))
    return _Found("RMSNormalization", x, epsilon, frozenset(inside))


def _inverse_of(graph: Graph, makers: Mapping[str, Node], name: str) -> str:
    """The value of which *name* is the inverse, written as Reciprocal or as a quotient; "" if it is none."""
    node = makers.get(name)
    if node is None or node.op not in ("Reciprocal", "Div"):
        return ""
    if node.op == "Reciprocal":
        return node.inputs[0]
    one = graph.constants.get(node.inputs[0])
    return node.inputs[1] if one is not None and one.size == 1 and float(one.reshape(-1)[0]) == 1.0 else ""


def _made(makers: Mapping[str, Node], name: str, op: str) -> Node | None:
    return makers[name] if name in makers and makers[name].op == op else None


def _with_number(graph: Graph, node: Node) -> tuple[str, float]:
    """The input of the sum *node* that is no number, and the number."""
    for name, other in (node.inputs, node.inputs[::-1]):
        if other in graph.constants and graph.constants[other].size == 1:
            return name, float(graph.constants[other].reshape(-1)[0])
    return "", 0.0


def _mean_of(graph: Graph, makers: Mapping[str, Node], name: str) -> str | None:
    """The value of which *name* is the mean over the last axis."""
    node = _made(makers, name, "ReduceMean")
    if node is None or node.get("keepdims", 1) != 1:
        return None
    axes = node.get("axes", None)
    if axes is None and len(node.inputs) > 1 and node.inputs[1] in graph.constants:
        axes = graph.constants[node.inputs[1]].reshape(-1).tolist()
    rank = len(graph.shapes.get(node.inputs[0], ()))
    return node.inputs[0] if axes is not None and [axis % rank for axis in axes] == [rank - 1] else None


def _is_square(graph: Graph, makers: Mapping[str, Node], name: str, x: str) -> bool:
    node = makers.get(name)
    if node is None or node.inputs[0] != x:
        return False
    if node.op == "Mul":
        return node.inputs[1] == x
    exponent = graph.constants.get(node.inputs[1]) if node.op == "Pow" else None
    return exponent is not None and exponent.size == 1 and float(exponent.reshape(-1)[0]) == 2.0


def _is_inside(name: str, found: _Found, readers: Mapping[str, list[Node]], last: Node) -> bool:
    """Whether no node outside of the norm reads the value *name*. The last one is the result."""
    if name == last.outputs[0]:
        return True
    return all(each.outputs[0] in found.inside for each in readers.get(name, []))


def _weights(
    graph: Graph, readers: Mapping[str, list[Node]], node: Node, found: _Found
) -> tuple[Node, list[str], frozenset[str]]:
    """The last node of a norm with its factor and its summand, these two, and the results of the nodes before the
    last."""
    weights: list[str] = []
    inside: set[str] = {node.outputs[0]}
    width = graph.shapes[found.x][-1:]
    for op in ("Mul", "Add")[: 2 if found.op == "LayerNormalization" else 1]:
        after = readers.get(node.outputs[0], [])
        if len(after) != 1 or graph.uses.get(node.outputs[0]) != 1 or after[0].op != op:
            break
        others = [name for name in after[0].inputs if name != node.outputs[0]]
        if len(others) != 1 or graph.shapes.get(others[0]) != width or not is_fixed(graph, others[0]):
            break
        weights.append(others[0])
        inside.add(node.outputs[0])
        node = after[0]
    return node, weights, frozenset(inside)


def is_fixed(graph: Graph, name: str) -> bool:
    """Whether the value is a weight or a constant."""
    return name in graph.weights or name in graph.constants
