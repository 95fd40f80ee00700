"""Batches: computes the nodes of a window in batches of equal nodes: math, casts, unfused products, assemblies.

A batch runs as one numpy call. A value is identified by the record that computed it, not by its address, so reused
buffers create no false dependencies. Moves that change no type cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array, cast
from kb_dataexec.execute.fused.accesses.cell_access import CellAccess
from kb_dataexec.execute.fused.accesses.conflicts import IrregularError
from kb_dataexec.execute.fused.accesses.dataflow import Dataflow
from kb_dataexec.execute.fused.nodes import Nodes
from kb_dataexec.execute.fused.products.gemm_chains import GemmChains
from kb_dataexec.execute.fused.value_pools import ValuePools
from kb_dataexec.log.rows import DTYPES
from kb_dataexec.log.schedule import Schedule
from kb_dataexec.ops.gemm import attributes_of
from kb_dataexec.ops.math import decode
from kb_dataexec.ops.stacks import gemm_on_stacks, math_on_stacks
from kb_messages import LogError, OpKind

Compute = Callable[[Sequence[Array]], Array]
"""A function of a stack (n, rows, cols) for each value that is read. It returns the stack of results."""

_SEGMENT_NBYTES: Final = 1 << 22
"""Bytes of results that are computed together. They are still in the cache when their readers run."""
_LARGEST_SEGMENT_NBYTES: Final = 1 << 26
"""Bytes of results that are computed together if few nodes have equal signatures. Source: assumed."""
_NODES_OF_A_KIND: Final = 32
"""Nodes of each signature that a segment should have on average. Source: assumed; a batch costs as much as the work on
some ten small values."""


class Batches:
    """The nodes of a window, which begins at record *start* of *schedule*. Raises IrregularError where a MATH record is
    wrong."""

    def __init__(self, flow: Dataflow, chains: GemmChains, schedule: Schedule, start: int) -> None:
        self._flow = flow
        self._nodes = nodes = Nodes(flow, chains)
        self._node_of = np.full(len(flow.producer), -1)
        self._node_of[nodes.out] = np.arange(len(nodes))
        self._compute = [self._computation(int(sample), schedule, start) for sample in nodes.samples]
        self._needed = np.zeros(len(nodes), np.bool_)

    def hold_initial(self, access: CellAccess) -> bool:
        """Keeps the bytes of initial memory that assemblies need. Returns whether all of them are initialised."""
        nodes, found = self._nodes, True
        for node, cell in nodes.partly_initial():
            writers = range(1, int(nodes.first[node + 1] - nodes.first[node]))
            found &= access.hold(cell, ~nodes.assembly(node).filled(writers))
        return found

    def require(self, values: Array) -> set[int]:
        """Marks the nodes that *values* depend on. Returns the records of the fused products that they depend on."""
        needed, products = self._needed.tolist(), set[int]()
        sources = self._source_nodes()
        value, first = self._nodes.value.tolist(), self._nodes.first.tolist()
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
        """Computes the marked nodes. Yields each batch as (values, stack of the values).

        *products* has the result of each record that `require` returned. A stack of one element stands for all values
        of its batch.
        """
        nodes = self._nodes
        pools = ValuePools(self._flow.operands, self._uses(), products, access)
        for batch in self._batches():
            reads = nodes.first[batch][:, None] + np.arange(int(nodes.first[batch[0] + 1] - nodes.first[batch[0]]))
            stacks = [pools.stack(nodes.value[column], nodes.shape_of(int(column[0]))) for column in reads.T]
            stack = self._compute[int(nodes.signature[batch[0]])](stacks)
            pools.add(nodes.out[batch], stack)
            yield nodes.out[batch], stack

    def _source_nodes(self) -> list[int]:
        """For each value that is read, the node that computes it, or -1."""
        value = self._nodes.value
        nodes: list[int] = np.where(value >= 0, self._node_of[np.maximum(value, 0)], -1).tolist()
        return nodes

    def _uses(self) -> Array:
        """How many reads of marked nodes the value of each operand has."""
        node = np.repeat(np.arange(len(self._nodes)), np.diff(self._nodes.first))
        read = self._nodes.value[self._needed[node]]
        return np.bincount(read[read >= 0], minlength=len(self._flow.producer))

    def _batches(self) -> Iterator[Array]:
        """The marked nodes by segment, level and signature. A segment is a run of nodes."""
        nodes = np.flatnonzero(self._needed)
        signature = self._nodes.signature[nodes]
        ends = np.cumsum(self._flow.operands.nbytes(self._nodes.out[nodes]))
        segment = (ends - 1) // self._segment_nbytes(ends)
        level = self._levels(nodes, segment)
        order = np.lexsort((signature, level, segment))
        keys = np.stack((segment, level, signature))[:, order]
        edges = np.flatnonzero((np.diff(keys) != 0).any(axis=0)) + 1
        return (batch for batch in np.split(nodes[order], edges) if len(batch))

    def _segment_nbytes(self, ends: Array) -> int:
        """Bytes of the results of a segment. ends[i] is the end of the result of marked node i, one after the other."""
        if not len(ends):
            return _SEGMENT_NBYTES
        nodes = _NODES_OF_A_KIND * len(self._nodes.samples)
        return max(_SEGMENT_NBYTES, min(_LARGEST_SEGMENT_NBYTES, int(ends[-1]) * nodes // len(ends)))

    def _levels(self, nodes: Array, segment: Array) -> Array:
        """The longest row of nodes of the same segment that must be computed one after another before each node."""
        level, home = [0] * len(self._nodes), [-1] * len(self._nodes)
        first, sources = self._nodes.first.tolist(), self._source_nodes()
        for node, mine in zip(nodes.tolist(), segment.tolist(), strict=True):
            home[node] = mine
            depth = 0
            for source in sources[first[node] : first[node + 1]]:
                if source >= 0 and home[source] == mine and level[source] >= depth:
                    depth = level[source] + 1
            level[node] = depth
        return np.array(level, np.int64)[nodes]

    def _computation(self, node: int, schedule: Schedule, start: int) -> Compute:
        """The function that computes a batch of nodes with the signature of *node*."""
        flow, out = self._flow, int(self._nodes.out[node])
        if self._nodes.is_assembly[node]:
            return self._nodes.assembly(node)
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
