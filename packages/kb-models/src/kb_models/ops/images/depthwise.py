"""Depthwise convolution: each channel has a window of its own, which the math units multiply tap by tap."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import add
from typing import Any

import numpy as np

from kb_engine import Host, TensorRef, gemm_tolerance
from kb_messages import BenchmarkError
from kb_models.layout import Mesh, Tensors, Value
from kb_models.layout.value import Array
from kb_models.ops.images.convolution import ACTIVATIONS, FUNCTION_ROUNDINGS, Activation
from kb_models.ops.images.window import (
    Images,
    Patch,
    Scan,
    Window,
    most_elements,
    padded,
    patches,
    scanned,
    under_tap,
)
from kb_models.ops.linear import normal
from kb_models.ops.op import Op, Read


def kernel(
    tl: Any,
    x: Sequence[TensorRef],
    w: Sequence[TensorRef],
    y: Sequence[TensorRef],
    work: Sequence[Sequence[Patch]],
    scan: Scan,
    activation: Activation,
) -> None:
    """A program computes its patches of Y. Row t of *w* has the weights of tap t, and the last row the bias."""
    for patch in work[tl.program_id()]:
        rows = tl.load(w[patch.cube][:, patch.cols]).to("f32")
        weights = [rows[tap : tap + 1, :] for tap in range(w[patch.cube].shape[0])]
        weighted = partial(under_weight, weights)
        sums = scanned(tl, x, patch, scan, weighted, add, 0.0)
        found = activated(tl, sums + weights[-1], activation)
        tl.store(y[patch.cube][patch.rows, patch.cols], found.to(y[patch.cube].dtype))


def under_weight(weights: Sequence[Any], tap: int, under: Any) -> Any:
    """The pixels under tap number *tap*, times its weights."""
    return under.to("f32") * weights[tap]


def activated(tl: Any, x: Any, activation: Activation) -> Any:
    """The activation of x, in f32. GELU is the approximation by tanh. Source: Hendrycks, Gimpel, arXiv 1606.08415."""
    if activation == "relu":
        return tl.maximum(x, 0.0)
    if activation == "relu6":
        return tl.clamp(x, 0.0, 6.0)
    if activation == "gelu":
        return 0.5 * x * (1.0 + tl.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
    return x * tl.sigmoid(x) if activation == "silu" else x


class Depthwise(Op):
    """Y = activation(X * W + bias), where filter c of W reads channel c of X alone.

    Y lies as X: its rows are split by the number of outputs, and its channels as the channels of X. W has a row for
    each tap, and the bias as its last row: (taps + 1, channels).
    """

    kind = "depthwise"

    def __init__(self, name: str, mesh: Mesh, x: Images, window: Window, *, activation: Activation = "none") -> None:
        if activation not in ACTIVATIONS:
            raise BenchmarkError(f"op {name}", f"activation {activation!r}", f"one of {', '.join(ACTIVATIONS)}")
        self.mesh, self.images, self.activation, self.x = mesh, x, activation, x.value
        self.scan = Scan(window, x.height, x.width, *window.over(name, x.height, x.width))
        outputs, taps, dtype = x.batch * self.scan.down * self.scan.across, len(window.taps), x.value.dtype
        shape, axes = (taps + 1, x.channels), x.value.axes
        self.w = Value(
            name=f"{name}.w",
            shape=shape,
            dtype=dtype,
            parts=mesh.parts(shape, ("", axes[1])),
            content=normal(shape, taps**-0.5, dtype),
        )
        parts = mesh.parts((outputs, x.channels), axes)
        self.y = Value(name=name, shape=(outputs, x.channels), dtype=dtype, parts=parts, axes=axes)
        self.flops = 2 * outputs * x.channels * taps
        self.terms = taps + 1
        super().__init__(name, (self.x, self.w), (self.y,))

    @property
    def result(self) -> Images:
        """Y as images."""
        return Images(self.y, self.images.batch, self.scan.down, self.scan.across)

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE."""
        work = patches(self.mesh, self.x, self.y, most_elements(host, self.x))
        x, w, y = (tensors[each] for each in (self.x, self.w, self.y))
        host.launch(kernel, x, w, y, work, self.scan, self.activation, pes=self.mesh.pes)

    def reference(self, read: Read) -> dict[str, Array]:
        """The definition, tap by tap, in float64."""
        return {self.y.name: ACTIVATIONS[self.activation](self._sums(read, np.positive))}

    def tolerance(self, read: Read, expected: Any) -> dict[str, Array]:
        """The tolerance of a product, from the sum of the sizes of all terms, as that of a convolution."""
        sizes = self._sums(read, np.abs)
        curved = self.activation in ("gelu", "silu")
        found = gemm_tolerance(expected[self.y.name], sizes * (1.13 if curved else 1.0), self.terms, self.y.dtype)
        return {self.y.name: found + (FUNCTION_ROUNDINGS * 2.0**-24 * sizes if curved else 0.0)}

    def _sums(self, read: Read, of: Any) -> Array:
        """X * W + bias, with *of* each of them, in float64."""
        *weights, bias = of(read(self.w).astype(np.float64))
        x = read(self.x).reshape(self.images.batch, self.images.height, self.images.width, -1)
        found = np.zeros((self.images.batch, self.scan.down, self.scan.across, self.y.shape[1]))
        for image, sums in zip(x, found, strict=True):
            wide = padded(of(image.astype(np.float64)), self.scan.window, 0.0)
            for tap, row in zip(self.scan.window.taps, weights, strict=True):
                sums += under_tap(wide, tap, self.scan) * row
        found += bias
        return found.reshape(self.y.shape)
