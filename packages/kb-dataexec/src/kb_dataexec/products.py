"""One window of fused mode: the values that it leaves behind, from as few matrix products as the log allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kb_dataexec.batching import Batches
from kb_dataexec.blas import single_threaded, threads_for
from kb_dataexec.cells import IrregularError
from kb_dataexec.dataflow import Dataflow
from kb_dataexec.dtypes import Array
from kb_dataexec.grids import Grid, Output, accumulations, grids
from kb_dataexec.ops.gemm import product
from kb_dataexec.panels import Tile, cast_along, join, matrix
from kb_dataexec.rectangles import CellAccess
from kb_dataexec.spread import distinct, spread
from kb_dataexec.store import MemoryStore

_BAND_ROWS: Final = 1024
"""Rows of a product computed at a time. Source: measured on 4096 x 4096 x 4096, see benchmarks/speed."""
_HELD_NBYTES: Final = 1 << 28
"""Of results of products that wait for their math; a window with more is halved."""


class Window:
    """Evaluates a Dataflow on the store as it is before, then commits."""

    def __init__(self, flow: Dataflow, batches: Batches, store: MemoryStore) -> None:
        self._flow = flow
        self._batches = batches
        self._store = store
        self._access = CellAccess(flow.cells, store)
        self._tiles = [Tile(*cell) for cell in flow.cells.tuples()]
        self._results: list[tuple[Tile, Array]] = []
        self._stacks: list[tuple[Array, Array]] = []
        self._held: dict[int, int] = {}
        self._products: dict[int, Array] = {}

    def evaluate(self) -> None:
        """Compute every live value. Raises StoreError when the window reads what is not there, or no address."""
        self._check_cells()
        flow, gemms = self._flow, self._flow.gemms
        is_product = flow.is_product(flow.live)
        outputs = self._outputs(flow.live[is_product])
        written = flow.live[~is_product]
        values = flow.value_written(written)
        held = self._batches.require(values)
        self._held = {int(gemms.number[record]): record for record in held}
        if flow.nbytes_each(gemms.out[list(self._held)]).sum() > _HELD_NBYTES:
            raise IrregularError("too many products that wait for their math")
        wanted = {int(gemms.number[record]): outputs.get(record, []) for record in held | outputs.keys()}
        for grid in grids(accumulations(gemms, self._tiles, wanted)):
            self._multiply(grid)
        self._compute(written, values)

    def commit(self) -> None:
        """Make the store what it is after the window: released cells hold nothing, live values are written."""
        self._access.release(self._flow.released)
        for tile, value in self._results:
            if tile.rows == 1 or tile.stride == tile.row_nbytes:
                self._store.write_tensor(tile.owner, tile.offset, value, copy=not value.flags.owndata)
            else:
                self._store.write(tile.owner, tile.offset, value, tile.stride)
        for cells, stack in self._stacks:
            self._access.write(cells, stack)

    def _check_cells(self) -> None:
        flow = self._flow
        self._access.check_all()
        self._access.check_readable(distinct(flow.cell[~flow.is_write & (flow.producer < 0)], len(flow.cells)))
        if self._access.have_overlapping_rows(distinct(flow.cell[flow.is_write], len(flow.cells))):
            raise IrregularError("a write of overlapping rows")

    def _outputs(self, products: Array) -> dict[int, list[Output]]:
        """By record of a GEMM, where its result goes."""
        outputs: dict[int, list[Output]] = {}
        cells = self._flow.cell[products].tolist()
        for cell, source in zip(cells, self._flow.sources(products), strict=True):
            outputs.setdefault(source.record, []).append(Output(self._tiles[cell], source.casts))
        return outputs

    def _compute(self, written: Array, values: Array) -> None:
        """Note what the operands *written*, which write *values*, leave behind: values moved, and values computed."""
        cells = self._flow.cell[written]
        shape = self._flow.cells.shape[cells]
        for kind in np.unique(shape[values < 0]).tolist():
            mine = (values < 0) & (shape == kind)
            self._stacks.append((cells[mine], np.array(self._access.read(~values[mine]))))
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        with single_threaded():
            for computed, stack in self._batches.evaluate(self._products, self._access):
                first, last = (np.searchsorted(ordered, computed, side) for side in ("left", "right"))
                at, which = spread(first, last - first)
                if len(at):
                    slots = which if len(stack) == len(computed) else np.zeros_like(which)
                    self._stacks.append((cells[order[at]], stack[slots]))

    def _multiply(self, grid: Grid) -> None:
        b = matrix(self._store, [chain.b for chain in grid[0]])
        for band in _bands(grid):
            self._multiply_band(band, b)

    def _multiply_band(self, grid: Grid, b: Array) -> None:
        a = matrix(self._store, [line[0].a for line in grid])
        with threads_for(a.shape[0], b.shape[1], a.shape[1]):
            result = product(a, b)
        rows = _spans([line[0].a.breadth for line in grid])
        cols = _spans([chain.b.breadth for chain in grid[0]])
        for line, row in zip(grid, rows, strict=True):
            for chain, col in zip(line, cols, strict=True):
                if chain.initial is not None:
                    result[row, col] += chain.initial.read(self._store)
                if chain.number in self._held:
                    self._products[self._held[chain.number]] = result[row, col]
        casts = {output.casts for line in grid for chain in line for output in chain.outputs}
        for along in casts:
            self._place(grid, along, cast_along(result, along), rows, cols)

    def _place(self, grid: Grid, casts: tuple[int, ...], result: Array, rows: list[slice], cols: list[slice]) -> None:
        """Note where the parts of *result* go: as one tile where all of them adjoin."""
        found = [[[o.tile for o in chain.outputs if o.casts == casts] for chain in line] for line in grid]
        if all(len(tiles) == 1 for line in found for tiles in line):
            whole = join([[tiles[0] for tiles in line] for line in found])
            if whole is not None and (whole.rows == 1 or whole.stride >= whole.row_nbytes):
                self._results.append((whole, result))
                return
        for line, row in zip(found, rows, strict=True):
            for tiles, col in zip(line, cols, strict=True):
                self._results += [(tile, result[row, col]) for tile in tiles]


def _bands(grid: Grid) -> Iterator[Grid]:
    """The lines of *grid*, some at a time: fresh memory costs more than a smaller product does."""
    first = rows = 0
    for number, line in enumerate(grid):
        breadth = line[0].a.breadth
        if number > first and rows + breadth > _BAND_ROWS:
            yield grid[first:number]
            first, rows = number, 0
        rows += breadth
    yield grid[first:]


def _spans(lengths: list[int]) -> list[slice]:
    ends = np.cumsum(lengths).tolist()
    return [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]
