"""A window's math, its casts, and the products that are not fused: equal ops that are ready run as one numpy call.

A value is what a record computed, wherever it lies: buffers that are used again and again, which would make one row
wait for the other, do not count, and values that only move are not touched. Values are numbered by the operand that
wrote them; ~c is what cell c of the memory held before the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array, cast
from kb_dataexec.arrays.ranges import spread
from kb_dataexec.execute.fused.cell_access import CellAccess
from kb_dataexec.execute.fused.cells import IrregularError
from kb_dataexec.execute.fused.dataflow import Dataflow
from kb_dataexec.log.rows import DTYPES
from kb_dataexec.log.schedule import Schedule
from kb_dataexec.ops.gemm import attributes_of
from kb_dataexec.ops.math import decode
from kb_dataexec.ops.stacks import gemm_on_stacks, math_on_stacks
from kb_messages import LogError, OpKind, Role

Compute = Callable[[Sequence[Array]], Array]
_SEGMENT_NBYTES: Final = 1 << 22
"""Of results that are computed side by side, so that they are still in the cache when they are used."""


class Batches:
    """The nodes of a window that begins with record *start*: what it computes, apart from fused products.

    Raises IrregularError where a MATH record is wrong or lists its operands in another order than IN, ..., OUT.
    """

    def __init__(self, flow: Dataflow, schedule: Schedule, start: int) -> None:
        self._flow = flow
        self.out, first = _nodes(flow)
        count = self.out - first
        self._first = np.append(0, np.cumsum(count))
        reads, node = spread(first, count)
        self._value = flow.value_read(reads)
        self._node_of = np.full(len(flow.op), -1)
        self._node_of[self.out] = np.arange(len(self.out))
        self._check_roles(reads, node)
        self._kind, samples = self._alike(reads, count)
        self._compute = [self._computation(int(sample), schedule, start) for sample in samples]
        self._needed = np.zeros(len(self.out), np.bool_)

    def require(self, values: Array) -> set[int]:
        """Note what *values* depend on; the records of the fused products among that."""
        needed, wanted = self._needed.tolist(), set[int]()
        sources = np.where(self._value >= 0, self._node_of[self._value], -1).tolist()
        found, first = self._value.tolist(), self._first.tolist()
        for node in self._node_of[values[values >= 0]].tolist():
            needed[node] = True
        for node in range(len(needed) - 1, -1, -1):
            if needed[node]:
                for at in range(first[node], first[node + 1]):
                    if sources[at] >= 0:
                        needed[sources[at]] = True
                    elif found[at] >= 0:
                        wanted.add(int(self._flow.op[found[at]]))
        self._needed = np.array(needed, np.bool_)
        return wanted

    def evaluate(self, products: dict[int, Array], access: CellAccess) -> Iterator[tuple[Array, Array]]:
        """Every batch of required nodes, as (values, stack of them). *products* are those of `require`, by record."""
        pools = _Pools(self._flow, self._uses(), products, access)
        for batch in self._batches():
            reads = self._first[batch][:, None] + np.arange(int(self._first[batch[0] + 1] - self._first[batch[0]]))
            stacks = [pools.stack(self._value[column]) for column in reads.T]
            stack = self._compute[int(self._kind[batch[0]])](stacks)
            pools.add(self.out[batch], stack)
            yield self.out[batch], stack

    def _uses(self) -> Array:
        """How many reads of required nodes each operand's value has."""
        node = np.repeat(np.arange(len(self.out)), np.diff(self._first))
        read = self._value[self._needed[node]]
        return np.bincount(read[read >= 0], minlength=len(self._flow.op))

    def _batches(self) -> Iterator[Array]:
        """The required nodes, in segments, by level and then by kind."""
        nodes = np.flatnonzero(self._needed)
        segment = (np.cumsum(self._flow.nbytes_each(self.out[nodes])) - 1) // _SEGMENT_NBYTES
        level = self._levels(nodes, segment)
        order = np.lexsort((self._kind[nodes], level, segment))
        keys = np.stack((segment, level, self._kind[nodes]))[:, order]
        edges = np.flatnonzero((np.diff(keys) != 0).any(axis=0)) + 1
        return (batch for batch in np.split(nodes[order], edges) if len(batch))

    def _levels(self, nodes: Array, segment: Array) -> Array:
        """How many nodes of its segment, at most, have to be computed one after the other before each node."""
        level, home = [0] * len(self.out), [-1] * len(self.out)
        first = self._first.tolist()
        sources = np.where(self._value >= 0, self._node_of[self._value], -1).tolist()
        for node, mine in zip(nodes.tolist(), segment.tolist(), strict=True):
            home[node] = mine
            depth = 0
            for source in sources[first[node] : first[node + 1]]:
                if source >= 0 and home[source] == mine and level[source] >= depth:
                    depth = level[source] + 1
            level[node] = depth
        return np.array(level, np.int64)[nodes]

    def _check_roles(self, reads: Array, node: Array) -> None:
        flow = self._flow
        is_math = flow.kind[flow.op[self.out]] == OpKind.MATH
        if (flow.role[self.out[is_math]] != Role.OUT).any() or (flow.role[reads[is_math[node]]] != Role.IN).any():
            raise IrregularError("a math op whose operands stand in another order")

    def _alike(self, reads: Array, count: Array) -> tuple[Array, Array]:
        """(a number for each node, equal for those of equal op, params, shapes and types; a node of each number)."""
        flow = self._flow
        shape = flow.cells.shape[flow.cell]
        n_shapes = int(shape.max(initial=0)) + 2
        kind = flow.params[flow.op[self.out]] * 4 + flow.kind[flow.op[self.out]]
        for column in (
            shape[self.out],
            *(self._nth(shape[reads] + 1, count, nth) for nth in range(count.max(initial=0))),
        ):
            _, kind = np.unique(kind * n_shapes + column, return_inverse=True)
        _, samples, kind = np.unique(kind, return_index=True, return_inverse=True)
        return kind, samples

    def _nth(self, of_reads: Array, count: Array, nth: int) -> Array:
        """For each node what *of_reads* says of its n-th read, 0 where it has fewer."""
        column = np.zeros(len(count), np.int64)
        has = count > nth
        column[has] = of_reads[self._first[:-1][has] + nth]
        return column

    def _computation(self, node: int, schedule: Schedule, start: int) -> Compute:
        flow, out = self._flow, int(self.out[node])
        record = int(flow.op[out])
        if flow.kind[record] == OpKind.MEMORY:
            target = DTYPES[flow.dtype[out]]
            return lambda stacks: cast(stacks[0], target)
        if flow.kind[record] == OpKind.GEMM:
            attributes = attributes_of(schedule.log.strings[flow.params[record]])
            assert attributes is not None
            return partial(gemm_on_stacks, attributes)
        try:
            math = decode(next(schedule.iterate(start + record, start + record + 1)))
        except LogError as error:
            raise IrregularError("a math op that is wrong") from error
        if not math.inputs:
            return lambda _: math.evaluate(())[None]
        return partial(math_on_stacks, math)


