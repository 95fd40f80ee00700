"""How busy blocks were: all work of commands, whether it is on a path or hidden behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from kb_dataexec.analysis.path_events import via
from kb_dataexec.analysis.path_rows import PathRows
from kb_dataexec.analysis.path_texts import PathLabels, PathTexts, block_of, memory_kind
from kb_dataexec.analysis.path_transfers import BUSY_WITH_OTHERS, MEMORY, PART_OF, TransferParts
from kb_dataexec.analysis.path_walk import Pieces
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.ranges import numbered


def work_of_launches(rows: PathRows, transfers: TransferParts) -> dict[int, Counter[str]]:
    """Picoseconds of work of commands, by launch and by block. A wait for a memory is no work."""
    ops, commands, strings = rows.ops, rows.commands, rows.log.strings
    launches, number = numbered(rows.kernels["launch"])
    launch = np.append(number, len(launches))[rows.kernel_of]
    busy = [Counter[str]() for _ in range(len(launches) + 1)]

    def add(commands_of: Array, blocks: Sequence[str], block: Array, ps: Array) -> None:
        spent = np.zeros((len(busy), len(blocks)), np.int64)
        np.add.at(spent, (launch[commands_of], block), ps)
        for found, sums in zip(busy, spent.tolist(), strict=True):
            for text, total in zip(blocks, sums, strict=True):
                if total:
                    found[text] += total

    def add_one(commands_of: Array, block: str, ps: Array) -> None:
        add(commands_of, [block], np.zeros(len(ps), np.int64), ps)

    whole = np.flatnonzero(transfers.of_op < 0)
    blocks, block_of_server = _distinct([block_of(strings[component]) for component in ops.servers[0].tolist()])
    add(ops.command[whole], blocks, block_of_server[ops.server[whole]], (ops.t_end - ops.t_start)[whole])
    every, command = np.arange(len(transfers.op)), ops.command[transfers.op]
    memories, kind_of_memory = _distinct([memory_kind(strings[memory]) for memory in transfers.memories.tolist()])
    for name, (block, what) in PART_OF.items():
        if block != MEMORY:
            add_one(command, block, transfers.lengths(name, every))
        elif what != BUSY_WITH_OTHERS:
            add(command, memories, kind_of_memory[transfers.memory], transfers.lengths(name, every))
    every = np.arange(len(commands))
    add_one(every, "pe_scheduler", commands.t_decoded - commands.t_taken)
    add_one(every, "pe_cpu", commands.t_issued - commands.operand_ps - commands.t_call)
    for program, ps in zip(number.tolist(), rows.beginning_ps.tolist(), strict=True):
        if ps:
            busy[program]["pe_cpu"] += ps
    return dict(zip(launches.tolist(), busy, strict=False))


def work_beside(pieces: Pieces, transfers: TransferParts, labels: PathLabels, texts: PathTexts) -> Counter[str]:
    """Picoseconds by block of what *pieces* of a path are beyond the work of commands.

    That is time without a known cause, and time in which bytes of a read held a memory for longer than they are counted
    there: where the links are slower than the memory, bytes are counted at the links.
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
    """The distinct *texts*, and the place of each of *texts* among them."""
    found = list(dict.fromkeys(texts))
    return found, np.array([found.index(text) for text in texts], np.int64)
