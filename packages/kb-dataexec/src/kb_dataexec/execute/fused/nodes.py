"""Nodes: the computations of a window apart from fused products, as the nodes of a graph of values."""

from __future__ import annotations

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.ranges import numbered, numbered_rows, spread
from kb_dataexec.execute.fused.accesses.conflicts import IrregularError
from kb_dataexec.execute.fused.accesses.dataflow import Dataflow
from kb_dataexec.execute.fused.assembly import Assembly, Source, ValueLayout
from kb_dataexec.execute.fused.products.gemm_chains import GemmChains
from kb_messages import OpKind, Role


class Nodes:
    """A node is one op, one cast of a move, or one assembly: a read of several values, or of a part of one.

    `out`          the operand that each node writes; for an assembly, the operand that reads
    `value`        the values that the nodes read: node i reads `value[first[i]:first[i + 1]]`, numbered as in
                   `dataflow`. ~(c + number of cells) is the content of cell c in initial memory, perhaps a part of it
    `is_assembly`  whether a node is an assembly
    `signature`    a number for each node, equal for nodes of equal op, params, shapes and types
    `samples`      one node of each signature

    Raises IrregularError where a MATH record lists its operands in another order than IN, ..., OUT.
    """

    def __init__(self, flow: Dataflow, chains: GemmChains) -> None:
        self._flow = flow
        out, read = _ops(flow, chains)
        made = flow.by_bytes
        self.out, count = np.append(out, made.reads), np.append(out - read, np.diff(made.first))
        order = np.argsort(self.out, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        ops, assemblies = place[: len(out)], place[len(out) :]
        self.out, count = self.out[order], count[order]
        self.is_assembly = np.zeros(len(order), np.bool_)
        self.is_assembly[assemblies] = True
        self.first = np.append(0, np.cumsum(count))
        self.value = np.empty(int(self.first[-1]), np.int64)
        reads, node = spread(read, count[ops])
        self._check_roles(out, reads, node)
        self._operand = np.empty_like(self.value)
        at = spread(self.first[ops], count[ops])[0]
        self.value[at], self._operand[at] = flow.value_read(reads), reads
        at = spread(self.first[assemblies], count[assemblies])[0]
        self.value[at], self._operand[at] = self._assembled()
        self.signature, self.samples = self._signatures(ops, reads, assemblies)

    def __len__(self) -> int:
        return len(self.out)

    def shape_of(self, read: int) -> tuple[int, int]:
        """The rows and columns as which a node reads `value[read]`."""
        operand = self._operand[read]
        return int(self._flow.operands.rows[operand]), int(self._flow.operands.cols[operand])

    def assembly(self, node: int) -> Assembly:
        """The Assembly that makes the values of *node*, and of all nodes of its signature."""
        cells, mine = self._flow.cells, int(self._flow.cell[self.out[node]])
        at = int(np.searchsorted(self._flow.by_bytes.reads, self.out[node]))
        sources = []
        for writer in self._writers(at).tolist():
            cell = mine if writer < 0 else int(self._flow.cell[writer])
            sources.append(Source(_layout(cells.columns, cell), int(cells.columns[1][cell] - cells.columns[1][mine])))
        return Assembly(_layout(cells.columns, mine), sources)

    def partly_initial(self) -> list[tuple[int, int]]:
        """Returns (the node, the cell that it reads) of each assembly that has bytes of initial memory. A cell comes
        once for each signature."""
        nodes = np.flatnonzero(self.is_assembly)
        nodes = nodes[self.value[self.first[nodes]] < -len(self._flow.cells)]
        cell = self._flow.cell[self.out[nodes]]
        _, once = np.unique(numbered_rows(self.signature[nodes], cell), return_index=True)
        return list(zip(nodes[once].tolist(), cell[once].tolist(), strict=True))

    def _writers(self, read: int) -> Array:
        found = self._flow.by_bytes
        writers: Array = found.writer[found.first[read] : found.first[read + 1]]
        return writers

    def _assembled(self) -> tuple[Array, Array]:
        """Returns (the values that the assemblies read, operands of their shapes). Initial memory is the first, if it
        is."""
        made = self._flow.by_bytes
        reader = np.repeat(made.reads, np.diff(made.first))
        values = np.empty(len(reader), np.int64)
        initial = made.writer < 0
        values[initial] = ~(self._flow.cell[reader[initial]] + len(self._flow.cells))
        values[~initial] = self._flow.value_written(made.writer[~initial])
        return values, np.where(initial, reader, made.writer)

    def _check_roles(self, out: Array, reads: Array, node: Array) -> None:
        role = self._flow.operands.role
        is_math = self._flow.kind(out) == OpKind.MATH
        if (role[out[is_math]] != Role.OUT).any() or (role[reads[is_math[node]]] != Role.IN).any():
            raise IrregularError("a math op whose operands stand in another order")

    def _signatures(self, ops: Array, reads: Array, assemblies: Array) -> tuple[Array, Array]:
        of_ops = self._op_signatures(ops, reads)
        of_assemblies = self._assembly_signatures(assemblies)
        signature = np.empty(len(self.out), np.int64)
        signature[ops] = of_ops
        signature[assemblies] = of_assemblies + int(of_ops.max(initial=-1)) + 1
        _, samples, signature = np.unique(signature, return_index=True, return_inverse=True)
        return signature, samples

    def _op_signatures(self, ops: Array, reads: Array) -> Array:
        flow, out = self._flow, self.out[ops]
        shape = flow.cells.shape_id[flow.cell]
        count = np.diff(self.first)[ops]
        first = np.cumsum(count) - count
        columns = [flow.records.params[flow.operands.record[out]] * 4 + flow.kind(out), shape[out]]
        for nth in range(count.max(initial=0)):
            column, has = np.zeros(len(count), np.int64), count > nth
            column[has] = shape[reads][first[has] + nth] + 1
            columns.append(column)
        return numbered_rows(*columns)

    def _assembly_signatures(self, assemblies: Array) -> Array:
        """The signatures of assemblies: equal if target and sources have equal shapes and lie at equal distances."""
        made, cells = self._flow.by_bytes, self._flow.cells
        if not len(assemblies):
            return assemblies
        size = np.diff(made.first)
        mine = self._flow.cell[np.repeat(made.reads, size)]
        source = np.where(made.writer >= 0, self._flow.cell[made.writer], mine)
        shapes, stride = cells.shape_id, cells.columns[4]
        distance = cells.columns[1][source] - cells.columns[1][mine]
        is_initial = made.writer < 0
        each = numbered_rows(shapes[mine], stride[mine], shapes[source], stride[source], distance, is_initial)
        signature, used = np.empty(len(size), np.int64), 0
        for length in np.unique(size).tolist():
            alike = np.flatnonzero(size == length)
            rows = each[made.first[alike][:, None] + np.arange(length)]
            _, number = np.unique(np.ascontiguousarray(rows).view(f"V{8 * length}")[:, 0], return_inverse=True)
            signature[alike] = number + used
            used += int(number.max()) + 1
        return numbered(signature)[1]


def _layout(columns: list[Array], cell: int) -> ValueLayout:
    return ValueLayout(*(int(columns[at][cell]) for at in (2, 3, 4, 5)))


def _ops(flow: Dataflow, chains: GemmChains) -> tuple[Array, Array]:
    """Returns (the operand that each op or cast writes, the first operand that it reads). It reads all operands in
    between."""
    dtype = flow.operands.dtype
    changes = np.flatnonzero(dtype[1:] != dtype[:-1]) + 1
    casts = changes[flow.is_cast(changes)]
    math = flow.records.last[flow.records.kind == OpKind.MATH]
    out = np.sort(np.concatenate((casts, chains.out[~chains.is_fused], math)))
    return out, np.where(flow.is_cast(out), out - 1, flow.records.first[flow.operands.record[out]])
