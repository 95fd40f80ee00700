"""PathWalk: follows causes back from an end, and names the segments of the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from kb_dataexec.analysis.attribution import PathColumns
from kb_dataexec.analysis.launch_way import HopSegment
from kb_dataexec.analysis.path_events import VIA, OpEvent, PathEvents, Work, via
from kb_dataexec.analysis.path_rows import PathRows
from kb_dataexec.analysis.path_transfers import MEMORY, PART_OF, TransferParts
from kb_dataexec.arrays.dtypes import Array

Segments = dict[str, Array]
"""Columns of segments, latest first: those of `PathColumns` without `launch` and `strings`."""

_COLUMNS = "start_ps", "end_ps", "pe", "line", "block", "what", "via", "op_id"
UNKNOWN = "unknown"
"""The block and the work of segments that the log gives no cause for."""


class PathTexts:
    """The texts of segments by number: the strings of a log, and what is added."""

    def __init__(self, strings: Sequence[str]) -> None:
        self.strings = list(strings)
        self._numbers = {text: number for number, text in reversed(list(enumerate(strings)))}

    def number(self, text: str) -> int:
        """The number of *text*, which is added if it is new."""
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.strings)
            self.strings.append(text)
        return found

    def numbers(self, texts: Iterable[str]) -> Array:
        """The numbers of *texts*."""
        return np.array([self.number(text) for text in texts], np.int64)


class PathWalk:
    """The paths through *events*. Texts that segments need are added to *texts*."""

    def __init__(self, rows: PathRows, events: PathEvents, transfers: TransferParts, texts: PathTexts) -> None:
        self._rows = rows
        self._events = events
        self._causes: list[int] = events.cause.tolist()
        self._via = texts.numbers(VIA)
        self.texts = texts
        strings = rows.log.strings
        self._block_of = texts.numbers(text.rpartition(".")[2] for text in strings)
        self._memory_of = texts.numbers(text.rpartition(".")[2].rstrip("0123456789") for text in strings)
        self._transfers = transfers
        self._part_block, self._part_what = (texts.numbers(part[at] for part in PART_OF.values()) for at in (0, 1))
        waited, numbers = transfers.op[transfers.behind >= 0], events.numbers
        ended, began = (numbers.op(event, waited).tolist() for event in (OpEvent.END, OpEvent.START))
        self._whole: dict[int, int] = dict(zip(ended, began, strict=True))
        self._what_of = texts.numbers("service" if text.startswith("dma_") else text for text in strings)

    def back_from(self, event: int, start: int, stays: bool) -> Array:
        """The events from *event* back to the start of a program, latest first.

        With *stays*, the way stays on the PE: a service is whole, and a wait for a memory is part of it. Where events
        at one time wait for each other in a circle, *start* follows the first of them.
        """
        causes, found = self._causes, []
        whole = self._whole if stays else {}
        while event >= 0:
            found.append(event)
            event = whole.get(event, causes[event])
            if len(found) > len(causes):
                return np.array([*_until_it_repeats(found), start], np.int64)
        return np.array(found, np.int64)

    def segments(self, path: Array) -> Segments:
        """The segments of *path* that take time. DMA services are cut where their parts meet."""
        events, numbers = self._events, self._events.numbers
        begin, end = path[1:], path[:-1]
        edge = events.edge[end].astype(np.int64)
        said = np.maximum.accumulate(np.where(edge > 0, np.arange(len(edge)), -1)) if len(edge) else edge
        is_caused = events.cause[end] == begin
        is_whole = ~is_caused & (end // max(numbers.n_ops, 1) == OpEvent.END)
        work = np.where(is_caused, events.work[end], np.where(is_whole, Work.SERVICE, Work.UNKNOWN))
        subject = np.where(is_caused, events.subject[end], np.where(is_whole, end % max(numbers.n_ops, 1), -1))
        edges = np.where(said >= 0, edge[said], 0) if len(edge) else said
        kept = (events.time[end] > events.time[begin]) & (work != Work.NONE)
        times = events.time[begin[kept]], events.time[end[kept]]
        return self._cut(times, work[kept], subject[kept], self._via[edges[kept]])

    def _cut(self, times: tuple[Array, Array], work: Array, subject: Array, via_text: Array) -> Segments:
        rows, texts, transfers = self._rows, self.texts, self._transfers
        ops, commands = rows.ops, rows.commands
        by_op = (work == Work.SERVICE) | (work == Work.MEMORY)
        op = np.where(by_op, subject, -1)
        block, what = (np.full(len(op), texts.number(UNKNOWN)) for _ in range(2))
        block[by_op], what[by_op] = self._block_of[ops.component[op[by_op]]], self._what_of[ops.name[op[by_op]]]
        for kind, node, name in (
            (Work.DECODE, "pe_scheduler", "decode"),
            (Work.ISSUE, "pe_cpu", "issue"),
            (Work.PROGRAM, "pe_cpu", "program"),
        ):
            block[work == kind], what[work == kind] = texts.number(node), texts.number(name)
        held = work == Work.MEMORY
        block[held] = self._memory_of[transfers.memory[transfers.of_op[op[held]]]]
        what[held] = texts.number("bytes")
        begins = work == Work.PROGRAM
        command = np.where(by_op, ops.command[op] if len(ops) else -1, np.where(begins, -1, subject))
        pe, line = (np.full(len(op), texts.number("")) for _ in range(2))
        pe[begins] = rows.kernels["pe"][subject[begins]]
        known = command >= 0
        pe[known], line[known] = commands.pe[command[known]], commands.line[command[known]]
        op_id = np.where(by_op, ops.op_id[op] if len(ops) else -1, -1)
        found = dict(zip(_COLUMNS, (*times, pe, line, block, what, via_text, op_id), strict=True))
        transfer = np.where(work == Work.SERVICE, transfers.of_op[op] if len(ops) else -1, -1)
        parted = np.flatnonzero(transfer >= 0)
        which, start, end, part = transfers.cut(transfer[parted], times[0][parted], times[1][parted])
        parts = {name: column[parted[which]] for name, column in found.items()}
        memory = self._memory_of[transfers.memory[transfer[parted[which]]]]
        parts |= {"start_ps": start, "end_ps": end, "what": self._part_what[part]}
        parts["block"] = np.where(self._part_block[part] == texts.number(MEMORY), memory, self._part_block[part])
        joined = {name: np.concatenate([found[name][transfer < 0], parts[name]]) for name in _COLUMNS}
        order = np.argsort(-joined["end_ps"], kind="stable")
        return {name: column[order] for name, column in joined.items()}

    def hops(self, hops: Sequence[HopSegment], edge: str) -> Segments:
        """*hops* that take time, as segments, all with the *edge*."""
        hops = [hop for hop in hops if hop.end_ps > hop.start_ps]
        nothing = np.full(len(hops), self.texts.number(""))
        return {
            "start_ps": np.array([hop.start_ps for hop in hops], np.int64),
            "end_ps": np.array([hop.end_ps for hop in hops], np.int64),
            "pe": nothing,
            "line": nothing,
            "block": self.texts.numbers(hop.block for hop in hops),
            "what": self.texts.numbers(hop.what for hop in hops),
            "via": np.full(len(hops), self._via[via(edge)]),
            "op_id": np.full(len(hops), -1, np.int64),
        }

    def columns(self, launch: int, parts: Sequence[Segments]) -> PathColumns:
        """*parts*, the latest first, as one path of *launch* in the order of time."""
        joined = {name: np.concatenate([part[name] for part in parts])[::-1].astype(np.int64) for name in _COLUMNS}
        return PathColumns(launch=launch, strings=self.texts.strings, **joined)


def _until_it_repeats(events: Sequence[int]) -> list[int]:
    """*events*, which go round in a circle in the end, without the second round."""
    return list(dict.fromkeys(events))
