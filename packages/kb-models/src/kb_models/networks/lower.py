"""Lowering: the nodes of a graph as ops of a builder. Nodes that no op computes are listed by operator."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from kb_models.layout import Value
from kb_models.models.builder import Builder
from kb_models.networks.aligned import Unaligned, aligned
from kb_models.networks.axes import (
    Atom,
    Axis,
    Laid,
    common_cuts,
    image,
    indices,
    is_last,
    laid,
    merged,
    places,
    size_of,
)
from kb_models.networks.elements import ELEMENTS, Expression, activation_of
from kb_models.networks.graph import Graph, Node, Shape
from kb_models.networks.unknown import Lost, Unknown, UnknownNode
from kb_models.ops.block_product import Block, BlockProduct, has_blocks
from kb_models.ops.elementwise import NOWHERE, Elementwise, Operand, Places
from kb_models.ops.expression import Number, Step
from kb_models.ops.op import Op
from kb_models.ops.softmax import Softmax

COLUMNS: Final = "mlp"
"""The axis of the layout over which columns are split."""
CHANNELS: Final = "channels"
"""The axis over which channels of images are split."""
HEADS: Final = "heads"
"""The axis over which heads are split."""


class Pending(NamedTuple):
    """A product or a convolution that is not added yet, because later nodes may become a part of the op.

    `make` adds the op with the other fields. `axes` are the axes of its result, and `takes` the activations that the op
    can apply. `cut` makes ops for parts of the columns; None for an op that cannot be cut.
    """

    make: Callable[[Pending], Laid]
    axes: tuple[str, str]
    takes: frozenset[str]
    activation: str = "none"
    residual: Laid | None = None
    bias: bool = False
    cut: Callable[[Pending, Sequence[int]], list[Pending]] | None = None
    is_image: bool = False
    takes_residual: bool = True


class Lowering:
    """Adds the ops of *graph* to *m*. `unknown` lists the nodes that are left out, and `lost` the nodes behind them.

    An unknown node's results are random inputs of later nodes. Raises nothing for unknown operators.
    """

    def __init__(self, m: Builder, graph: Graph) -> None:
        self.m, self.graph = m, graph
        self.unknown: list[UnknownNode] = []
        self.lost: list[UnknownNode] = []
        self._laid: dict[str, Laid] = {}
        self._pending: dict[str, Pending] = {}
        self._expressions: dict[str, Expression] = {}
        self._names: set[str] = set()
        known = graph.shapes
        self._has_images = any(node.op in ("Conv", "ConvTranspose") for node in graph.nodes)
        self._lost = {name for node in graph.nodes for name in node.inputs if name and name not in known}

    def scaled(self, node: Node, tensor: Laid) -> None:
        """*tensor* times a factor and plus a summand for each of its channels, as a batch norm."""
        names = tuple(node.inputs[1:3])
        steps: tuple[Step, ...] = (0, 1, "mul", 2, "add")
        wide = tensor.shape[1:2] + (1,) * (len(tensor.axes) - 2)
        shapes = {**self.graph.shapes, **dict.fromkeys(names, wide)}
        given: list[tuple[str, Laid | None]] = [(node.inputs[0], tensor), *((name, None) for name in names)]
        self.set(node.outputs[0], self._function(self.name(node.name), tensor, given, steps, shapes))

    def run(self, operators: Operators) -> None:
        """Adds all ops. *operators* has a function for each operator that is no function of elements."""
        for node in self.graph.nodes:
            self._try(node, partial(self._node, operators))
        makers = {name: node for node in self.graph.nodes for name in node.outputs}
        for name in [*self._pending, *self._expressions]:
            self._try(makers[name], partial(self._get_last, name))

    def _get_last(self, name: str, node: Node) -> None:
        """Adds the op of *name*, the result of *node*, which no op reads."""
        self.get(name)

    def _try(self, node: Node, does: Callable[[Node], object]) -> None:
        """Calls *does*, and lists *node* if it is unknown."""
        try:
            does(node)
        except Unknown as reason:
            about = f" ({reason})" if str(reason) else ""
            self.unknown.append(UnknownNode(f"{node.op}{about}", node.name))
        except Lost:
            self.lost.append(UnknownNode(node.op, node.name))

    def _node(self, operators: Operators, node: Node) -> None:
        if not self._lost.isdisjoint(node.inputs):
            raise Lost
        if node.op in ELEMENTS:
            self._elements(node)
        elif node.op in operators:
            operators[node.op](self, node)
        else:
            raise Unknown

    # names and values

    def name(self, text: str) -> str:
        """*text* as the name of an op, with a number behind a name that is taken."""
        given = "".join(char if char.isprintable() else "_" for char in text[:80]).strip("/") or "op"
        name, number = given, 2
        while name in self._names:
            name, number = f"{given}.{number}", number + 1
        self._names.add(name)
        return name

    def shape(self, name: str) -> Shape:
        """The shape of a value. Raises Lost where it is not known."""
        if name not in self.graph.shapes:
            raise Lost
        return self.graph.shapes[name]

    def is_fixed(self, name: str) -> bool:
        """Whether the value is a weight or a constant."""
        return name in self.graph.weights or name in self.graph.constants

    def set(self, name: str, tensor: Laid) -> None:
        """Says where the value *name* lies."""
        self._laid[name] = tensor

    def set_pending(self, name: str, pending: Pending) -> None:
        """Says that the value *name* is the result of a *pending* op."""
        self._pending[name] = pending

    def peek(self, name: str) -> Pending | None:
        """The pending op whose result nobody but the caller reads, which stays where it is; None for other values."""
        return self._pending.get(name) if self.graph.uses.get(name) == 1 else None

    def pending(self, name: str) -> Pending | None:
        """Takes the pending op whose result nobody but the caller reads; None for other values."""
        return self._pending.pop(name) if name in self._pending and self.graph.uses.get(name) == 1 else None

    def get(self, name: str, is_image: bool = False) -> Laid:
        """Where the value *name* lies. Adds its op if that is missing. A value that no op wrote is random."""
        if name in self._pending:
            pending = self._pending.pop(name)
            self._laid[name] = pending.make(pending)
        if name in self._expressions:
            self._laid[name] = self._computed(name, self._expressions.pop(name))
        if name not in self._laid:
            self._laid[name] = self._given(name, is_image)
        return self._laid[name]

    def _given(self, name: str, is_image: bool) -> Laid:
        shape = self.shape(name)
        if not math.prod(shape):
            raise Unknown("no elements")
        if (is_image and len(shape) >= 3) or (self._has_images and len(shape) == 4):
            rows, cols = shape[0] * math.prod(shape[2:]), shape[1]
            return image(self.m.input(self.name(name), (rows, cols), ("batch", "")), shape)
        rows, cols = math.prod(shape[:-1]), math.prod(shape[-1:])
        value = self.m.input(self.name(name), (rows, cols), ("batch", ""))
        return laid(value, shape, len(shape) - 1)

    def add(self, op: Op, like: Laid) -> Laid:
        """Adds *op*, whose first result has the rows and columns of *like*."""
        return like.on(self.m.add(op))

    def result(self, name: str, rows: int, cols: int, axes: tuple[str, str], unit: int = 1) -> Value:
        """A value of *rows* x *cols* for an op to write, in whole groups of *unit* columns."""
        ways = self.m.mesh.ways(axes[1])
        columns = axes[1] if ways > 1 else ""
        parts = self.m.mesh.parts((rows, cols), (axes[0], columns), (1, unit))
        return Value(name=name, shape=(rows, cols), dtype=self.m.dtype, parts=parts, axes=(axes[0], columns))

    def split_axis(self, axis: str, n: int) -> str:
        """*axis*, over which *n* columns are split: none where there are fewer than parts."""
        return axis if n >= self.m.mesh.ways(axis) > 1 else ""

    def disjoint(self, tensor: Laid) -> Laid:
        """*tensor* with columns that no two parts of the split have both, so that sums over them are right."""
        bounds = {part.bounds[1] for part in tensor.value.parts}
        return tensor if len(bounds) in (1, self.m.mesh.ways(tensor.value.axes[1])) else self.whole(tensor)

    def whole(self, tensor: Laid) -> Laid:
        """*tensor* with all columns in each cube."""
        return tensor.on(self.m.whole(tensor.value))

    # functions of elements

    def _elements(self, node: Node) -> None:
        """A function of elements: a part of the op before it, or of an expression that is one op."""
        if self._joined(node):
            return
        expression = ELEMENTS[node.op](node, self._argument)
        if expression is None:
            raise Unknown
        self._expressions[node.outputs[0]] = expression

    def _argument(self, node: Node, number: int) -> Expression | float | None:
        """Input *number* of *node* as an expression, a number, or None if it is left out."""
        name = node.inputs[number] if number < len(node.inputs) else ""
        if not name:
            return None
        if name in self.graph.constants and self.graph.constants[name].size == 1:
            return float(self.graph.constants[name].reshape(-1)[0])
        if name in self._expressions and self.graph.uses.get(name) == 1:
            return self._expressions.pop(name)
        return Expression((name,), (0,))

    def _joined(self, node: Node) -> bool:
        """Whether *node* became a part of a product or convolution before it."""
        out = node.outputs[0]
        if node.op == "Add":
            return any(self._joined_sum(out, *names) for names in (node.inputs, node.inputs[::-1]))
        function = activation_of(node, self.graph.constants)
        if function is None or self.graph.uses.get(node.inputs[0]) != 1:
            return False
        pending = self._pending.get(node.inputs[0])
        if pending is None or pending.activation != "none" or function not in pending.takes:
            return False
        del self._pending[node.inputs[0]]
        self._pending[out] = pending._replace(activation=function)
        return True

    def _joined_sum(self, out: str, name: str, other: str) -> bool:
        """Whether *other* became the bias or the residual of the op of *name*."""
        pending = self._pending.get(name)
        if pending is None or pending.activation != "none" or self.graph.uses.get(name) != 1 or name == other:
            return False
        if self.is_fixed(other):
            is_bias = not pending.bias and pending.residual is None and self.shape(other) == self.shape(out)[-1:]
            if not is_bias or pending.cut is None:
                return False
            joined = pending._replace(bias=True)
        else:
            may = pending.takes_residual and pending.residual is None and self.shape(other) == self.shape(out)
            residual = self.get(other, pending.is_image) if may else None
            if residual is None or self._used(residual.value.axes) != self._used(pending.axes):
                return False
            joined = pending._replace(residual=residual)
        del self._pending[name]
        self._pending[out] = joined
        return True

    def _used(self, axes: Sequence[str]) -> list[str]:
        """*axes* with "" for each that is not split."""
        return [axis if self.m.mesh.ways(axis) > 1 else "" for axis in axes]

    def _computed(self, name: str, expression: Expression) -> Laid:
        """Adds the op of an expression."""
        shape = self.shape(name)
        given = {each: self._laid_for(each, shape) for each in expression.names}
        tensors = [each for each in given.values() if each is not None]
        main = next((each for each in tensors if each.shape == shape and each.is_whole), None)
        if main is None:
            raise Unknown("operands of which none has the shape of the result")
        return self._function(self.name(name), main, list(given.items()), expression.steps, self.graph.shapes)

    def _function(
        self,
        name: str,
        main: Laid,
        given: Sequence[tuple[str, Laid | None]],
        steps: tuple[Step, ...],
        shapes: Mapping[str, Shape],
    ) -> Laid:
        """Adds the op *name* of *steps* on the values *given*, whose result lies as *main*."""
        try:
            main, operands = aligned(self.m, name, main, given, shapes)
        except Unaligned as reason:
            raise Unknown(str(reason)) from None
        simple = self._simple(name, main, operands, steps)
        if simple is not None:
            return simple
        of = main.value
        y = Value(name=self.m.name(name), shape=of.shape, dtype=self.m.dtype, parts=of.parts, axes=of.axes)
        return self.add(Elementwise(name, self.m.mesh, operands, steps, y), main)

    def _laid_for(self, name: str, shape: Shape) -> Laid | None:
        """Where an operand lies; None for a weight, which is laid out as its use needs it."""
        return None if self.is_fixed(name) else self.get(name)

    def _simple(self, name: str, main: Laid, operands: Sequence[Operand], steps: tuple[Step, ...]) -> Laid | None:
        """A sum or an activation by the op that models use for it; None for any other expression."""
        values = [each.value for each in operands]
        same = all(
            [part.bounds for part in each.parts] == [part.bounds for part in main.value.parts] for each in values
        )
        straight = all(
            len(at) == size and (at == np.arange(size)).all()
            for each in operands
            for at, size in zip((each.rows, each.cols), main.value.shape, strict=True)
        )
        if not same or not straight:
            return None
        if steps in SUMS and len(values) == 2:
            return main.on(self.m.plus(name, values[0], values[1], SUMS[steps]))
        if steps in ACTIVATIONS and len(values) == 1:
            return main.on(self.m.activation(name, values[0], ACTIVATIONS[steps]))
        return None

    # movements

    def selected(self, name: str, tensor: Laid, axis: int, chosen: Places, keeps: bool = True) -> Laid:
        """The elements *chosen* of *axis*, as a copy. Without *keeps* the axis goes."""
        atoms = tensor.axes[axis]
        if len(atoms) != 1:
            raise Unknown("an axis that is merged of several")
        old, new = atoms[0], Atom(len(chosen))
        swap: Axis = (new,) if len(chosen) > 1 else ()
        rows, cols = (
            tuple(each for atom in side for each in (swap if atom is old else (atom,)))
            for side in (tensor.rows, tensor.cols)
        )
        maps = []
        for before, after in ((tensor.rows, rows), (tensor.cols, cols)):
            found = indices(after)
            size = size_of(after)
            found[old] = chosen[found[new]] if swap and new in found else np.full(size, chosen[0])
            maps.append(places(before, found, size))
        axes = list(tensor.axes)
        axes[axis] = swap
        if not keeps:
            del axes[axis]
        return self._copied(
            name, [Operand(tensor.value, maps[0], maps[1])], Laid(tensor.value, rows, cols, tuple(axes))
        )

    def _copied(self, name: str, operands: Sequence[Operand], like: Laid) -> Laid:
        """A copy of *operands* with the rows and columns of *like*."""
        rows, cols = size_of(like.rows), size_of(like.cols)
        split = [each.value.axes[1] for each in operands if self.is_split(each.value)]
        axis = self.split_axis(split[0], cols) if split else ""
        y = self.result(self.name(name), rows, cols, (like.value.axes[0], axis))
        return self.add(Elementwise(y.name, self.m.mesh, operands, (0,), y), like)

    def is_split(self, value: Value) -> bool:
        """Whether the columns of *value* are split over cubes."""
        return self.m.mesh.ways(value.axes[-1]) > 1

    def joined(self, name: str, tensors: Sequence[Laid], axis: int) -> Laid:
        """*tensors* one behind the other along *axis*, as a copy."""
        first = tensors[0]
        total = Atom(sum(each.shape[axis] for each in tensors))
        side = first.rows if first.axes[axis] and first.axes[axis][0] in first.rows else first.cols
        if len(first.axes[axis]) != 1:
            raise Unknown("an axis of one element, or merged of several")
        rows, cols = (
            tuple(total if atom is first.axes[axis][0] else atom for atom in each) for each in (first.rows, first.cols)
        )
        like = Laid(
            first.value, rows, cols, tuple((total,) if n == axis else each for n, each in enumerate(first.axes))
        )
        operands, start = [], 0
        for each in tensors:
            if [len(a) for a in each.axes] != [len(a) for a in first.axes] or (side is first.rows) != (
                each.axes[axis][0] in each.rows
            ):
                raise Unknown("tensors in different layouts")
            operands.append(self._part(each, like, axis, start, total))
            start += each.shape[axis]
        return self._copied(name, operands, like)

    def _part(self, tensor: Laid, like: Laid, axis: int, start: int, total: Atom) -> Operand:
        """*tensor* as an operand of the concatenation *like*, from element *start* of *axis* on."""
        maps = []
        size = tensor.shape[axis]
        for before, after in ((tensor.rows, like.rows), (tensor.cols, like.cols)):
            found = indices(after)
            count = size_of(after)
            outside = np.zeros(count, bool)
            index: dict[Atom, Places] = {}
            for own, other in zip(tensor.axes, like.axes, strict=True):
                if other and other[0] is total and total in found:
                    at = found[total] - start
                    outside = (at < 0) | (at >= size)
                    index[own[0]] = np.where(outside, 0, at)
                else:
                    index.update({a: found[b] for a, b in zip(own, other, strict=True) if b in found})
            if any(atom not in index for atom in before):
                raise Unknown("tensors in different layouts")
            maps.append(np.where(outside, NOWHERE, places(before, index, count)))
        return Operand(tensor.value, maps[0], maps[1])

    def regrouped(self, name: str, tensor: Laid, n_rows: int) -> Laid:
        """*tensor*, whose last axis has columns and the innermost rows, with all of that axis as columns: a copy.

        The elements of the axis come in the order in which they lie, which is another one than the file's. Weights that
        multiply them are random, so their rows are in that order too.
        """
        inner = size_of(tensor.rows) // n_rows
        width = size_of(tensor.cols)
        operands = []
        for number in range(inner):
            cols = np.full(inner * width, NOWHERE)
            cols[number * width : (number + 1) * width] = np.arange(width)
            operands.append(Operand(tensor.value, np.arange(n_rows) * inner + number, cols))
        outer: list[Atom] = []
        for atom in tensor.rows:
            if size_of(tuple(outer)) == n_rows:
                break
            outer.append(atom)
        flat = Atom(inner * width)
        like = Laid(tensor.value, tuple(outer), (flat,), (*tensor.axes[:-1], (flat,)))
        return self._copied(name, operands, like)

    # products

    def multiplied(self, node: Node, x: Laid, y: Laid) -> Laid:
        """The matrix products of the last two axes of *x* and *y*."""
        if len(y.axes) != len(x.axes) or x.shape[:-2] != y.shape[:-2]:
            raise Unknown("batches of different shapes")
        cuts = [common_cuts(number, [x, y]) for number in range(len(x.axes) - 2)]
        counts = [len(sizes or ()) for sizes in cuts]
        batch = [size for sizes in cuts for size in sizes or ()]
        one, other = x.reshaped((*batch, *x.shape[-2:])), y.reshaped((*batch, *y.shape[-2:]))
        if not all(cuts) or one is None or other is None or not one.is_whole:
            raise Unknown("batches in different layouts")
        x, y = one, other
        m, k, n = x.axes[-2], x.axes[-1], y.axes[-1]
        atoms = [(a[0], b[0]) for a, b in zip(x.axes[:-2], y.axes[:-2], strict=True) if a and b]
        if not is_last(x.rows, m) or not is_last(x.cols, k):
            raise Unknown("a first factor that is not rows by columns")
        transposed = is_last(y.cols, y.axes[-2]) and is_last(y.rows, n)
        if not transposed and not (is_last(y.rows, y.axes[-2]) and is_last(y.cols, n)):
            raise Unknown("a second factor in another layout")
        rows = x.rows
        keys = tuple(Atom(atom.size) for atom in n)  # x and y may share atoms: queries and keys of the same tokens
        cols = (*x.cols[: len(x.cols) - len(k)], *keys)
        like = Laid(x.value, rows, cols, (*merged(x.axes[:-2], counts), m, keys))
        sizes = size_of(m), size_of(k), size_of(n)
        blocks = [
            self._block(at, x, y, like, atoms, sizes, transposed) for at in np.ndindex(*(a.size for a, _ in atoms))
        ]
        name = self.name(node.name)
        axis = HEADS if size_of(cols) > sizes[2] else ""
        z = self.result(name, size_of(rows), size_of(cols), (x.value.axes[0], axis), sizes[2])
        x_value, y_value = (
            each.value
            if has_blocks(each.value, z, [(own, block.z) for own, block in zip(sides, blocks, strict=True)])
            else self.m.whole(each.value)
            for each, sides in ((x, [block.x for block in blocks]), (y, [block.y for block in blocks]))
        )
        return self.add(BlockProduct(name, self.m.mesh, x_value, y_value, blocks, z), like)

    def _block(
        self,
        at: Sequence[int],
        x: Laid,
        y: Laid,
        z: Laid,
        atoms: Sequence[tuple[Atom, Atom]],
        sizes: tuple[int, int, int],
        transposed: bool,
    ) -> Block:
        m, k, n = sizes
        index = {id(atom): at[number] for number, pair in enumerate(atoms) for atom in pair}

        def start(along: Axis, size: int) -> tuple[int, int]:
            place = 0
            for atom in along:
                place = place * atom.size + index.get(id(atom), 0)
            return place, place + size

        sides = (n, k) if transposed else (k, n)
        return Block(
            (start(x.rows, m), start(x.cols, k)),
            (start(y.rows, sides[0]), start(y.cols, sides[1])),
            (start(z.rows, m), start(z.cols, n)),
            transposed,
        )

    def softmax(self, node: Node, tensor: Laid, axis: int) -> Laid:
        """The softmax over *axis*, which has to be the last columns."""
        if not is_last(tensor.cols, tensor.axes[axis]):
            raise Unknown("an axis that is not the last")
        width = size_of(tensor.axes[axis])
        if any(bound % width for part in tensor.value.parts for bound in part.bounds[1]):
            tensor = self.whole(tensor)
        return self.add(Softmax(self.name(node.name), self.m.mesh, tensor.value, width), tensor)


Operators: TypeAlias = "Mapping[str, Callable[[Lowering, Node], None]]"
SUMS: Final[dict[tuple[Step, ...], str]] = {(0, 1, "add"): "none", (0, 1, "add", Number(0.0), "max"): "relu"}
ACTIVATIONS: Final[dict[tuple[Step, ...], str]] = {
    (0, Number(0.0), "max"): "relu",
    (0, "tanh"): "tanh",
    (0, "sigmoid"): "sigmoid",
    (0, 0, "sigmoid", "mul"): "silu",
}
