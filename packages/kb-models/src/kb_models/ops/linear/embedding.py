"""Embedding: rows of a table by numbers that the kernel loads, such as those of words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from kb_engine import Host, TensorRef
from kb_messages import DType
from kb_models.layout import Mesh, Part, Tensors, Value, cut
from kb_models.layout.mesh import Cube
from kb_models.layout.value import Array
from kb_models.ops.linear.grid import Block
from kb_models.ops.linear.kernels import steps
from kb_models.ops.linear.weights import normal
from kb_models.ops.op import Op, Read

STEP: Final = 8
"""The rows of a store. Source: assumed; rows of 8 KiB over the eight slices of a cube are then 8 KiB in each."""


class Shelf(NamedTuple):
    """Rows *start* to *stop* of the table, which part number *part* has."""

    start: int
    stop: int
    part: int


def kernel(
    tl: Any,
    table: Sequence[TensorRef],
    ids: Sequence[TensorRef],
    y: Sequence[TensorRef],
    blocks: Sequence[Block | None],
    shelves: Sequence[Sequence[Shelf]],
) -> None:
    """Each program copies its columns of its rows from the cubes that have them into its own cube."""
    block = blocks[tl.program_id()]
    if block is None:
        return
    wanted = [int(each) for each in tl.load(ids[block.cube][block.rows]).data]
    spans = steps(slice(0, len(wanted)), STEP)
    rows = ([table_row(table, shelves[block.cube], each)[:, block.cols] for each in wanted[span]] for span in spans)
    stored = None
    for span, loaded in zip(spans, tl.ahead([tl.load_async(row) for row in each] for each in rows), strict=True):
        to = slice(block.rows.start + span.start, block.rows.start + span.stop)
        before, stored = stored, tl.store_async(y[block.cube][to, block.cols], stacked(tl, loaded))
        if before is not None:
            tl.wait(before)
    tl.wait(stored)


def stacked(tl: Any, rows: Sequence[Any]) -> Any:
    """*rows* as one matrix, so that a store has few transfers."""
    if len(rows) == 1:
        return rows[0]
    half = (len(rows) + 1) // 2
    return tl.cat(stacked(tl, rows[:half]), stacked(tl, rows[half:]))


def table_row(table: Sequence[TensorRef], shelves: Sequence[Shelf], number: int) -> TensorRef:
    """Row *number* of the table, in the part that has it."""
    shelf = next(each for each in shelves if each.start <= number < each.stop)
    return table[shelf.part][number - shelf.start : number - shelf.start + 1, :]


class Embedding(Op):
    """Y of rows x width: row ids[i] of a table for each i. The table is split over the axis `vocab`, and over the PEs
    of a cube.

    A cube reads each row from the nearest cube that has it: itself, one of its SIP, or another one. The alternative, a
    table in each cube, is faster by the way between cubes and takes as many times the memory. A row lies in one slice,
    because a row over all slices of a cube takes as many transfers.
    """

    kind = "embedding"

    def __init__(
        self, name: str, mesh: Mesh, rows: int, vocab: int, width: int, dtype: DType, axis: str = "batch"
    ) -> None:
        """Rows are split over *axis*."""
        self.mesh = mesh
        parts = tuple(each for cube in mesh.cubes for each in self._rows_of(cube, vocab, width))
        content = normal((vocab, width), 1.0, dtype)
        self.table = Value(name=f"{name}.table", shape=(vocab, width), dtype=dtype, parts=parts, content=content)
        self.y = Value(
            name=name,
            shape=(rows, width),
            dtype=dtype,
            parts=mesh.parts((rows, width), (axis, "")),
            axes=(axis, ""),
        )
        self.ids = Value(
            name=f"{name}.ids",
            shape=(rows,),
            dtype=DType.I32,
            parts=tuple(Part(part.bounds[:1], part.cube) for part in self.y.parts),
            axes=(axis,),
            content=lambda rng: rng.integers(vocab, size=rows, dtype=np.int32),
            is_looked_at=True,
            role="activation",
        )
        self.flops = 0
        super().__init__(name, (self.table, self.ids), (self.y,))

    @property
    def nbytes(self) -> int:
        """The bytes of the rows that are read and written, and of their numbers."""
        return 2 * self.y.nbytes + self.ids.nbytes

    @property
    def floor_nbytes(self) -> int:
        """The bytes of the rows that are read."""
        return self.y.nbytes

    def launch(self, host: Host, tensors: Tensors) -> None:
        """Launches one program on each PE. Where a cube has fewer rows than PEs, PEs share rows."""
        shelves = [self._shelves(cube.number) for cube in self.mesh.cubes]
        values = [tensors[each] for each in (self.table, self.ids, self.y)]
        host.launch(kernel, *values, self._blocks(), shelves, pes=self.mesh.pes)

    def reference(self, read: Read) -> dict[str, Array]:
        """The rows of the table."""
        return {self.y.name: read(self.table)[read(self.ids)].astype(np.float64)}

    def tolerance(self, read: Read, expected: Mapping[str, Array]) -> dict[str, Array]:
        """Nothing: rows are copied."""
        return {self.y.name: np.zeros(self.y.shape)}

    def _rows_of(self, cube: Cube, vocab: int, width: int) -> list[Part]:
        """The parts of the table in *cube*, one near each PE."""
        start, stop = self.mesh.part("vocab", vocab, cube.number)
        count = min(len(cube.pes), stop - start)
        bounds = [cut(stop - start, count, number) for number in range(count)]
        return [
            Part(((start + a, start + b), (0, width)), cube.number, pe)
            for (a, b), pe in zip(bounds, cube.pes, strict=False)
        ]

    def _blocks(self) -> list[Block | None]:
        pes, width = self.mesh.pes_per_cube, self.y.shape[1]
        found: list[Block | None] = []
        for part in self.y.parts:
            rows = part.shape[0]
            along = max(1, min(pes // rows, width))
            down = min(rows, pes // along)
            for place in range(pes):
                i, j = divmod(place, along)
                if i >= down:
                    found.append(None)
                    continue
                span = slice(i * rows // down, (i + 1) * rows // down)
                found.append(Block(part.cube, 0, span, slice(j * width // along, (j + 1) * width // along)))
        return found

    def _shelves(self, cube: int) -> list[Shelf]:
        """The rows of the table and the nearest parts that have them, for *cube*."""
        here = self.mesh.cubes[cube]
        found: dict[tuple[int, int], tuple[bool, bool, int]] = {}
        for number, part in enumerate(self.table.parts):
            there = self.mesh.cubes[part.cube]
            way = there.number != cube, there.sip != here.sip, number
            found[part.bounds[0]] = min(found.get(part.bounds[0], way), way)
        return [Shelf(*bounds, way[2]) for bounds, way in sorted(found.items())]
