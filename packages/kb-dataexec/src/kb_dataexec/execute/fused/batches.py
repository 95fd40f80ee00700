"""The ops of a window that no fused product covers: math, casts and other products, in batches of equal ops.

A batch runs as one numpy call. A value is identified by the record that computed it, not by its address, so reused
buffers create no false dependencies. Moves that change no type cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array, cast
from kb_dataexec.arrays.ranges import spread
from kb_dataexec.execute.fused.cell_access import CellAccess
from kb_dataexec.execute.fused.conflicts import IrregularError
from kb_dataexec.execute.fused.dataflow import Dataflow
from kb_dataexec.execute.fused.gemm_chains import GemmChains
from kb_dataexec.execute.fused.value_pools import ValuePools
from kb_dataexec.log.rows import DTYPES
from kb_dataexec.log.schedule import Schedule
from kb_dataexec.ops.gemm import attributes_of
from kb_dataexec.ops.math import decode
from kb_dataexec.ops.stacks import gemm_on_stacks, math_on_stacks
from kb_messages import LogError, OpKind, Role

Compute = Callable[[Sequence[Array]], Array]
"""Takes a stack for each operand that is read, (n, rows, cols). Returns the stack of results."""

_SEGMENT_NBYTES: Final = 1 << 22
"""Bytes of results that are computed together. So many are still in the cache when their readers run."""


class Batches:
    """What a window computes apart from fused products. A node is one op, or one cast of a move; node i writes
    `out[i]`.

    *start* is the number of the window's first record. Raises IrregularError where a MATH record is wrong or lists its
    operands in another order than IN, ..., OUT.
    """

    def __init__(self, flow: Dataflow, chains: GemmChains, schedule: Schedule, start: int) -> None:
        self._flow = flow
        self.out, first = _nodes(flow, chains)
        count = self.out - first
        self._first = np.append(0, np.cumsum(count))
        reads, node = spread(first, count)
        self._check_roles(reads, node)
        self._operand = reads
        self._value = flow.value_read(reads)
        self._node_of = np.full(len(flow.producer), -1)
        self._node_of[self.out] = np.arange(len(self.out))
        self._signature, samples = self._signatures(reads, count)
        self._compute = [self._computation(int(sample), schedule, start) for sample in samples]
        self._needed = np.zeros(len(self.out), np.bool_)

    def require(self, values: Array) -> set[int]:
        """Mark the nodes that *values* depend on. Returns the records of the fused products that they depend on."""
        needed, products = self._needed.tolist(), set[int]()
        sources = self._source_nodes()
        value, first = self._value.tolist(), self._first.tolist()
        for node in self._node_of[values[values >= 0]].tolist():
            needed[node] = True
        for node in range(len(needed) - 1, -1, -1):
            if needed[node]:
                for at in range(first[node], first[node + 1]):
                    if sources[at] >= 0:
                        needed[sources[at]] = True
                    elif value[at] >= 0:
                        products.add(int(self._flow.operands.record[value[at]]))
        self._needed = np.array(needed, np.bool_)
        return products

    def evaluate(self, products: dict[int, Array], access: CellAccess) -> Iterator[tuple[Array, Array]]:
        """Compute the marked nodes. Yields each batch as (values, stack of the values).

        *products* has the result of each record that `require` returned. A stack of one element stands for all values
        of its batch.
        """
        pools = ValuePools(self._flow.operands, self._uses(), products, access)
        for batch in self._batches():
            reads = self._first[batch][:, None] + np.arange(int(self._first[batch[0] + 1] - self._first[batch[0]]))
            stacks = [pools.stack(self._value[column], self._shape_of(int(column[0]))) for column in reads.T]
            stack = self._compute[int(self._signature[batch[0]])](stacks)
            pools.add(self.out[batch], stack)
            yield self.out[batch], stack

    def _shape_of(self, read: int) -> tuple[int, int]:
        """Rows and columns that the read number *read* of all nodes has."""
        operand = self._operand[read]
        return int(self._flow.operands.rows[operand]), int(self._flow.operands.cols[operand])

    def _source_nodes(self) -> list[int]:
        """For each read, the node that computes its value, or -1."""
        nodes: list[int] = np.where(self._value >= 0, self._node_of[self._value], -1).tolist()
        return nodes

    def _uses(self) -> Array:
        """How many reads of marked nodes the value of each operand has."""
        node = np.repeat(np.arange(len(self.out)), np.diff(self._first))
        read = self._value[self._needed[node]]
        return np.bincount(read[read >= 0], minlength=len(self._flow.producer))

    def _batches(self) -> Iterator[Array]:
        """The marked nodes by segment, level and signature. A segment is a run of nodes of _SEGMENT_NBYTES."""
        nodes = np.flatnonzero(self._needed)
        segment = (np.cumsum(self._flow.operands.nbytes(self.out[nodes])) - 1) // _SEGMENT_NBYTES
        level = self._levels(nodes, segment)
        order = np.lexsort((self._signature[nodes], level, segment))
        keys = np.stack((segment, level, self._signature[nodes]))[:, order]
        edges = np.flatnonzero((np.diff(keys) != 0).any(axis=0)) + 1
        return (batch for batch in np.split(nodes[order], edges) if len(batch))

    def _levels(self, nodes: Array, segment: Array) -> Array:
        """The longest row of nodes of the same segment that must be computed one after another before each node."""
        level, home = [0] * len(self.out), [-1] * len(self.out)
        first, sources = self._first.tolist(), self._source_nodes()
        for node, mine in zip(nodes.tolist(), segment.tolist(), strict=True):
            home[node] = mine
            depth = 0
            for source in sources[first[node] : first[node + 1]]:
                if source >= 0 and home[source] == mine and level[source] >= depth:
                    depth = level[source] + 1
            level[node] = depth
        return np.array(level, np.int64)[nodes]

    def _check_roles(self, reads: Array, node: Array) -> None:
        role = self._flow.operands.role
        is_math = self._flow.kind(self.out) == OpKind.MATH
        if (role[self.out[is_math]] != Role.OUT).any() or (role[reads[is_math[node]]] != Role.IN).any():
            raise IrregularError("a math op whose operands stand in another order")

    def _signatures(self, reads: Array, count: Array) -> tuple[Array, Array]:
        """(a number for each node, one node of each number). Nodes of equal op, params, shapes and types get one."""
        flow = self._flow
        shape = flow.cells.shape_id[flow.cell]
        n_shapes = int(shape.max(initial=0)) + 2
        signature = flow.records.params[flow.operands.record[self.out]] * 4 + flow.kind(self.out)
        read_shapes = (self._nth(shape[reads] + 1, count, nth) for nth in range(count.max(initial=0)))
        for column in (shape[self.out], *read_shapes):
            _, signature = np.unique(signature * n_shapes + column, return_inverse=True)
        _, samples, signature = np.unique(signature, return_index=True, return_inverse=True)
        return signature, samples

    def _nth(self, of_reads: Array, count: Array, nth: int) -> Array:
        """The entry of *of_reads* for the n-th read of each node; 0 for a node with fewer reads."""
        column = np.zeros(len(count), np.int64)
        has = count > nth
        column[has] = of_reads[self._first[:-1][has] + nth]
        return column

    def _computation(self, node: int, schedule: Schedule, start: int) -> Compute:
        """The function that computes a batch of nodes with the signature of *node*."""
        flow, out = self._flow, int(self.out[node])
        record = int(flow.operands.record[out])
        if flow.records.kind[record] == OpKind.MEMORY:
            target = DTYPES[flow.operands.dtype[out]]
            return lambda stacks: cast(stacks[0], target)
        if flow.records.kind[record] == OpKind.GEMM:
            attributes = attributes_of(schedule.log.strings[flow.records.params[record]])
            assert attributes is not None, "GemmChains has checked the params"
            return partial(gemm_on_stacks, attributes)
        try:
            math = decode(next(schedule.iterate(start + record, start + record + 1)))
        except LogError as error:
            raise IrregularError("a math op that is wrong") from error
        if not math.inputs:
            return lambda _: math.evaluate(())[None]
        return partial(math_on_stacks, math)


def _nodes(flow: Dataflow, chains: GemmChains) -> tuple[Array, Array]:
    """(the operand that each node writes, the first operand that it reads). A node reads all operands in between."""
    dtype = flow.operands.dtype
    changes = np.flatnonzero(dtype[1:] != dtype[:-1]) + 1
    casts = changes[flow.is_cast(changes)]
    math = flow.records.last[flow.records.kind == OpKind.MATH]
    out = np.sort(np.concatenate((casts, chains.out[~chains.is_fused], math)))
    return out, np.where(flow.is_cast(out), out - 1, flow.records.first[flow.operands.record[out]])
