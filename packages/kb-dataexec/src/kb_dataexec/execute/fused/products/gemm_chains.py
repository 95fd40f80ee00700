"""GemmChains: the GEMM records of a window, chained through their accumulators."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.execute.fused.accesses.conflicts import IrregularError
from kb_dataexec.execute.fused.accesses.dataflow import Dataflow
from kb_dataexec.log.rows import DTYPES
from kb_dataexec.ops.gemm import attributes_of
from kb_messages import OpKind, Role

_IS_FLOAT: Final = np.array([dtype.is_float for dtype in DTYPES])
_ACCUMULATOR: Final = np.array([dtype.accumulator.info.code for dtype in DTYPES])


class CastProduct(NamedTuple):
    """The GEMM record that computed a value; `casts` are the types (codes) that moves cast the value to, in order."""

    record: int
    casts: tuple[int, ...]


class GemmChains:
    """The GEMMs of a window, numbered in order. A chain is a GEMM and the GEMMs that add to its result in turn.

    `number`      the number of each record's GEMM; -1 for other records
    `out`         the operand that each GEMM writes
    `a`, `b`      the cells of initial memory that the factors come from; -1 for a factor that was computed or cast
    `transposed`  bit 0: A is stored as k x rows; bit 1: B is stored as cols x k
    `chain`       the first GEMM of each GEMM's chain
    `initial`     for the first GEMM of a chain, the cell that its accumulator starts from, or -1
    `is_fused`    whether the chain becomes one product. Reasons against it: a factor was computed, cast or read in
                  another shape, another record reads a partial sum or the next one reads it in another shape, the
                  chain's factors are stored in different ways, or the result is overwritten in part or stored in
                  another shape

    Raises IrregularError for a GEMM whose operands do not fit together.
    """

    def __init__(self, flow: Dataflow, strings: list[str]) -> None:
        self._flow = flow
        records = flow.records
        gemms = np.flatnonzero(records.kind == OpKind.GEMM)
        self.number = np.full(len(records.kind), -1)
        self.number[gemms] = np.arange(len(gemms))
        accumulates, self.transposed = _flags(records.params[gemms], strings)
        a, self.out = records.first[gemms], records.last[gemms]
        _check(flow, a, self.out, accumulates, self.transposed)
        self.a, self.b = flow.initial_cell(a), flow.initial_cell(a + 1)
        self.initial = np.full(len(gemms), -1)
        adding = np.flatnonzero(accumulates)
        previous, is_read_once = self._link(adding, a[adding] + 2)
        self.chain = _first_of_chain(previous)
        is_fused = (self.a >= 0) & (self.b >= 0) & is_read_once & (self.transposed == self.transposed[self.chain])
        broken = np.zeros(len(gemms), np.bool_)
        broken[self.chain[~is_fused]] = True
        broken[self.chain[self._products_in_other_forms()]] = True
        self.is_fused = ~broken[self.chain]

    def makes(self, writes: Array) -> Array:
        """Whether each operand of *writes* writes the result of a fused chain, after any moves and casts."""
        number = self._product(writes)
        made: Array = (number >= 0) & np.append(self.is_fused, False)[number]
        return made

    def _products_in_other_forms(self) -> Array:
        """The GEMMs whose result is overwritten in part, or stored in another shape."""
        flow, partial = self._flow, self._flow.by_bytes.partial
        writes = np.append(flow.live, partial)
        number = self._product(writes)
        made = number >= 0
        is_part = np.arange(len(writes)) >= len(flow.live)
        other = is_part[made] | (flow.operands.rows[writes[made]] != flow.operands.rows[self.out[number[made]]])
        found: Array = number[made][other]
        return found

    def _product(self, writes: Array) -> Array:
        """The GEMM whose result each operand of *writes* writes, after any moves and casts; -1 for other values."""
        flow = self._flow
        value = flow.value_written(writes)
        while True:
            casts = (value >= 0) & flow.is_cast(np.maximum(value, 0))
            if not casts.any():
                break
            value[casts] = flow.value_read(value[casts] - 1)
        number: Array = np.where(value >= 0, self.number[flow.operands.record[value]], -1)
        return number

    def sources(self, writes: Array) -> list[CastProduct]:
        """The product that each operand of *writes* writes. `makes` must hold for all of them."""
        flow = self._flow
        casts: list[tuple[int, ...]] = [()] * len(writes)
        at = writes
        while (moved := flow.kind(at) == OpKind.MEMORY).any():
            for which in np.flatnonzero(flow.is_cast(at)).tolist():
                casts[which] = int(flow.operands.dtype[at[which]]), *casts[which]
            at = np.where(moved, flow.producer[at - 1], at)
        return [CastProduct(*found) for found in zip(flow.operands.record[at].tolist(), casts, strict=True)]

    def _link(self, adding: Array, accumulator: Array) -> tuple[Array, Array]:
        """Returns (the GEMM that each GEMM adds to, or -1; whether its accumulator has no other use). Fills `initial`.

        *adding* are the GEMMs that add to an accumulator, and *accumulator* the operands that they read it by.
        """
        flow = self._flow
        previous, is_read_once = np.full(len(self.out), -1), np.ones(len(self.out), np.bool_)
        writer = flow.producer[accumulator]
        linked = (writer >= 0) & (writer != accumulator) & (flow.kind(writer) == OpKind.GEMM)
        previous[adding[linked]] = self.number[flow.operands.record[writer[linked]]]
        self.initial[adding[~linked]] = start = flow.initial_cell(accumulator[~linked])
        parts = flow.by_bytes.writer
        readers = np.concatenate((flow.producer[flow.producer >= 0], parts[parts >= 0]))
        uses = np.bincount(readers, minlength=len(flow.producer))
        is_same = flow.operands.rows[writer[linked]] == flow.operands.rows[accumulator[linked]]
        is_read_once[adding[linked]] = is_same & (uses[writer[linked]] == 1)
        is_read_once[adding[~linked]] = start >= 0
        return previous, is_read_once


def _first_of_chain(previous: Array) -> Array:
    """The first GEMM of the chain of each GEMM. *previous* is the GEMM before it, or -1."""
    chain = np.where(previous >= 0, previous, np.arange(len(previous)))
    while (chain[chain] != chain).any():
        chain = chain[chain]
    return chain


def _check(flow: Dataflow, a: Array, out: Array, accumulates: Array, transposed: Array) -> None:
    """Raises IrregularError unless the operands are A, B, [ACC], OUT in this order and fit together."""
    operands = flow.operands
    if (out - a + 1 != 3 + accumulates).any():
        raise IrregularError("a GEMM with too few or many operands")
    before_out = out - accumulates
    for which, role in ((a, Role.A), (a + 1, Role.B), (out, Role.OUT), (before_out[accumulates], Role.ACC)):
        if (operands.role[which] != role).any():
            raise IrregularError("a GEMM whose operands stand in another order")
    rows, k = _shape(flow, a, (transposed & 1) > 0)
    k_of_b, cols = _shape(flow, a + 1, (transposed & 2) > 0)
    dtype = operands.dtype
    fits = (k == k_of_b) & (operands.rows[out] == rows) & (operands.cols[out] == cols)
    fits &= (_IS_FLOAT[dtype[a]] == _IS_FLOAT[dtype[a + 1]]) & (dtype[out] == _ACCUMULATOR[dtype[a]])
    fits &= ~accumulates | (flow.cell[before_out] == flow.cell[out])
    if not fits.all():
        raise IrregularError("a GEMM whose operands do not fit together")


def _shape(flow: Dataflow, operands: Array, turned: Array) -> tuple[Any, Any]:
    """Returns (rows, columns) of each of *operands*, swapped where *turned*."""
    rows, cols = flow.operands.rows[operands], flow.operands.cols[operands]
    return np.where(turned, cols, rows), np.where(turned, rows, cols)


def _flags(params: Array, strings: list[str]) -> tuple[Array, Array]:
    """Returns (whether each GEMM accumulates, transpose_a + 2 transpose_b), from the indices of their params."""
    accumulates = np.zeros(len(strings), np.bool_)
    transposed = np.zeros(len(strings), np.int64)
    for index in np.unique(params).tolist():
        attributes = attributes_of(strings[index])
        if attributes is None:
            raise IrregularError("params that are no GemmAttributes")
        accumulates[index] = attributes.accumulate
        transposed[index] = attributes.transpose_a + 2 * attributes.transpose_b
    return accumulates[params], transposed[params]
