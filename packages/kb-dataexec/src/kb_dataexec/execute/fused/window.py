"""FusedWindow: one window of fused mode. Computes the values that are live after the window, then writes them."""

from __future__ import annotations

from typing import Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.ranges import distinct, spread
from kb_dataexec.arrays.scratch import Scratch
from kb_dataexec.backends.blas_threads import single_threaded
from kb_dataexec.execute.fused.accesses.cell_access import CellAccess
from kb_dataexec.execute.fused.accesses.conflicts import IrregularError
from kb_dataexec.execute.fused.accesses.dataflow import Dataflow
from kb_dataexec.execute.fused.batches import Batches
from kb_dataexec.execute.fused.products.gemm_chains import GemmChains
from kb_dataexec.execute.fused.products.grid_product import GridProduct
from kb_dataexec.execute.fused.products.grids import Destination, ProductGrid, accumulations, grids
from kb_dataexec.execute.fused.products.stored_matrix import StoredMatrix
from kb_dataexec.log.schedule import Schedule
from kb_dataexec.memory.store import MemoryStore

_HELD_NBYTES: Final = 1 << 28
"""Bytes of products that wait for the math on them. A window with more is halved."""


class FusedWindow:
    """Evaluates the records [start, stop) of *schedule* on *store*, which has the contents before them.

    Raises IrregularError if the records do not have the form that fusing needs.
    """

    def __init__(self, schedule: Schedule, store: MemoryStore, start: int, stop: int) -> None:
        self._flow = Dataflow(schedule, start, stop)
        self._chains = GemmChains(self._flow, schedule.log.strings)
        self._batches = Batches(self._flow, self._chains, schedule, start)
        self._store = store
        self._access = CellAccess(self._flow.cells, store)
        self._matrices = [StoredMatrix(*cell) for cell in self._flow.cells.tuples()]
        self._results: list[tuple[StoredMatrix, Array]] = []
        self._stacks: list[tuple[Array, Array]] = []
        self._partial: dict[int, Array] = {}
        self._held: dict[int, Array] = {}

    def evaluate(self) -> None:
        """Computes every live value. Changes nothing in the store.

        Raises StoreError when the window reads bytes that are not initialised, and IrregularError when an address is in
        no memory, rows of a write overlap, or too many products wait for their math.
        """
        self._check_cells()
        flow, number = self._flow, self._chains.number
        made = self._chains.makes(flow.live)
        destinations = self._destinations(flow.live[made])
        written = np.append(flow.live[~made], flow.by_bytes.partial)
        values = flow.value_written(written)
        held = self._batches.require(values)
        outs = self._chains.out[[int(number[record]) for record in held]]
        if flow.operands.nbytes(outs).sum() > _HELD_NBYTES:
            raise IrregularError("too many products that wait for their math")
        record_of = {int(number[record]): record for record in held}
        wanted = {int(number[record]): destinations.get(record, []) for record in held | destinations.keys()}
        for grid in grids(accumulations(self._chains, self._matrices, wanted, self._store)):
            with Scratch() as scratch:
                self._multiply(grid, record_of, scratch)
        self._compute(written, values)

    def commit(self) -> None:
        """Brings the store to its state after the window: un-initialise released cells, then write live values."""
        self._access.release(self._flow.released)
        self._commit_partial()
        for matrix, value in self._results:
            if matrix.rows == 1 or matrix.stride == matrix.row_nbytes:
                self._store.write_tensor(matrix.owner, matrix.offset, value, copy=not value.flags.owndata)
            else:
                self._store.write(matrix.owner, matrix.offset, value, matrix.stride)
        for cells, stack in self._stacks:
            self._access.write(cells, stack)

    def _check_cells(self) -> None:
        flow, n_cells = self._flow, len(self._flow.cells)
        is_write = flow.operands.is_write
        self._access.check_all()
        self._access.check_readable(distinct(flow.cell[flow.operands.is_read & (flow.producer < 0)], n_cells))
        if self._access.have_overlapping_rows(distinct(flow.cell[is_write], n_cells)):
            raise IrregularError("a write of overlapping rows")
        if not self._batches.hold_initial(self._access):
            raise IrregularError("a read of bytes that are not initialised")

    def _commit_partial(self) -> None:
        """Writes the values that were overwritten or released in part, and undo them there: all in order."""
        operands, made = self._flow.operands, self._flow.by_bytes
        steps = np.append(made.undone, made.partial)
        order = np.lexsort((steps, operands.is_write[steps], operands.record[steps]))
        for step in steps[order].tolist():
            cell = self._flow.cell[step : step + 1]
            if operands.is_write[step]:
                self._access.write(cell, self._partial[step][None])
            else:
                self._access.release(cell)

    def _destinations(self, writes: Array) -> dict[int, list[Destination]]:
        """The destinations of the results of fused chains, by the record of the last GEMM.

        *writes* write these results.
        """
        destinations: dict[int, list[Destination]] = {}
        cells = self._flow.cell[writes].tolist()
        for cell, source in zip(cells, self._chains.sources(writes), strict=True):
            destinations.setdefault(source.record, []).append(Destination(self._matrices[cell], source.casts))
        return destinations

    def _multiply(self, grid: ProductGrid, record_of: dict[int, int], scratch: Scratch) -> None:
        """Computes *grid*. Results of the GEMMs in *record_of* are held for the math that reads them."""
        product = GridProduct(grid, self._store, scratch)
        wanted = {to.casts for each, _, _ in product.parts() for to in each.destinations}
        parts = [(record_of.keys() & set(each.numbers), rows, cols) for each, rows, cols in product.parts()]
        wanted |= {() for held, _, _ in parts if held}
        results = product.results(sorted(wanted))
        for held, rows, cols in parts:
            self._held.update({record_of[number]: results[()][rows, cols] for number in held})
        for casts, result in results.items():
            self._results += product.placed(casts, result)

    def _compute(self, written: Array, values: Array) -> None:
        """Notes the live values of *written*, operands that write *values*: moved values, and computed values."""
        self._move(written[values < 0], ~values[values < 0])
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        is_left = np.zeros(len(self._flow.producer), np.bool_)
        is_left[values[values >= 0]] = True
        with single_threaded():
            for computed, stack in self._batches.evaluate(self._held, self._access):
                if not is_left[computed].any():
                    continue
                first, last = (np.searchsorted(ordered, computed, side) for side in ("left", "right"))
                at, which = spread(first, last - first)
                if len(at):
                    slots = which if len(stack) == len(computed) else np.zeros_like(which)
                    self._leave(written[order[at]], stack[slots])

    def _move(self, targets: Array, sources: Array) -> None:
        """Notes that the operands *targets* write the contents of the cells *sources*."""
        shape_id = self._flow.cells.shape_id
        both = shape_id[self._flow.cell[targets]] * (int(shape_id.max(initial=0)) + 1) + shape_id[sources]
        for shapes in np.unique(both).tolist():
            mine = both == shapes
            self._leave(targets[mine], np.array(self._access.read(sources[mine])))

    def _leave(self, writes: Array, stack: Array) -> None:
        """Notes that the operands *writes* write the values of *stack*."""
        partly = np.isin(writes, self._flow.by_bytes.partial)
        if partly.any():
            self._partial.update(zip(writes[partly].tolist(), stack[partly], strict=True))
            writes, stack = writes[~partly], stack[~partly]
        if len(writes):
            self._stacks.append((self._flow.cell[writes], stack))
