"""The segments of paths: in the order of time (TimedSegments), or added up (PathSums)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from kb_dataexec.analysis.attribution import PathColumns, WhereRow
from kb_dataexec.analysis.critical_path.events import VIA, via
from kb_dataexec.analysis.critical_path.labels import PathLabels, PathTexts
from kb_dataexec.analysis.critical_path.launch_way import HopSegment
from kb_dataexec.analysis.critical_path.rows import PathRows
from kb_dataexec.analysis.critical_path.walk import Pieces
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.ranges import numbered

EdgedHop = tuple[HopSegment, str]
"""A hop of the way of a launch, and the edge by which it held up the next one."""
Cell = tuple[str, str, str, str]
"""The key of the segments that are added up: line, block, what, via."""

_COLUMNS: Final = ("start_ps", "end_ps", "pe", "line", "block", "what", "via", "op_id")
"""The columns of `PathColumns`."""


class CellSums:
    """Adds up the segments of *count* paths by line, block, what and via."""

    def __init__(self, count: int) -> None:
        self._ps, self._segments = ([Counter[Cell]() for _ in range(count)] for _ in range(2))

    def add_hops(self, path: int, hops: Iterable[EdgedHop]) -> None:
        """Adds *hops* to path number *path*."""
        for hop, edge in hops:
            self.add_cell(path, ("", hop.block, hop.what, edge), hop.end_ps - hop.start_ps, 1)

    def add_cell(self, path: int, cell: Cell, ps: int, segments: int) -> None:
        """Adds *ps* picoseconds in *segments* segments to path number *path*."""
        self._ps[path][cell] += ps
        self._segments[path][cell] += segments

    def rows(self, path: int) -> list[WhereRow]:
        """Returns the sums of path number *path*, the costliest first."""
        spent, segments = self._ps[path], self._segments[path]
        order = sorted(spent, key=lambda cell: (-spent[cell], cell))
        return [
            WhereRow(line=line, block=block, what=what, via=edge, ps=spent[cell], segments=segments[cell])
            for cell in order
            for line, block, what, edge in (cell,)
        ]


class PathSums(CellSums):
    """Adds up *count* paths of a log. *labels* has the meaning of the labels of their segments."""

    def __init__(self, labels: PathLabels, texts: PathTexts, count: int) -> None:
        super().__init__(count)
        self._labels, self._texts = labels, texts

    def add(self, pieces: Pieces) -> None:
        """Adds *pieces* to their paths."""
        kinds, number = numbered((pieces.path * len(self._labels) + pieces.label) * len(VIA) + pieces.edge)
        spent = np.zeros(len(kinds), np.int64)
        np.add.at(spent, number, pieces.end_ps - pieces.start_ps)
        segments = np.bincount(number, minlength=len(kinds))
        label, edge = kinds // len(VIA), kinds % len(VIA)
        path, label = label // len(self._labels), label % len(self._labels)
        lines, blocks, whats = self._labels.line(label), self._labels.block(label), self._labels.what(label)
        strings = self._texts.strings
        for of_path, line, block, what, at, ps, count in zip(
            *(column.tolist() for column in (path, lines, blocks, whats, edge, spent, segments)), strict=True
        ):
            self.add_cell(of_path, (strings[line], strings[block], strings[what], VIA[at]), ps, count)


class TimedSegments:
    """Puts the segments of paths in the order of time."""

    def __init__(self, rows: PathRows, labels: PathLabels, texts: PathTexts) -> None:
        self._labels, self._texts = labels, texts
        self._via = texts.numbers(VIA)
        self._op_id = np.append(rows.ops.op_id, -1)

    def columns(self, launch: int, pieces: Sequence[Pieces], hops: Sequence[EdgedHop]) -> PathColumns:
        """Returns *pieces* and *hops* of *launch* in the order of time."""
        found = [self._of_pieces(each) for each in pieces] + [self._of_hops(hops)]
        columns = [np.concatenate(parts) for parts in zip(*found, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        named = {name: column[order] for name, column in zip(_COLUMNS, columns, strict=True)}
        return PathColumns(launch=launch, strings=self._texts.strings, **named)

    def _of_pieces(self, pieces: Pieces) -> tuple[Array, ...]:
        labels = self._labels
        texts = labels.line(pieces.label), labels.block(pieces.label), labels.what(pieces.label)
        pe, op_id = np.where(pieces.pe < 0, self._texts.number(""), pieces.pe), self._op_id[pieces.op]
        return pieces.start_ps, pieces.end_ps, pe, *texts, self._via[pieces.edge], op_id

    def _of_hops(self, hops: Sequence[EdgedHop]) -> tuple[Array, ...]:
        number, none = self._texts.number, self._texts.number("")
        rows = [
            (hop.start_ps, hop.end_ps, none, none, number(hop.block), number(hop.what), self._via[via(edge)], -1)
            for hop, edge in hops
        ]
        return tuple(np.array(rows, np.int64).reshape(-1, len(_COLUMNS)).T)
