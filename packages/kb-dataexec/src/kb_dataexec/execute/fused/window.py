"""One window of fused mode: the values that it leaves behind, from as few matrix products as the log allows."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.parallel import WORKERS, in_parallel
from kb_dataexec.arrays.ranges import distinct, spread
from kb_dataexec.arrays.scratch import Scratch
from kb_dataexec.backends import current
from kb_dataexec.backends.blas_threads import single_threaded, threads_for
from kb_dataexec.execute.fused.batches import Batches
from kb_dataexec.execute.fused.cell_access import CellAccess
from kb_dataexec.execute.fused.cells import IrregularError
from kb_dataexec.execute.fused.dataflow import Dataflow
from kb_dataexec.execute.fused.grids import Grid, Output, accumulations, grids, runs
from kb_dataexec.execute.fused.panels import Tile, cast_along, dtype_after, join, matrix
from kb_dataexec.memory.store import MemoryStore
from kb_dataexec.ops.gemm import product

_BLOCK: Final = 1024, 4096
"""Rows and columns of a product that one thread computes. Source: measured on 4096 x 4096 x 4096 with blocks of 512 to
4096 either way, which differ by a tenth; see benchmarks/speed."""
_HELD_NBYTES: Final = 1 << 28
"""Of results of products that wait for their math; a window with more is halved."""


class _Block(NamedTuple):
    """A part of a grid: which of its lines, and which chains of each."""

    lines: slice
    chains: slice


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
            with Scratch() as scratch:
                self._multiply(grid, scratch)
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

    def _multiply(self, grid: Grid, scratch: Scratch) -> None:
        a = matrix(self._store, [line[0].a for line in grid], scratch)
        b = matrix(self._store, [chain.b for chain in grid[0]], scratch)
        rows = _spans([line[0].a.breadth for line in grid])
        cols = _spans([chain.b.breadth for chain in grid[0]])
        chains = [chain for line in grid for chain in line]
        wanted = {output.casts for chain in chains for output in chain.outputs}
        wanted |= {() for chain in chains if chain.number in self._held}
        summed = np.dtype(np.int32 if a.dtype.kind in "iub" else np.float32)
        shape = a.shape[0], b.shape[1]
        results = {along: np.empty(shape, dtype_after(along, summed)) for along in sorted(wanted)}

        def fill(block: _Block) -> None:
            row, col = _hull(rows[block.lines]), _hull(cols[block.chains])
            sums = product(a[row], b[:, col])
            for line, at in zip(grid[block.lines], rows[block.lines], strict=True):
                for chain, to in zip(line[block.chains], cols[block.chains], strict=True):
                    if chain.initial is not None:
                        part = sums[
                            at.start - row.start : at.stop - row.start, to.start - col.start : to.stop - col.start
                        ]
                        part += chain.initial.read(self._store)
            for along, result in results.items():
                cast_along(result[row, col], sums, along)

        blocks = _blocks(grid)
        with single_threaded() if len(blocks) > 1 else threads_for(*shape, a.shape[1]):
            in_parallel(fill, blocks)
        for line, row in zip(grid, rows, strict=True):
            for chain, col in zip(line, cols, strict=True):
                if chain.number in self._held:
                    self._products[self._held[chain.number]] = results[()][row, col]
        for along, result in results.items():
            self._place(grid, along, result, rows, cols)

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


def _blocks(grid: Grid) -> list[_Block]:
    """*grid* in blocks that one thread each multiplies; undivided where that would leave threads without work."""
    heights, widths = [line[0].a.breadth for line in grid], [chain.b.breadth for chain in grid[0]]
    columns = list(runs(widths, _BLOCK[1]))
    blocks = [_Block(slice(*lines), slice(*chains)) for lines in runs(heights, _BLOCK[0]) for chains in columns]
    worth = current().shares_cores and len(blocks) >= WORKERS
    return blocks if worth else [_Block(slice(None), slice(None))]


def _hull(spans: list[slice]) -> slice:
    return slice(spans[0].start, spans[-1].stop)


def _spans(lengths: list[int]) -> list[slice]:
    ends = np.cumsum(lengths).tolist()
    return [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]
