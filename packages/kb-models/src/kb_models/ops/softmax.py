"""Softmax: each row, or each of several equal parts of a row, as powers that add up to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from kb_engine import Host, TensorRef, default_tolerance
from kb_messages import BenchmarkError
from kb_models.layout import Mesh, Tensors, Value, cut
from kb_models.layout.value import Array
from kb_models.ops.op import Op, Read

MOST_ROWS: Final = 32
"""The most rows of a step. Source: assumed, as in the bundled softmax."""
_U: Final = 2.0**-24


def kernel(tl: Any, x: Sequence[TensorRef], y: Sequence[TensorRef], pes: int, step: int, width: int) -> None:
    """PE i of a cube takes part i of the rows of its cube, and all parts of *width* columns of them."""
    cube, place = divmod(tl.program_id(), pes)
    first, last = cut(x[cube].shape[0], pes, place)
    spans = [slice(at, min(at + step, last)) for at in range(first, last, step)]
    loads = (tl.load_async(x[cube][rows, :]) for rows in spans)
    pending: list[Any] = []
    for rows, loaded in zip(spans, tl.ahead(loads), strict=True):
        wide = loaded.to("f32").reshape(-1, width)
        powers = tl.exp(wide - tl.max(wide, axis=1))
        found = (powers / tl.sum(powers, axis=1)).to(y[cube].dtype).reshape(rows.stop - rows.start, -1)
        pending.append(tl.store_async(y[cube][rows, :], found))
        if len(pending) > 1:
            tl.wait(pending.pop(0))
    for each in pending:
        tl.wait(each)


class Softmax(Op):
    """The softmax of X over parts of *width* neighbouring columns. Each cube takes its own part of X, whose columns
    are whole parts."""

    kind = "softmax"

    def __init__(self, name: str, mesh: Mesh, x: Value, width: int) -> None:
        """Raises BenchmarkError where a cube has a piece of a part."""
        for part in x.parts:
            if any(bound % width for bound in part.bounds[1]):
                got = f"columns {part.bounds[1]} in cube {part.cube}"
                raise BenchmarkError(f"op {name}", got, f"whole parts of {width} columns")
        self.mesh, self.x, self.width = mesh, x, width
        self.y = Value(name=name, shape=x.shape, dtype=x.dtype, parts=x.parts, axes=x.axes)
        self.flops = 5 * int(np.prod(x.shape))
        super().__init__(name, (x,), (self.y,))

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE. A step is as many rows as fit."""
        pes = self.mesh.pes_per_cube
        rows, cols = (max(part.shape[side] for part in self.x.parts) for side in (0, 1))
        each = cols * (3 * self.x.dtype.nbytes + 12)
        step = host.fitted(lambda step: step * each, step=(None, min(MOST_ROWS, -(-rows // pes))))["step"]
        host.launch(kernel, tensors[self.x], tensors[self.y], pes, step, self.width, pes=self.mesh.pes)

    def _parts(self, read: Read) -> Array:
        return read(self.x).astype(np.float64).reshape(-1, self.width)

    def reference(self, read: Read) -> dict[str, Array]:
        """The definition, in float64."""
        x = self._parts(read)
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        return {self.y.name: (powers / powers.sum(axis=1, keepdims=True)).reshape(self.y.shape)}

    def tolerance(self, read: Read, expected: Any) -> dict[str, Array]:
        """Roundings of f32: of the difference, whose error is relative in the power, of power and quotient, and of the
        sum; and the rounding of the result."""
        x = self._parts(read)
        sizes = np.abs(x - x.max(axis=1, keepdims=True)).reshape(self.y.shape)
        array = expected[self.y.name]
        relative = (sizes + 10 + 2 * np.sqrt(self.width)) * _U
        return {self.y.name: default_tolerance(array, self.y.dtype) + array * relative}
