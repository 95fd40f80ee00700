"""AllReduce: sums the partial results of cubes, so that each cube has the whole sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kb_engine import Host, TensorRef
from kb_engine.collectives import Group, all_reduce
from kb_models.layout import Mesh, Part, Tensors, Value, cut
from kb_models.layout.value import Array
from kb_models.ops.op import Op, Read


def kernel(
    tl: Any,
    x: Sequence[TensorRef],
    y: Sequence[TensorRef],
    groups: Sequence[Group | None],
    rows: Sequence[slice],
    pes: int,
) -> None:
    """PE i of each cube sums rows *rows[i]* of the partial sums, with PE i of the other cubes that share them."""
    cube, place = divmod(tl.program_id(), pes)
    group = groups[tl.program_id()]
    if group is not None:
        all_reduce(tl, group, x[cube][0, rows[place], :], out=y[cube][rows[place], :])


class AllReduce(Op):
    """The sum of X, of (ways, rows, N), over its first dimension: (rows, N) in each cube."""

    kind = "all_reduce"

    def __init__(self, name: str, mesh: Mesh, x: Value) -> None:
        ways, rows, n = x.shape
        axis, row_axis = x.axes[0], x.axes[1]
        parts = tuple(Part((part.bounds[1], part.bounds[2]), part.cube) for part in x.parts)
        self.y = Value(name=name, shape=(rows, n), dtype=x.dtype, parts=parts, axes=(row_axis, ""))
        self.x, self.mesh = x, mesh
        self.flops = (ways - 1) * rows * n
        self.terms = ways
        self._members: dict[tuple[int, ...], list[int]] = {}
        for cube in mesh.cubes:
            key = (mesh.index(row_axis, cube.number),)
            self._members.setdefault(key, []).append(cube.number)
        self._row_axis, self._axis = row_axis, axis
        super().__init__(name, (x,), (self.y,))

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE."""
        mesh, pes = self.mesh, self.mesh.pes_per_cube
        rows = self.y.parts[0].shape[0]
        cuts = [slice(*cut(rows, pes, place)) for place in range(pes)]
        groups: list[Group | None] = [None] * len(mesh.pes)
        for members in self._members.values():
            for place in range(pes):
                if cuts[place].start < cuts[place].stop:
                    group = host.group([mesh.cubes[number].pes[place] for number in members], of=mesh.pes)
                    for number in members:
                        groups[number * pes + place] = group
        host.launch(kernel, tensors[self.x], tensors[self.y], groups, cuts, pes, pes=mesh.pes)

    def reference(self, read: Read) -> dict[str, Array]:
        """The sum in float64."""
        return {self.y.name: read(self.x).astype(np.float64).sum(axis=0)}
