"""Where every value that a run of records reads comes from, found for all of them at once.

The records are resolved symbolically: each read is matched with the write that produced exactly these bytes, or with
the memory's contents before the first record. Anything else (a read that several writes contributed to, bytes that
were released, a partial overwrite of a live value) raises IrregularError, and the records run one by one instead.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.parallel import in_chunks, in_parallel, parts
from kb_dataexec.arrays.ranges import distinct
from kb_dataexec.execute.fused.cells import Cells, IrregularError
from kb_dataexec.log.columns import part
from kb_dataexec.log.rows import DTYPES
from kb_dataexec.log.schedule import Schedule
from kb_dataexec.ops.gemm import attributes_of
from kb_messages import OpKind, Role

_WORTH_THREADS: Final = 1 << 14
"""Operands. Source: assumed; resolving 397 thousand took 24 ms, so these take about 1 ms."""
_ITEMSIZE_BITS: Final = np.array([dtype.nbytes.bit_length() - 1 for dtype in DTYPES])
_IS_FLOAT: Final = np.array([dtype.is_float for dtype in DTYPES])
_ACCUMULATOR: Final = np.array([dtype.accumulator.info.code for dtype in DTYPES])


class Source(NamedTuple):
    """The record that computed a value; `casts` are the element types (codes) that moves cast it to on its way."""

    record: int
    casts: tuple[int, ...]


class Dataflow:
    """The records [start, stop) of a schedule. Operands are numbered from the first one of record *start*.

    `cells`      the distinct rectangles; `cell[i]` is operand i's
    `producer`   for each operand that is read, the operand that wrote the value, or -1: it was there before
    `live`       operands whose written values are still valid after the last record
    `released`   cells of which a value was released
    `gemms`      the matrix products, see `Gemms`
    """

    def __init__(self, schedule: Schedule, start: int, stop: int) -> None:
        first = schedule.first[start : stop + 1]
        columns = part(schedule.operands, first[0], first[-1])
        self._ops = schedule.ops[start:stop]
        self._count = np.diff(first)
        self.first = first[:-1] - first[0]
        self.last = first[1:] - first[0] - 1
        self.op = np.repeat(np.arange(stop - start), self._count)
        self.role = columns["role"]
        self.dtype = columns["dtype"]
        self.rows = columns["rows"]
        self.row_nbytes = columns["row_nbytes"]
        self.cols = self._count_cols()
        self.is_write = (self.role == Role.DST) | (self.role == Role.OUT)
        self.kind = self._ops["kind"].astype(np.int64)
        self.params = self._ops["params"].astype(np.int64)
        if (columns["stride"] < 0).any() or (self._count == 0).any():
            raise IrregularError("a record without operands, or rows that go backwards")
        self._check_moves()
        releases = (columns["release"] != 0) & ~self.is_write
        self.cells = Cells(columns, self.is_write | releases)
        self.cell = self.cells.index
        self.released = distinct(self.cell[releases], len(self.cells))
        self.producer = np.full(len(self.op), -1)
        self.live = self._resolve(releases)
        self.gemms = Gemms(self, self.first, self._count, self.params, schedule.log.strings)

    def origin(self, reads: Array, through_casts: bool = False) -> Array:
        """The reads at the far end of the copies that brought the values of *reads*: of plain ones, or of all."""
        while True:
            writer = self.producer[reads]
            copied = (writer >= 0) & (self.kind[self.op[writer]] == OpKind.MEMORY)
            if not through_casts:
                copied &= self.dtype[writer] == self.dtype[writer - 1]
            if not copied.any():
                return reads
            reads = np.where(copied, writer - 1, reads)

    def is_cast(self, operands: Array) -> Array:
        """Whether each operand is written by a move that changes its type."""
        moved: Array = (self.kind[self.op[operands]] == OpKind.MEMORY) & self.is_write[operands]
        moved &= self.dtype[operands] != self.dtype[operands - 1]
        return moved

    def value_read(self, reads: Array) -> Array:
        """Which operand wrote what *reads* get, plain copies left out; ~cell for what was in memory before."""
        origin = self.origin(reads)
        writer = self.producer[origin]
        return np.where(writer >= 0, writer, ~self.cell[origin])

    def value_written(self, writes: Array) -> Array:
        """Which operand first wrote what *writes* write, plain copies left out; ~cell as above."""
        copies = (self.kind[self.op[writes]] == OpKind.MEMORY) & ~self.is_cast(writes)
        value = writes.copy()
        value[copies] = self.value_read(writes[copies] - 1)
        return value

    def is_product(self, writes: Array) -> Array:
        """Whether what *writes* write is the result of a GEMM that can be fused, copied or cast on its way or not."""
        value = self.value_written(writes)
        while True:
            casts = (value >= 0) & self.is_cast(np.maximum(value, 0))
            if not casts.any():
                break
            value[casts] = self.value_read(value[casts] - 1)
        number = np.where(value >= 0, self.gemms.number[self.op[value]], -1)
        found: Array = (number >= 0) & ~np.append(self.gemms.is_loose, True)[number]
        return found

    def sources(self, writes: Array) -> list[Source]:
        """Where the values are from that *writes*, operands for which `is_product` holds, write."""
        casts: list[tuple[int, ...]] = [()] * len(writes)
        at = writes
        while (moved := self.kind[self.op[at]] == OpKind.MEMORY).any():
            for which in np.flatnonzero(self.is_cast(at)).tolist():
                casts[which] = int(self.dtype[at[which]]), *casts[which]
            at = np.where(moved, self.producer[at - 1], at)
        return [Source(*found) for found in zip(self.op[at].tolist(), casts, strict=True)]

    def nbytes_each(self, operands: Array | list[int]) -> Array:
        """Bytes of each of these operands' values."""
        nbytes: Array = self.rows[operands] * self.row_nbytes[operands]
        return nbytes

    def _count_cols(self) -> Array:
        cols = np.empty(len(self.dtype), np.int64)

        def fill(chunk: slice) -> None:
            cols[chunk] = self.row_nbytes[chunk] >> _ITEMSIZE_BITS[self.dtype[chunk]]

        in_chunks(fill, len(cols))
        return cols

    def _check_moves(self) -> None:
        memory = self.kind == OpKind.MEMORY
        if (self._count[memory] == 0).any() or (self._count[memory] % 2).any():
            raise IrregularError("a move without pairs")
        mine = np.flatnonzero(memory[self.op])
        if (self.role[mine[::2]] != Role.SRC).any() or (self.role[mine[1::2]] != Role.DST).any():
            raise IrregularError("a move whose operands are no SRC, DST pairs")
        for extent in (self.rows, self.cols):
            if (extent[mine[::2]] != extent[mine[1::2]]).any():
                raise IrregularError("a move that changes shape")

    def _resolve(self, releases: Array) -> Array:
        """Fill `producer`; the operands whose values are live at the end."""
        group = self.cells.group
        touched = np.zeros(len(group), np.bool_)
        touched[group[self.cells.changed]] = True
        events = np.flatnonzero(touched[group][self.cell])
        if not len(events):
            return events
        events, label = _by_label(events, group[self.cell[events]], int(group.max()))
        live: dict[int, Array] = {}

        def resolve(some: slice) -> None:
            live[some.start] = self._resolve_groups(events[some], label[some], releases)

        in_parallel(resolve, _whole_groups(label))
        return np.concatenate([live[start] for start in sorted(live)])

    def _resolve_groups(self, events: Array, label: Array, releases: Array) -> Array:
        """As `_resolve`, of *events* that are whole groups, a label each; sorted by group and then by record."""
        events, opens = self._by_phase(events, label, releases)
        writes, cell = self.is_write[events], self.cell[events]
        at = np.arange(len(events))
        begin = np.maximum.accumulate(np.where(opens, at, 0))
        last_write = np.maximum.accumulate(np.where(writes, at, -1))
        last_release = np.maximum.accumulate(np.where(releases[events], at, -1))
        write_before, release_before = _shifted(last_write), _shifted(last_release)
        valid = (write_before >= begin) & (release_before < write_before)
        same = cell[write_before] == cell
        untouched = (write_before < begin) & (release_before < begin)
        if (~writes & ~(valid & same) & ~untouched).any():
            raise IrregularError("a read of bytes from several writes, or of released ones")
        buried = writes & valid & ~same
        if not self.cells.cover(cell[buried], cell[write_before[buried]]).all():
            raise IrregularError("a live value that is overwritten in part")
        produced = ~writes & valid
        self.producer[events[produced]] = events[write_before[produced]]
        ends = np.append(opens[1:], True)
        left = ends & (last_write >= begin) & (last_release < last_write)
        return events[last_write[left]]

    def _by_phase(self, events: Array, label: Array, releases: Array) -> tuple[Array, Array]:
        """*events* by group, record and phase (read, release, write); where a group's events begin."""
        op = self.op[events]
        phase = np.where(self.is_write[events], np.int8(2), releases[events])
        beside = (label[1:] == label[:-1]) & (op[1:] == op[:-1])
        if (beside & (phase[1:] < phase[:-1])).any():
            order = np.lexsort((phase, op, label))
            events, phase = events[order], phase[order]
        if (beside & (phase[1:] == 2) & (phase[:-1] == 2)).any():
            raise IrregularError("an op that writes overlapping bytes twice")
        return events, np.append(True, label[1:] != label[:-1])


