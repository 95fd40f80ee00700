"""What each memory served when, as slices: a track for each memory, with the requests whose bytes held it."""

from __future__ import annotations

import re

import numpy as np

from kb_cli.trace.arrange import MEMORIES
from kb_cli.trace.op_slices import ARGUMENTS, pe_of, without_overlap
from kb_cli.trace.pairs import number_pairs
from kb_cli.trace.tracks import Slices, TrackPlace
from kb_dataexec import OpLog
from kb_dataexec.analysis import LazyServices, memory_spans
from kb_dataexec.log import columns_of

SERVED = "served"
"""Stands behind the memory's id in the title of its track."""


def memory_slices(log: OpLog, pe: str | None = None, services: LazyServices | None = None) -> Slices:
    """The services of all memories; with *pe*, of those that a DMA of that PE used, whoever was served.

    A slice has the name of its DMA's PE, stage and kernel line, and op, command and tile. Requests that a memory serves
    at the same time stand on several tracks of one title. *services* are those of *log*, where a caller has them.
    Raises LogError for a log without the table of transfers.
    """
    strings, spans = log.strings, memory_spans(log, services)
    columns = columns_of(log.ops, ("component", "name", "line", *ARGUMENTS.values()), spans["row"])
    component = columns["component"]
    shown = spans["memory"]
    if pe is not None:
        mine = [number for number, text in enumerate(strings) if pe_of(text) == pe]
        shown = shown[np.isin(component, mine)]
    memories = sorted(np.unique(shown).tolist(), key=lambda memory: by_number(strings[memory]))
    rank = np.full(len(strings), -1)
    rank[memories] = np.arange(len(memories))
    track = rank[spans["memory"]]
    order = np.lexsort((spans["end_ps"], spans["start_ps"], track))  # equal ones keep the order of their ops
    order = order[np.searchsorted(track[order], 0) :]
    track, start, end = track[order], spans["start_ps"][order], spans["end_ps"][order]
    columns = {name: column[order] for name, column in columns.items()}
    servers = number_pairs(columns["component"], columns["name"])
    texts = [f"{pe_of(strings[dma]) or strings[dma]}: {strings[stage]}" for dma, stage in servers.found]
    names = number_pairs(servers.number, columns["line"])
    titles = [f"{texts[server]} {strings[line]}" for server, line in names.found]
    arguments = {name: columns[column] for name, column in ARGUMENTS.items()}
    places = [TrackPlace(MEMORIES, f"{strings[memory]}: {SERVED}") for memory in memories]
    return without_overlap(Slices(places, track, start, end, names.number, titles, arguments))


def by_number(name: str) -> list[str | int]:
    """A key that sorts names with numbers in them by these numbers; texts and numbers take turns in it."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]
