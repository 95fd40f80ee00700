"""Rows: one row of each sequence of an activation, such as its last token, or the sum of such rows of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kb_engine import Host, TensorRef, default_tolerance
from kb_messages import BenchmarkError
from kb_models.layout import Mesh, Part, Tensors, Value, cut
from kb_models.layout.mesh import Cube
from kb_models.layout.value import Array
from kb_models.ops.op import Op, Read


def kernel(
    tl: Any,
    terms: Sequence[Sequence[TensorRef]],
    y: Sequence[TensorRef],
    places: Sequence[Sequence[tuple[int, int]]],
    pes: int,
) -> None:
    """PE i of a cube adds up, in f32, the rows of *terms* that part i of the rows of Y stands for."""
    cube, place = divmod(tl.program_id(), pes)
    for at in range(*cut(y[cube].shape[0], pes, place)):
        part, row = places[cube][at]
        parts = [tl.load(each[part][row : row + 1, :]).to("f32") for each in terms]
        tl.store(y[cube][at : at + 1, :], sum(parts[1:], start=parts[0]).to(y[cube].dtype))


class Rows(Op):
    """The sum of *terms*, activations of one layout, of one row of each sequence of *every* rows: the last row, or the
    first with *is_first*. A cube reads a row from the nearest cube that has the row."""

    kind = "rows"

    def __init__(self, name: str, mesh: Mesh, terms: Sequence[Value], every: int, *, is_first: bool = False) -> None:
        """Raises BenchmarkError for sequences that the axis `batch` cuts, and for terms of different layouts."""
        x = terms[0]
        for each in terms:
            if [part.bounds for part in each.parts] != [part.bounds for part in x.parts]:
                raise BenchmarkError(f"op {name}", f"{each.name} and {x.name} on other axes", "terms of one layout")
        is_cut = x.axes[0] == "tokens"
        if not is_cut and any(bound % every for part in x.parts for bound in part.bounds[0]):
            got = f"{x.name}, with a part of a sequence of {every} rows in a cube"
            raise BenchmarkError(f"op {name}", got, "whole sequences in each cube", "a batch that the SIPs divide")
        shape = x.shape[0] // every, x.shape[1]
        axes = "batch" if is_cut else x.axes[0], x.axes[1]
        rows = [part.bounds[0] for part in mesh.parts(shape, (axes[0], ""))]
        parts = tuple(Part((own, part.bounds[1]), part.cube) for own, part in zip(rows, x.parts, strict=True))
        self.mesh, self.every, self.first, self.added = mesh, every, 0 if is_first else every - 1, tuple(terms)
        self.y = Value(name=name, shape=shape, dtype=x.dtype, parts=parts, axes=axes)
        self.flops = (len(terms) - 1) * self.y.shape[0] * self.y.shape[1]
        super().__init__(name, self.added, (self.y,))

    @property
    def nbytes(self) -> int:
        """The bytes of the rows that are read and written."""
        return (len(self.added) + 1) * self.y.nbytes

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE."""
        terms, pes = [tensors[each] for each in self.added], self.mesh.pes_per_cube
        spans = ((cube, range(*self.y.parts[cube.number].bounds[0])) for cube in self.mesh.cubes)
        places = [[self._place(cube, row) for row in span] for cube, span in spans]
        host.launch(kernel, terms, tensors[self.y], places, pes, pes=self.mesh.pes)

    def reference(self, read: Read) -> dict[str, Array]:
        """The sum in float64."""
        return {self.y.name: sum(self._rows(read), start=np.zeros(self.y.shape))}

    def tolerance(self, read: Read, expected: Any) -> dict[str, Array]:
        """The default, and what the sum lost in f32 by the sizes of its terms."""
        sizes = sum((np.abs(each) for each in self._rows(read)), start=np.zeros(self.y.shape))
        lost = (len(self.added) - 1) * 2.0**-24 * sizes
        return {self.y.name: default_tolerance(expected[self.y.name], self.y.dtype) + lost}

    def _place(self, cube: Cube, row: int) -> tuple[int, int]:
        """The nearest part of a term that has row *row* of Y for *cube*, and the number of the row in the part."""
        at, count = row * self.every + self.first, len(self.mesh.cubes)
        having = (
            (self.mesh.cubes[part.cube].sip != cube.sip, (part.cube - cube.number) % count, number)
            for number, part in enumerate(self.added[0].parts)
            if part.bounds[0][0] <= at < part.bounds[0][1]
        )
        number = min(having)[-1]
        return number, at - self.added[0].parts[number].bounds[0][0]

    def _rows(self, read: Read) -> list[Array]:
        return [read(each)[self.first :: self.every].astype(np.float64) for each in self.added]
