"""Operators of ONNX beside functions of elements: which op or which view each of them is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from kb_models.networks.axes import Atom, Laid, image, is_last, laid, same_layout, size_of
from kb_models.networks.graph import Node
from kb_models.networks.lower import CHANNELS, COLUMNS, HEADS, Lowering, Pending
from kb_models.networks.unknown import Unknown
from kb_models.ops import Activation, Images, Window

_LINEAR_TAKES = frozenset({"relu", "silu", "gelu_tanh"})
_CONVOLUTION_TAKES = frozenset({"relu", "relu6", "silu"})


def _view(lowering: Lowering, node: Node) -> None:
    """The same elements in another shape."""
    found = lowering.get(node.inputs[0]).reshaped(lowering.shape(node.outputs[0]))
    if found is None:
        raise Unknown("elements that move")
    lowering.set(node.outputs[0], found)


def _transpose(lowering: Lowering, node: Node) -> None:
    tensor = lowering.get(node.inputs[0])
    lowering.set(node.outputs[0], tensor.transposed(node.get("perm", range(len(tensor.axes))[::-1])))


def _same(lowering: Lowering, node: Node) -> None:
    """The input itself: Identity, Dropout, and a Cast, because all activations have one dtype."""
    graph = lowering.graph
    if node.outputs[0] in graph.integers and node.inputs[0] not in graph.integers:
        raise Unknown("to integers")
    if any(graph.uses.get(name) for name in node.outputs[1:]):
        raise Unknown("with a mask")
    pending = lowering.pending(node.inputs[0])
    if pending is not None:
        lowering.set_pending(node.outputs[0], pending)
    else:
        lowering.set(node.outputs[0], lowering.get(node.inputs[0]))


def _constant(lowering: Lowering, node: Node, number: int) -> np.ndarray[Any, Any] | None:
    """Input *number* of *node*, a constant; None where it is left out."""
    name = node.inputs[number] if number < len(node.inputs) else ""
    if name and name not in lowering.graph.constants:
        raise Unknown("with sizes that are computed")
    return lowering.graph.constants[name] if name else None


def _matmul(lowering: Lowering, node: Node) -> None:
    x, w = node.inputs
    if not lowering.is_fixed(w):
        if lowering.is_fixed(x):
            raise Unknown("a weight as the first factor")
        lowering.set(node.outputs[0], lowering.multiplied(node, lowering.get(x), lowering.get(w)))
        return
    if len(lowering.shape(w)) != 2:
        raise Unknown("a weight of several matrices")
    _linear(lowering, node, lowering.get(x), lowering.shape(w)[1])


def _gemm(lowering: Lowering, node: Node) -> None:
    if node.get("transA", 0):
        raise Unknown("a first factor that is transposed")
    if not lowering.is_fixed(node.inputs[1]):
        raise Unknown("without a weight")
    shape = lowering.shape(node.inputs[1])
    n = shape[0] if node.get("transB", 0) else shape[1]
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    if bias and (not lowering.is_fixed(bias) or math.prod(lowering.shape(bias)) not in (1, n)):
        raise Unknown("a bias of another shape")
    _linear(lowering, node, lowering.get(node.inputs[0]), n, bool(bias))


def _linear(lowering: Lowering, node: Node, x: Laid, n: int, bias: bool = False) -> None:
    """A product with a weight of *n* columns, which takes a bias, an activation and a residual that follow."""
    out = node.outputs[0]
    x = lowering.disjoint(_columns(lowering, node, x))
    unit = _head_size(lowering, out)
    lowering.set_pending(out, _product(lowering, node.name, x, n, unit)._replace(bias=bias))


def _product(lowering: Lowering, name: str, x: Laid, n: int, unit: int) -> Pending:
    m = lowering.m
    cols = (Atom(n),) if n > 1 else ()
    like = Laid(x.value, x.rows, cols, (*x.axes[:-1], cols))
    axis = "" if lowering.is_split(x.value) else HEADS if unit > 1 else lowering.split_axis(COLUMNS, n)

    def make(pending: Pending) -> Laid:
        residual = None if pending.residual is None else pending.residual.value
        if pending.residual is not None and not same_layout(pending.residual, like):
            raise Unknown("a residual in another layout")
        y = m.linear(
            *(lowering.name(name), x.value, n, axis),
            unit=unit,
            bias=pending.bias,
            activation=pending.activation,
            residual=residual,
        )
        return like.on(y)

    def cut(pending: Pending, sizes: Sequence[int]) -> list[Pending]:
        parts = [_product(lowering, f"{name}.{number}", x, size, unit) for number, size in enumerate(sizes)]
        return [part._replace(bias=pending.bias) for part in parts]

    return Pending(make, (x.value.axes[0], axis), _LINEAR_TAKES, cut=cut)


def _columns(lowering: Lowering, node: Node, x: Laid) -> Laid:
    """*x* with its last axis as all of its columns, as a product reads it: *x* itself, or a copy."""
    last = x.axes[-1]
    if set(last) == set(x.cols) and last:
        return x
    if not set(x.cols) <= set(last) or not last:
        raise Unknown("rows of one tensor that are columns of another")
    inner = tuple(atom for atom in x.rows if atom in last)
    if not is_last(x.rows, inner):
        raise Unknown("elements that move")
    return lowering.regrouped(f"{node.name}.flat", x, size_of(x.rows) // size_of(inner))


def _head_size(lowering: Lowering, name: str) -> int:
    """The columns of a head, where *name* is reshaped to heads next; 1 elsewhere."""
    readers = [node for node in lowering.graph.nodes if name in node.inputs]
    if len(readers) != 1:
        return 1
    [node] = readers
    if node.op in ("Add", "Split"):
        sizes = [_head_size(lowering, each) for each in node.outputs]
        return sizes[0] if len(set(sizes)) == 1 else 1
    shape = lowering.graph.shapes.get(node.outputs[0], ())
    return shape[-1] if node.op == "Reshape" and len(shape) >= 4 else 1


def _softmax(lowering: Lowering, node: Node) -> None:
    tensor = lowering.get(node.inputs[0])
    axis = node.get("axis", -1) % len(tensor.axes)
    lowering.set(node.outputs[0], lowering.softmax(node, tensor, axis))


def _norm(lowering: Lowering, node: Node) -> None:
    tensor = lowering.get(node.inputs[0])
    axis = node.get("axis", -1) % len(tensor.axes)
    normed = [atom for each in tensor.axes[axis:] for atom in each]
    if not set(normed) == set(tensor.cols):
        raise Unknown("over other axes than the columns")
    add = lowering.m.rms_norm if node.op == "RMSNormalization" else lowering.m.layer_norm
    value = add(lowering.name(node.name), tensor.value, node.get("epsilon", 1e-5))
    lowering.set(node.outputs[0], tensor.on(value))


def _gather(lowering: Lowering, node: Node) -> None:
    data = node.inputs[0]
    shape = lowering.shape(data)
    axis = node.get("axis", 0) % len(shape)
    if lowering.is_fixed(data):
        if axis or len(shape) != 2:
            raise Unknown("from a table of another shape than entries by width")
        out = lowering.shape(node.outputs[0])
        value = lowering.m.embedding(lowering.name(node.name), math.prod(out[:-1]), *shape)
        lowering.set(node.outputs[0], laid(value, out, len(out) - 1))
        return
    chosen = _constant(lowering, node, 1)
    if chosen is None or chosen.ndim > 1:
        raise Unknown("by indices that are computed")
    at = np.atleast_1d(chosen).astype(np.int64) % shape[axis]
    tensor = lowering.get(data)
    lowering.set(node.outputs[0], lowering.selected(node.name, tensor, axis, at, keeps=chosen.ndim > 0))


def _split(lowering: Lowering, node: Node) -> None:
    shapes = [lowering.shape(name) for name in node.outputs]
    axis = node.get("axis", 0) % len(shapes[0])
    sizes = [shape[axis] for shape in shapes]
    pending = lowering.pending(node.inputs[0]) if axis == len(shapes[0]) - 1 else None
    if pending is not None and pending.cut is not None and pending.activation == "none" and pending.residual is None:
        for name, part in zip(node.outputs, pending.cut(pending, sizes), strict=True):
            lowering.set_pending(name, part)
        return
    if pending is not None:
        lowering.set(node.inputs[0], pending.make(pending))
    tensor = lowering.get(node.inputs[0])
    start = 0
    for number, (name, size) in enumerate(zip(node.outputs, sizes, strict=True)):
        at = np.arange(start, start + size)
        lowering.set(name, lowering.selected(f"{node.name}.{number}", tensor, axis, at))
        start += size


def _slice(lowering: Lowering, node: Node) -> None:
    tensor = lowering.get(node.inputs[0])
    given = [_constant(lowering, node, number) for number in range(1, 5)]
    if given[0] is None:
        given = [np.asarray(node.get(name, [])) if node.get(name, []) else None for name in ("starts", "ends", "axes")]
        given.append(None)
    starts, ends, axes, steps = given
    assert starts is not None
    assert ends is not None
    for number, axis in enumerate(range(len(starts)) if axes is None else axes.tolist()):
        size = tensor.shape[axis]
        step = 1 if steps is None else int(steps[number])
        at = np.arange(size)[slice(int(starts[number]), int(ends[number]), step)]
        if not len(at):
            raise Unknown("no elements")
        if len(at) < size or step != 1:
            tensor = lowering.selected(node.name, tensor, axis % len(tensor.axes), at)
    lowering.set(node.outputs[0], tensor)


def _expand(lowering: Lowering, node: Node) -> None:
    """The input repeated along axes of one element: no copy."""
    lowering.set(node.outputs[0], lowering.get(node.inputs[0]).repeated(lowering.shape(node.outputs[0])))


def _concat(lowering: Lowering, node: Node) -> None:
    if any(lowering.is_fixed(name) for name in node.inputs):
        raise Unknown("with a weight")
    tensors = [lowering.get(name) for name in node.inputs]
    axis = node.get("axis", 0) % len(tensors[0].axes)
    lowering.set(node.outputs[0], lowering.joined(node.name, tensors, axis))


def _images(lowering: Lowering, name: str) -> tuple[Laid, Images]:
    """The value *name*, images of one or two dimensions with their channels second, as ops read images."""
    tensor = lowering.get(name, is_image=True)
    if len(tensor.axes) not in (3, 4):
        raise Unknown(f"of {len(tensor.axes) - 2} dimensions")
    batch, channels, *sides = tensor.axes
    if tensor.cols != channels or tensor.rows != (*batch, *(atom for axis in sides for atom in axis)):
        raise Unknown("images whose pixels do not lie together")
    height, width = tensor.shape[2:] if len(sides) == 2 else (1, tensor.shape[2])
    return tensor, Images(tensor.value, tensor.shape[0], height, width)


def _window(node: Node, kernel: Sequence[int], images: Images) -> Window:
    """The window of *node* with the taps *kernel* over *images*."""
    flat = len(kernel) == 1
    stride, dilation = (list(node.get(name, [1] * len(kernel))) for name in ("strides", "dilations"))
    padding = list(node.get("pads", [0] * 2 * len(kernel)))
    if flat:
        kernel, stride, dilation, padding = [1, *kernel], [1, *stride], [1, *dilation], [0, padding[0], 0, padding[1]]
    auto = node.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        sides = (images.height, images.width), kernel, stride, dilation
        lack = [
            max(0, (-(-size // step) - 1) * step + (taps - 1) * apart + 1 - size)
            for size, taps, step, apart in zip(*sides, strict=True)
        ]
        less, more = [each // 2 for each in lack], [each - each // 2 for each in lack]
        padding = [*less, *more] if auto == "SAME_UPPER" else [*more, *less]
    if min(padding) < 0:
        raise Unknown("a padding below 0")
    return Window.of(kernel, stride, padding, dilation)


def _result(lowering: Lowering, node: Node, images: Images) -> Laid:
    """*images* as the first result of *node*."""
    shape = lowering.shape(node.outputs[0])
    sides = (images.height, images.width) if len(shape) == 4 else (images.width,)
    if shape != (images.batch, images.channels, *sides):
        raise Unknown("a result of another shape")
    return image(images.value, shape)


def _conv(lowering: Lowering, node: Node) -> None:
    if not lowering.is_fixed(node.inputs[1]):
        raise Unknown("filters that are computed")
    n, per_group, *kernel = lowering.shape(node.inputs[1])
    x, images = _images(lowering, node.inputs[0])
    window, groups = _window(node, kernel, images), node.get("group", 1)
    is_depthwise = groups == images.channels == n and per_group == 1 and groups > 1
    axis = x.value.axes[1] if is_depthwise else lowering.split_axis(CHANNELS, n)
    m, name = lowering.m, node.name

    def make(pending: Pending) -> Laid:
        found, activation = lowering.name(name), cast(Activation, pending.activation)
        if is_depthwise:
            return _result(lowering, node, m.depthwise(found, images, window, activation=activation))
        residual = None
        if pending.residual is not None:
            residual = Images(pending.residual.value, images.batch, *window.over(found, images.height, images.width))
        made = m.convolution(
            *(found, images, n, window),
            groups=groups,
            bias=pending.bias,
            activation=activation,
            residual=residual,
            axis=axis,
        )
        return _result(lowering, node, made)

    bias = is_depthwise or (len(node.inputs) > 2 and bool(node.inputs[2]))
    takes_residual = not is_depthwise
    axes = (x.value.axes[0], axis)
    pending = Pending(make, axes, _CONVOLUTION_TAKES, bias=bias, is_image=True, takes_residual=takes_residual)
    lowering.set_pending(node.outputs[0], pending)


def _batch_norm(lowering: Lowering, node: Node) -> None:
    """A batch norm of inference: a part of the convolution before it, or a factor and a summand for each channel."""
    if len([name for name in node.outputs if name]) > 1 or node.get("training_mode", 0):
        raise Unknown("of training")
    if not all(lowering.is_fixed(name) for name in node.inputs[1:]):
        raise Unknown("with factors that are computed")
    held = lowering.peek(node.inputs[0])
    if held is not None and held.is_image and held.activation == "none" and held.residual is None:
        lowering.pending(node.inputs[0])
        lowering.set_pending(node.outputs[0], held._replace(bias=True))
        return
    lowering.scaled(node, lowering.get(node.inputs[0], is_image=True))


def _pool(lowering: Lowering, node: Node) -> None:
    if node.get("ceil_mode", 0):
        raise Unknown("with ceil_mode")
    if any(lowering.graph.uses.get(name) for name in node.outputs[1:]):
        raise Unknown("with indices")
    _, images = _images(lowering, node.inputs[0])
    window = _window(node, node.get("kernel_shape", []), images)
    name = lowering.name(node.name)
    if node.op == "MaxPool":
        found = lowering.m.max_pool(name, images, window)
    else:
        counts = bool(node.get("count_include_pad", 0))
        found = lowering.m.average_pool(name, images, window, counts_padding=counts)
    lowering.set(node.outputs[0], _result(lowering, node, found))


def _mean(lowering: Lowering, node: Node) -> None:
    """A mean over all pixels: GlobalAveragePool, or ReduceMean over the axes behind the channels."""
    tensor, images = _images(lowering, node.inputs[0])
    if node.op == "ReduceMean":
        given = _constant(lowering, node, 1)
        axes = list(node.get("axes", [])) if given is None else given.reshape(-1).tolist()
        if sorted(axis % len(tensor.axes) for axis in axes) != list(range(2, len(tensor.axes))):
            raise Unknown("over other axes than pixels")
    value = lowering.m.global_pool(lowering.name(node.name), images)
    batch, channels = (((Atom(size),) if size > 1 else ()) for size in tensor.shape[:2])
    ones = len(lowering.shape(node.outputs[0])) - 2
    lowering.set(node.outputs[0], Laid(value, batch, channels, (batch, channels, *((),) * ones)))


OPERATORS: Final[Mapping[str, Callable[[Lowering, Node], None]]] = {
    "Reshape": _view,
    "Flatten": _view,
    "Squeeze": _view,
    "Unsqueeze": _view,
    "Transpose": _transpose,
    "Identity": _same,
    "Dropout": _same,
    "Cast": _same,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "BatchNormalization": _batch_norm,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "GlobalAveragePool": _mean,
    "ReduceMean": _mean,
    "Softmax": _softmax,
    "LayerNormalization": _norm,
    "RMSNormalization": _norm,
    "Gather": _gather,
    "Split": _split,
    "Slice": _slice,
    "Concat": _concat,
    "Expand": _expand,
}