class Gemms:
    """The GEMM records, numbered in order, and how they chain up through their accumulators.

    `a`, `b`       cells (of memory before the first record) that the factors come from
    `transposed`   bit 0: A is stored as k x rows; bit 1: B as cols x k
    `chain`        the first GEMM of the accumulation that each one belongs to
    `is_last`      whether nothing is added to its result
    `initial`      for a chain's first GEMM, the cell its accumulator starts from, or -1
    `is_loose`     whether it belongs to a chain that cannot be fused: a factor was computed or cast, a partial sum is
                   read by others too, or factors are stored differently
    """

    def __init__(self, flow: Dataflow, first: Array, count: Array, params: Array, strings: list[str]) -> None:
        ops = np.flatnonzero(flow.kind == OpKind.GEMM)
        self.number = np.full(len(flow.kind), -1)
        self.number[ops] = np.arange(len(ops))
        accumulate, self.transposed = _flags(params[ops], strings)
        a = first[ops]
        self.out = a + count[ops] - 1
        self._check(flow, a, accumulate, count[ops])
        self.is_float = _IS_FLOAT[flow.dtype[a]]
        self.a, self.b = _leaves(flow, a), _leaves(flow, a + 1)
        self.is_loose = (self.a < 0) | (self.b < 0)
        self.initial = np.full(len(ops), -1)
        previous = self._link(flow, np.flatnonzero(accumulate), a + 2)
        self.is_last = np.ones(len(ops), np.bool_)
        self.is_last[previous[previous >= 0]] = False
        self.chain = np.where(previous >= 0, previous, np.arange(len(ops)))
        while (self.chain[self.chain] != self.chain).any():
            self.chain = self.chain[self.chain]
        self.is_loose |= self.transposed != self.transposed[self.chain]
        loose = np.zeros(len(ops), np.bool_)
        loose[self.chain[self.is_loose]] = True
        self.is_loose = loose[self.chain]

    def _check(self, flow: Dataflow, a: Array, accumulate: Array, count: Array) -> None:
        """Operands are A, B, [ACC], OUT in this order and fit together."""
        if (count != 3 + accumulate).any():
            raise IrregularError("a GEMM with too few or many operands")
        last = self.out - accumulate
        for operand, role in ((a, Role.A), (a + 1, Role.B), (self.out, Role.OUT), (last[accumulate], Role.ACC)):
            if (flow.role[operand] != role).any():
                raise IrregularError("a GEMM whose operands stand in another order")
        turn_a, turn_b = (self.transposed & 1) > 0, (self.transposed & 2) > 0
        rows, k = _turned(flow, a, turn_a)
        k_of_b, cols = _turned(flow, a + 1, turn_b)
        dtype, out = flow.dtype, flow.dtype[self.out]
        fits = (k == k_of_b) & (flow.rows[self.out] == rows) & (flow.cols[self.out] == cols)
        fits &= (_IS_FLOAT[dtype[a]] == _IS_FLOAT[dtype[a + 1]]) & (out == _ACCUMULATOR[dtype[a]])
        fits &= flow.cell[last] == np.where(accumulate, flow.cell[self.out], flow.cell[last])
        if not fits.all():
            raise IrregularError("a GEMM whose operands do not fit together")

    def _link(self, flow: Dataflow, accumulating: Array, acc: Array) -> Array:
        """Which GEMM's result each one adds to, or -1; fills `initial`."""
        previous = np.full(len(self.number), -1)[: len(self.out)]
        reads = acc[accumulating]
        writer = flow.producer[reads]
        linked = (writer >= 0) & (flow.kind[flow.op[writer]] == OpKind.GEMM)
        previous[accumulating[linked]] = self.number[flow.op[writer[linked]]]
        self.initial[accumulating[~linked]] = start = _leaves(flow, reads[~linked])
        self.is_loose[accumulating[~linked]] |= start < 0
        uses = np.bincount(flow.producer[flow.producer >= 0], minlength=len(flow.op))
        self.is_loose[accumulating[linked]] |= uses[writer[linked]] != 1
        return previous


