"""RunSums: sums over the records of a run that several rules need, of PEs, memories and windows of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_cli.run.rules.chip_places import PARTS, Array, ChipPlaces, tensor_numbers, tensor_starts
from kb_dataexec import OpLog
from kb_dataexec.analysis import DmaOps
from kb_dataexec.log import TABLE_DTYPES, columns_of
from kb_engine import Host, LaunchResult
from kb_messages import MemorySpace, Role
from kb_topology import NodeKind

Floats = npt.NDArray[np.float64]
RECTANGLE: Final = ("owner", "offset", "rows", "row_nbytes", "stride")
REGISTERS: Final = MemorySpace.REG.code
_WINDOWS: Final = 256
"""Windows of time of a run with one launch. Source: assumed; 0.4 % of the time is a small part of what a rule finds."""
_MOST_GROUPS: Final = 64
"""Groups of launches with sums of their own. Later launches of a longer run are summed in such groups."""


class _Moved(NamedTuple):
    """The bytes that DMA ops moved from or to memories: a rectangle each, with the times of its op."""

    pe: Array
    is_read: npt.NDArray[np.bool_]
    nbytes: Array
    start_ps: Array
    end_ps: Array


class RunSums:
    """Sums over the log of *launches* of *host*: pass each chunk of the log, or the whole log, to `look`.

    All sums are whole numbers, so they are the same in whatever chunks a log is read. `places` numbers PEs and
    memories. `work_ps` has the picoseconds of service of each kind of block but DMAs, and `moved` the bytes of all DMA
    ops, by group of launches and PE; `group_of` is the group of each launch. `writes` counts the DMA writes of each PE,
    by number, and kernel line. `waits_ps` has the waits for each memory in each window of time, and `queued_ps` the
    waits of each PE behind more than one request as long as the own one. Properties are read after the last chunk.
    """

    def __init__(self, host: Host, launches: Sequence[LaunchResult]) -> None:
        self.places = places = ChipPlaces(host)
        n_launches, n_pes = max(len(launches), 1), len(places.pes)
        self.group_of = np.arange(n_launches) * min(n_launches, _MOST_GROUPS) // n_launches
        self.n_groups = n_groups = int(self.group_of[-1]) + 1
        self.work_ps: dict[NodeKind, Array] = {}
        self.moved = np.zeros((n_groups, n_pes), np.int64)
        self.dma_ps = np.zeros((n_groups, n_pes), np.int64)
        self.writes: Counter[tuple[int, str]] = Counter()
        self._starts = np.array([each.start_ps for each in launches] or [0], np.int64)
        self.edges = _edges(launches)
        self._by_pe = np.zeros((2, n_pes, places.n_columns), np.int64)
        self._by_time = np.zeros((len(self.edges) - 1, places.n_columns), np.int64)
        self._spread = np.zeros(2, np.int64)
        self.waits_ps = np.zeros((len(self.edges) - 1, len(places.memories)), np.int64)
        self.queued_ps = np.zeros(n_pes, np.int64)
        self._early = np.empty(0, np.int64), np.empty(0, np.int64)
        self._tensors = tensor_starts(host)
        self._tensor_nbytes = [each.rows * each.cols * each.dtype.nbytes * each.n_copies for each in host.tensors]
        self._columns_of_tensors = [
            (places.columns_of(each), nbytes) for each, nbytes in zip(host.tensors, self._tensor_nbytes, strict=True)
        ]
        self._n_tensors = len(self._tensor_nbytes)
        self._by_tensor = np.zeros((n_groups, 2, len(self._tensor_nbytes) + 1), np.int64)

    def look(self, chunk: OpLog) -> None:
        """Adds *chunk*, a part of a log with the operands of its ops, or a whole log."""
        self._add_work(chunk)
        ops = DmaOps.of(chunk)
        self._add_moved(chunk, ops)
        self._add_waits(chunk, ops)
        self._add_writes(chunk, ops)

    def has_work(self, group: int, pe: int) -> bool:
        """Whether PE number *pe* moved a byte or computed anything in a *group* of launches."""
        return bool(self.moved[group, pe]) or any(work[group, pe] for work in self.work_ps.values())

    @cached_property
    def most_writes(self) -> dict[int, int]:
        """The most DMA writes of one kernel line by each PE that writes, by number."""
        found: dict[int, int] = {}
        for (pe, _), count in self.writes.items():
            found[pe] = max(found.get(pe, 0), count)
        return found

    @cached_property
    def used_pes(self) -> list[int]:
        """The numbers of the PEs that have work in the run."""
        pes = range(len(self.places.pes))
        return [pe for pe in pes if any(self.has_work(group, pe) for group in range(self.n_groups))]

    @property
    def read_by_pe(self) -> Floats:
        """Bytes that each PE read from each memory."""
        return self.places.by_memory(self._by_pe[0]) / PARTS

    @property
    def written_by_pe(self) -> Floats:
        """Bytes that each PE wrote to each memory."""
        return self.places.by_memory(self._by_pe[1]) / PARTS

    @property
    def written(self) -> int:
        """Bytes that were written."""
        return int(self._by_tensor[:, 1].sum())

    @cached_property
    def reads(self) -> list[tuple[int, bool]]:
        """The bytes that were read of each tensor, the most first, and whether that is more than it has; then those of
        no tensor.
        """
        read = self._by_tensor[:, 0].sum(axis=0).tolist()
        known = sorted(
            ((n, n > nbytes) for n, nbytes in zip(read, self._tensor_nbytes, strict=False) if n), reverse=True
        )
        return [*known, (read[-1], False)]

    def shared_by_memory(self) -> Floats:
        """The bytes of each memory that were read of tensors read more than once, if all parts of a tensor were read as
        often.
        """
        found = np.zeros(self.places.n_columns)
        read = self._by_tensor[:, 0].sum(axis=0).tolist()
        for number, (columns, nbytes) in enumerate(self._columns_of_tensors):
            if read[number] > nbytes:
                np.add.at(found, columns[:, 0], columns[:, 1] * (read[number] / nbytes))
        return self.places.by_memory(found)

    def of_tensor(self, number: int) -> tuple[int, int]:
        """The bytes that launches read and wrote of tensor *number* of the host."""
        read, written = self._by_tensor[:, :, number].sum(axis=0).tolist() if number < self._n_tensors else (0, 0)
        return read, written

    @property
    def slices_of_transfer(self) -> float:
        """The number of memories over which the bytes of a DMA op lie, as a mean over bytes."""
        return float(self._spread[0]) / max(float(self._spread[1]), 1.0)

    @property
    def has_exchange(self) -> bool:
        """Whether a launch read and wrote one tensor, so that its programs may depend on each other."""
        return bool((self._by_tensor[:, :, :-1] > 0).all(axis=1).any())

    @cached_property
    def by_time(self) -> Floats:
        """Bytes of each memory in each window of time, whose edges are `edges`. An op moves its bytes evenly over its
        time.
        """
        return self.places.by_memory(self._by_time) / PARTS

    def _add_work(self, chunk: OpLog) -> None:
        ops, places = chunk.ops, self.places
        component = ops["component"]
        spent = ops["t_end_ps"] - ops["t_start_ps"]
        group = self._group(ops["t_start_ps"])
        n_texts = len(chunk.strings)
        sums = np.bincount(group * n_texts + component, weights=spent, minlength=self.n_groups * n_texts)
        sums = sums.reshape(-1, n_texts)
        for text in np.flatnonzero(sums.any(axis=0)).tolist():
            block = places.block_number.get(chunk.strings[text], -1)
            pe = -1 if block < 0 else int(places.pe_of_block[block])
            if pe >= 0:
                kind = places.kind_of_block[block]
                table = self.dma_ps if kind is NodeKind.PE_DMA else self.work_ps.setdefault(kind, self._zeros())
                table[:, pe] += sums[:, text].astype(np.int64)

    def _zeros(self) -> Array:
        return np.zeros_like(self.moved)

    def _group(self, times: Array) -> Array:
        if self.n_groups == 1:
            return np.zeros(len(times), np.int64)
        launch = np.searchsorted(self._starts, times, side="right") - 1
        found: Array = self.group_of[np.maximum(launch, 0)]
        return found

    def _add_moved(self, chunk: OpLog, ops: DmaOps) -> None:
        if not len(ops):
            return
        op_id, role, space = columns_of(chunk.operands, ("op_id", "role", "space")).values()
        near = np.flatnonzero((role <= Role.DST) & (space != MemorySpace.IMMEDIATE.code) & (space != REGISTERS))
        op, is_there = ops.find(op_id[near])
        pes = self._pe_of(chunk, ops)
        is_there &= (role[near] == Role.SRC) == ops.is_read[op]
        is_there &= pes[op] >= 0
        op = op[is_there]
        owner, *columns = columns_of(chunk.operands, RECTANGLE, near[is_there]).values()
        owner, nbytes = owner.astype(np.int64), columns[1] * columns[2]
        moved = _Moved(pes[op], ops.is_read[op], nbytes, ops.start_ps[op], ops.end_ps[op])
        group = self._group(moved.start_ps)
        np.add.at(self.moved, (group, moved.pe), nbytes)
        way = np.where(moved.is_read, 0, 1)
        np.add.at(self._by_tensor, (group, way, tensor_numbers(self._tensors, owner, columns[0])), nbytes)
        self._add_far(moved, *self.places.far_bytes(owner, columns))

    def _add_far(self, moved: _Moved, rectangle: Array, memory: Array, parts: Array) -> None:
        way, nbytes = np.where(moved.is_read[rectangle], 0, 1), moved.nbytes[rectangle]
        np.add.at(self._by_pe, (way, moved.pe[rectangle], memory), nbytes * parts)
        share = np.minimum(parts, self.places.part_of_column[memory])
        self._spread += np.array([(nbytes * parts).sum(), (nbytes * parts * share // PARTS).sum()])
        window, which, share = self._windows(moved.start_ps[rectangle], moved.end_ps[rectangle], nbytes)
        np.add.at(self._by_time, (window, memory[which]), share * parts[which])

    def _windows(self, start_ps: Array, end_ps: Array, amount: Array) -> tuple[Array, Array, Array]:
        """Spreads each *amount* evenly over the time from *start_ps* to *end_ps*.

        Returns (window, which, share): the windows of time, the index of the amount, and its whole number there.
        """
        edges, last = self.edges, len(self.edges) - 2
        first = np.clip(np.searchsorted(edges, start_ps, side="right") - 1, 0, last)
        count = np.clip(np.searchsorted(edges, end_ps, side="left") - 1, first, last) - first + 1
        which = np.repeat(np.arange(len(count)), count)
        window = first[which] + np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        spent, begin = np.maximum(end_ps - start_ps, 1)[which], start_ps[which]
        until = np.clip(edges[window + 1] - begin, 0, spent) / spent
        since = np.clip(edges[window] - begin, 0, spent) / spent
        whole = amount[which]
        return window, which, np.floor(whole * until).astype(np.int64) - np.floor(whole * since).astype(np.int64)

    def _add_waits(self, chunk: OpLog, ops: DmaOps) -> None:
        """Adds the waits for memories that were busy, and for shared links on the way to them."""
        rows = chunk.tables.get("transfers")
        if rows is None:
            rows = np.empty(0, TABLE_DTYPES["transfers"])
        served, arrived, first, last = (rows[f"t_{name}_ps"] for name in ("served", "arrived", "first", "last"))
        own = np.maximum(last - first, np.where(served >= 0, first - served, 0))
        waited = np.where(served >= 0, served - arrived, 0) + rows["shared_ps"]
        memory = self.places.numbers(chunk, rows["memory"], self.places.memory_number)
        waits = np.flatnonzero((waited > 0) & (memory >= 0))
        window, which, share = self._windows(rows["t_sent_ps"][waits], last[waits], waited[waits])
        np.add.at(self.waits_ps, (window, memory[waits][which]), share)
        queued = np.flatnonzero(waited > own)
        op_ids = np.concatenate((self._early[0], rows["op_id"][queued]))
        spent = np.concatenate((self._early[1], waited[queued]))
        op, is_there = ops.find(op_ids)
        pe = self._pe_of(chunk, ops)[op[is_there]] if len(ops) else np.empty(0, np.int64)
        np.add.at(self.queued_ps, pe[pe >= 0], spent[is_there][pe >= 0])
        self._early = op_ids[~is_there], spent[~is_there]  # a row may be known before its op has ended

    def _pe_of(self, chunk: OpLog, ops: DmaOps) -> Array:
        """The PE of each of *ops*; -1 for the host."""
        blocks = self.places.numbers(chunk, ops.component, self.places.block_number)
        return np.where(blocks >= 0, self.places.pe_of_block[blocks], -1)

    def _add_writes(self, chunk: OpLog, ops: DmaOps) -> None:
        writes = np.flatnonzero(~ops.is_read)
        pe, n_texts = self._pe_of(chunk, ops)[writes], len(chunk.strings)
        keys = pe * n_texts + chunk.ops["line"][ops.row[writes]]
        found, count = np.unique(keys[pe >= 0], return_counts=True)
        for key, number in zip(found.tolist(), count.tolist(), strict=True):
            self.writes[key // n_texts, chunk.strings[key % n_texts]] += number


def _edges(launches: Sequence[LaunchResult]) -> Array:
    """The edges of windows of time: as many in each launch, and one window for the time between two launches."""
    each_has = max(1, _WINDOWS // max(len(launches), 1))
    found = [np.linspace(each.start_ps, max(each.end_ps, each.start_ps + 1), each_has + 1) for each in launches]
    if not found:
        return np.array([0, 1], np.int64)
    return np.unique(np.concatenate(found).astype(np.int64))