class _Pools:
    """Where the values are that were computed: which stack, and where in it. A stack goes with its last use."""

    def __init__(self, flow: Dataflow, uses: Array, products: dict[int, Array], access: CellAccess) -> None:
        self._flow = flow
        self._products = products
        self._access = access
        self._uses = uses
        self._stacks: dict[int, Array] = {}
        self._left: list[int] = []
        self._pool = np.full(len(flow.op), -1)
        self._slot = np.zeros(len(flow.op), np.int64)

    def add(self, values: Array, stack: Array) -> None:
        """Keep *stack*, the n-th of which is the n-th of *values*; a stack of one may stand for many."""
        pool = len(self._left)
        self._pool[values] = pool
        self._slot[values] = np.arange(len(values)) if len(stack) == len(values) else 0
        self._left.append(int(self._uses[values].sum()))
        if self._left[pool]:
            self._stacks[pool] = stack

    def stack(self, values: Array) -> Array:
        """The values, all of one shape and type, one after the other."""
        pool = np.where(values >= 0, self._pool[values], -2)
        if (pool == pool[0]).all():
            return self._part(int(pool[0]), values)
        found = [(mine, self._part(int(pool[mine[0]]), values[mine])) for mine in _groups(pool)]
        out = np.empty((len(values), *found[0][1].shape[1:]), found[0][1].dtype)
        for mine, part in found:
            out[mine] = part
        return out

    def _part(self, pool: int, values: Array) -> Array:
        if pool == -2:
            return self._access.read(~values)
        if pool == -1:
            return np.stack([self._products[record] for record in self._flow.op[values].tolist()])
        slots, stack = self._slot[values], self._stacks[pool]
        self._left[pool] -= len(values)
        if not self._left[pool]:
            del self._stacks[pool]
        if len(slots) == len(stack) and (slots == np.arange(len(slots))).all():
            return stack
        return stack[slots]


def _groups(labels: Array) -> list[Array]:
    """The places of each label."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)


def _nodes(flow: Dataflow) -> tuple[Array, Array]:
    """(the operand that each node writes, the first that it reads; the others follow, up to the one it writes)."""
    changes = np.flatnonzero(flow.dtype[1:] != flow.dtype[:-1]) + 1
    casts = changes[flow.is_cast(changes)]
    out = np.sort(np.concatenate((casts, flow.gemms.out[flow.gemms.is_loose], flow.last[flow.kind == OpKind.MATH])))
    return out, np.where(flow.is_cast(out), out - 1, flow.first[flow.op[out]])