def _by_label(events: Array, label: Array, most: int) -> tuple[Array, Array]:
    """*events* and their labels, numbers up to *most*, by label."""
    # A stable sort of numbers of 16 bits or less takes linear time, and few windows have more groups.
    order = np.argsort(label.astype(np.min_scalar_type(most)), kind="stable")
    return events[order], label[order]


def _whole_groups(label: Array) -> list[slice]:
    """Parts for the workers, cut where *label*, which is sorted, changes."""
    if len(label) < _WORTH_THREADS:
        return [slice(0, len(label))]
    cuts = sorted({int(np.searchsorted(label, label[part.start])) for part in parts(len(label))})
    return list(map(slice, cuts, [*cuts[1:], len(label)]))


def _shifted(values: Array) -> Array:
    return np.append(-1, values[:-1])


def _turned(flow: Dataflow, operand: Array, turn: Array) -> tuple[Any, Any]:
    rows, cols = flow.rows[operand], flow.cols[operand]
    return np.where(turn, cols, rows), np.where(turn, rows, cols)


def _leaves(flow: Dataflow, reads: Array) -> Array:
    """The cells of initial memory that *reads* get, unchanged until they are read; -1 where a value was computed."""
    origin = flow.origin(reads)
    return np.where(flow.producer[origin] >= 0, -1, flow.cell[origin])


def _flags(params: Array, strings: list[str]) -> tuple[Array, Array]:
    """(accumulate, transpose_a + 2 transpose_b) by GEMM."""
    accumulate = np.zeros(len(strings), np.bool_)
    transposed = np.zeros(len(strings), np.int64)
    for index in np.unique(params).tolist():
        attributes = attributes_of(strings[index])
        if attributes is None:
            raise IrregularError("params that are no GemmAttributes")
        accumulate[index] = attributes.accumulate
        transposed[index] = attributes.transpose_a + 2 * attributes.transpose_b
    return accumulate[params], transposed[params]
