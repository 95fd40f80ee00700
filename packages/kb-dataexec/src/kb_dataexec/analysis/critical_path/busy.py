"""The busy time of blocks: all work of commands, on a critical path or hidden behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from kb_dataexec.analysis.critical_path.events import via
from kb_dataexec.analysis.critical_path.labels import PathLabels, PathTexts, block_of, memory_kind
from kb_dataexec.analysis.critical_path.rows import PathRows
from kb_dataexec.analysis.critical_path.transfer_parts import BUSY_WITH_OTHERS, MEMORY, PART_OF, TransferParts
from kb_dataexec.analysis.critical_path.walk import Pieces
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.ranges import numbered


def work_of_launches(rows: PathRows, transfers: TransferParts) -> dict[int, Counter[str]]:
    """Returns the picoseconds of work of commands, by launch and by block. A wait for a memory is no work."""
    found = work_of_ops(rows, transfers, np.ones(len(rows.ops), np.bool_))
    for launch, spent in work_of_commands(rows).items():
        found[launch].update(spent)
    return found


def work_of_ops(rows: PathRows, transfers: TransferParts, counts: Array) -> dict[int, Counter[str]]:
    """Returns the part of `work_of_launches` by the ops for which *counts* is True."""
    ops, strings = rows.ops, rows.log.strings
    busy = _Busy(rows)
    whole = np.flatnonzero((transfers.of_op < 0) & counts)
    blocks, block_of_server = _distinct([block_of(strings[component]) for component in ops.servers[0].tolist()])
    busy.add(ops.command[whole], blocks, block_of_server[ops.server[whole]], (ops.t_end - ops.t_start)[whole])
    every = np.flatnonzero(counts[transfers.op])
    command = ops.command[transfers.op[every]]
    memories, kind_of_memory = _distinct([memory_kind(strings[memory]) for memory in transfers.memories.tolist()])
    for name, (block, what) in PART_OF.items():
        if block != MEMORY:
            busy.add_one(command, block, transfers.lengths(name, every))
        elif what != BUSY_WITH_OTHERS:
            busy.add(command, memories, kind_of_memory[transfers.memory[every]], transfers.lengths(name, every))
    return busy.by_launch


def work_of_commands(rows: PathRows) -> dict[int, Counter[str]]:
    """Returns the part of `work_of_launches` that belongs to no op: issue and decoding of commands."""
    busy, commands = _Busy(rows), rows.commands
    every = np.arange(len(commands))
    busy.add_one(every, "pe_scheduler", commands.t_decoded - commands.t_taken)
    busy.add_one(every, "pe_cpu", commands.t_issued - commands.operand_ps - commands.t_call)
    busy.add_syncs()
    for launch, ps in zip(rows.kernels["launch"].tolist(), rows.beginning_ps.tolist(), strict=True):
        if ps:
            busy.by_launch[launch]["pe_cpu"] += ps
    return busy.by_launch


class _Busy:
    """Adds up picoseconds of work by launch of *rows* and by block, in `by_launch`."""

    def __init__(self, rows: PathRows) -> None:
        launches, number = numbered(rows.kernels["launch"])
        self._launch = np.append(number, len(launches))[rows.kernel_of]
        self._launch_of_sync = np.append(number, len(launches))[rows.syncs.programs(rows.kernels)]
        self._syncs = rows.syncs
        self._busy = [Counter[str]() for _ in range(len(launches) + 1)]
        self.by_launch = dict(zip(launches.tolist(), self._busy, strict=False))

    def add(self, commands_of: Array, blocks: Sequence[str], block: Array, ps: Array) -> None:
        """Adds *ps*, work of *commands_of*. *block* has the index in *blocks* of each."""
        self._add(self._launch[commands_of], blocks, block, ps)

    def _add(self, launch: Array, blocks: Sequence[str], block: Array, ps: Array) -> None:
        spent = np.zeros((len(self._busy), len(blocks)), np.int64)
        np.add.at(spent, (launch, block), ps)
        for found, sums in zip(self._busy, spent.tolist(), strict=True):
            for text, total in zip(blocks, sums, strict=True):
                if total:
                    found[text] += total

    def add_one(self, commands_of: Array, block: str, ps: Array) -> None:
        """Adds *ps*, work of *commands_of* on one *block*."""
        self.add(commands_of, [block], np.zeros(len(ps), np.int64), ps)

    def add_syncs(self) -> None:
        """Adds the work of calls that wait or signal: their issue, and what ended the waits that took time."""
        syncs, waited = self._syncs, self._syncs.waited
        for block, ps in (
            ("pe_cpu", syncs.issue_ps),
            ("pe_queue", syncs.queue_ps * waited),
            ("links", syncs.way_ps * waited),
        ):
            self._add(self._launch_of_sync, [block], np.zeros(len(ps), np.int64), ps)


def work_beside(pieces: Pieces, transfers: TransferParts, labels: PathLabels, texts: PathTexts) -> Counter[str]:
    """Returns the picoseconds of *pieces* of a path that are no work of commands, by block.

    They are time without a known cause, and time in which the bytes of a read held a memory although they count as work
    of the links, which are slower than the memory.
    """
    ps = pieces.end_ps - pieces.start_ps
    more = np.where(pieces.pe < 0, ps, 0)
    is_bytes = labels.what(pieces.label) == texts.number("bytes")
    is_bytes &= labels.block(pieces.label) != texts.number("links")
    held = np.flatnonzero((pieces.edge == via("memory")) & is_bytes)
    more[held] = ps[held] - transfers.lengths("memory_bytes_ps", transfers.of_op[pieces.op[held]])
    there = np.flatnonzero(more > 0)
    found = Counter[str]()
    for block, beyond in zip(labels.block(pieces.label[there]).tolist(), more[there].tolist(), strict=True):
        found[texts.strings[block]] += beyond
    return found


def _distinct(texts: Sequence[str]) -> tuple[list[str], Array]:
    """The distinct *texts*, and the index of each of *texts* among them."""
    found = list(dict.fromkeys(texts))
    return found, np.array([found.index(text) for text in texts], np.int64)
