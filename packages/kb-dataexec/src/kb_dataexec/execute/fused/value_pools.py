"""ValuePools: keeps the values of a window while they are needed: in stacks of results, in products, or in memory."""

from __future__ import annotations

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.execute.fused.accesses.cell_access import CellAccess
from kb_dataexec.execute.fused.accesses.operands import Operands

_HELD, _INITIAL, _PRODUCT = -3, -2, -1


class ValuePools:
    """The values that batches computed. A pool is one batch's stack of results; its last use frees it.

    *uses* counts the reads of each operand's value, and *products* has results of fused chains by record. Values are
    numbered as in `dataflow`; ~(c + number of cells) is the content of cell c in the store, perhaps a part of it.
    """

    def __init__(self, operands: Operands, uses: Array, products: dict[int, Array], access: CellAccess) -> None:
        self._record = operands.record
        self._products = products
        self._access = access
        self._uses = uses
        self._stacks: dict[int, Array] = {}
        self._left: list[int] = []
        n_values, n_cells = len(operands.record), access.n_cells
        self._pool = np.full(n_values + 2 * n_cells, _PRODUCT)  # values below 0 stand at the end, as numpy indexes
        self._pool[n_values : n_values + n_cells] = _HELD
        self._pool[n_values + n_cells :] = _INITIAL
        self._slot = np.zeros(len(operands.record), np.int64)

    def add(self, values: Array, stack: Array) -> None:
        """Keeps *stack*: element i is value *values*[i]. A stack of one element stands for all of *values*."""
        pool = len(self._left)
        self._pool[values] = pool
        self._slot[values] = np.arange(len(values)) if len(stack) == len(values) else 0
        self._left.append(int(self._uses[values].sum()))
        if self._left[pool]:
            self._stacks[pool] = stack

    def stack(self, values: Array, shape: tuple[int, int]) -> Array:
        """*values*, all of one size and type, as one stack in this order. Each is read as one of *shape*."""
        pool = self._pool[values]
        if (pool == pool[0]).all():
            return self._taken(int(pool[0]), values, shape)
        found = [(mine, self._taken(int(pool[mine[0]]), values[mine], shape)) for mine in _places_by_label(pool)]
        out = np.empty((len(values), *shape), found[0][1].dtype)
        for mine, part in found:
            out[mine] = part
        return out

    def _taken(self, pool: int, values: Array, shape: tuple[int, int]) -> Array:
        """*values* from *pool*, where all of them are, as *shape*. Counts the use."""
        found = self._found(pool, values)
        return found if found.shape[1:] == shape else found.reshape(-1, *shape)

    def _found(self, pool: int, values: Array) -> Array:
        if pool == _INITIAL:
            return self._access.read_all(~values)
        if pool == _HELD:
            return self._access.held(~values - self._access.n_cells)
        if pool == _PRODUCT:
            return np.stack([self._products[record] for record in self._record[values].tolist()])
        slots, stack = self._slot[values], self._stacks[pool]
        self._left[pool] -= len(values)
        if not self._left[pool]:
            del self._stacks[pool]
        if len(slots) == len(stack) and (slots == np.arange(len(slots))).all():
            return stack
        return stack[slots]


def _places_by_label(labels: Array) -> list[Array]:
    """The places of each label."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
