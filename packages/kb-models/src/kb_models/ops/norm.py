"""RmsNorm: each row over the root of its mean square, times a weight for each column, after a residual is added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kb_engine import Host, TensorRef
from kb_models.layout import Mesh, Tensors, Value, cut
from kb_models.layout.value import Array
from kb_models.ops.linear import normal
from kb_models.ops.op import Op, Read


def kernel(
    tl: Any, x: Sequence[TensorRef], w: Sequence[TensorRef], y: Sequence[TensorRef], pes: int, epsilon: float
) -> None:
    """PE i of a cube normalizes part i of the rows of its cube, one row after the other, in f32."""
    cube, place = divmod(tl.program_id(), pes)
    weight = tl.load(w[cube]).to("f32")
    for row in range(*cut(x[cube].shape[0], pes, place)):
        wide = tl.load(x[cube][row : row + 1, :]).to("f32")
        square = tl.sum(wide * wide, axis=1) / x[cube].shape[1]
        tl.store(y[cube][row : row + 1, :], (wide * tl.rsqrt(square + epsilon) * weight).to(y[cube].dtype))


class RmsNorm(Op):
    """The RMS norm of X, rows x width, whole in each cube."""

    kind = "norm"

    def __init__(self, name: str, mesh: Mesh, x: Value, epsilon: float) -> None:
        rows, width = x.shape
        content = normal((width,), 1.0, x.dtype)
        self.w = Value(
            name=f"{name}.w", shape=(width,), dtype=x.dtype, parts=mesh.parts((width,), ("",)), content=content
        )
        self.y = Value(name=name, shape=x.shape, dtype=x.dtype, parts=x.parts, axes=x.axes)
        self.x, self.mesh, self.epsilon = x, mesh, epsilon
        self.flops = 4 * rows * width
        self.terms = width
        super().__init__(name, (x, self.w), (self.y,))

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE."""
        x, w, y = (tensors[each] for each in (self.x, self.w, self.y))
        host.launch(kernel, x, w, y, self.mesh.pes_per_cube, self.epsilon, pes=self.mesh.pes)

    def reference(self, read: Read) -> dict[str, Array]:
        """The definition, in float64. Source: Zhang, Sennrich, arXiv 1910.07467."""
        x, w = read(self.x).astype(np.float64), read(self.w).astype(np.float64)
        return {self.y.name: x / np.sqrt((x**2).mean(axis=1, keepdims=True) + self.epsilon) * w}
