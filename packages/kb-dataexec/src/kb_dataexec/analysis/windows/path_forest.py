"""PathForest: follows the paths back from many events of a window, shared parts once, and adds them up."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.analysis.critical_path.events import VIA, PathEvents, via
from kb_dataexec.analysis.critical_path.labels import PathLabels, PathTexts
from kb_dataexec.analysis.critical_path.segments import Cell, CellSums
from kb_dataexec.analysis.critical_path.transfer_parts import TransferParts
from kb_dataexec.analysis.critical_path.walk import PathWalk, Pieces
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.ranges import numbered

_MEMORY: Final = via("memory")


class NoWindowsError(ValueError):
    """A path goes back to rows that no earlier window kept. The paths can be followed in the whole log."""


class _Sums(NamedTuple):
    """Sums over pieces of one line, block, work and edge: picoseconds and pieces, and the picoseconds beyond the work
    of commands, with any edge and with the edge "memory".
    """

    cell: tuple[str, str, str]
    edge: int
    ps: int
    n: int
    beyond_ps: int
    beyond_at_memory_ps: int


class PathNode(NamedTuple):
    """A path back from an event: its *sums* up to the event of *before*, another node.

    Pieces with the edge 0 take the edge of the event behind the event of the node. *edge* is the last edge of the node,
    for *before*. *start_ps* is the time of its earliest event, the start of a path without *before*.
    """

    before: PathNode | None
    sums: Sequence[_Sums]
    edge: int
    n_ties: int
    start_ps: int


class PathTotal(NamedTuple):
    """The sums of a whole path: its cells, picoseconds beyond the work of commands by block, ties, and start."""

    sums: CellSums
    beyond: dict[str, int]
    n_ties: int
    start_ps: int


class PathRound(NamedTuple):
    """The construction of the nodes of some events from the nodes of the same events one round earlier.

    *made* are the nodes of the round; a node stands behind its `before`. For each of them, `before` has the index in
    *made* of that node, or -1 - i for the node of event i one round earlier. `event` has the node of each event, in the
    same way.
    """

    made: Sequence[PathNode]
    before: Sequence[int]
    event: Sequence[int]

    @classmethod
    def between(cls, earlier: Sequence[PathNode], later: Sequence[PathNode]) -> PathRound | None:
        """Returns the round from the nodes *earlier* of some events to their nodes *later*.

        Returns None if a path begins in between, and so had no earlier round.
        """
        numbers = {id(node): -1 - number for number, node in enumerate(earlier)}
        made, before = list[PathNode](), list[int]()
        for node in later:
            way: list[PathNode] = []
            at: PathNode | None = node
            while at is not None and id(at) not in numbers:
                way.append(at)
                at = at.before
            if at is None:
                return None
            for each in reversed(way):
                assert each.before is not None, "the way ends at an earlier node"
                numbers[id(each)] = len(made)
                made.append(each)
                before.append(numbers[id(each.before)])
        return cls(made, before, [numbers[id(node)] for node in later])

    def again(self, nodes: Sequence[PathNode]) -> list[PathNode]:
        """Returns the nodes of the events one round after *nodes*."""
        found: list[PathNode] = []
        for node, at in zip(self.made, self.before, strict=True):
            found.append(node._replace(before=found[at] if at >= 0 else nodes[-1 - at]))
        return [found[at] if at >= 0 else nodes[-1 - at] for at in self.event]


def total_of(node: PathNode) -> PathTotal:
    """Returns the sums of the whole path that ends at the event of *node*."""
    sums, beyond, ties, edge, at = CellSums(1), dict[str, int](), 0, 0, node
    while True:
        for each in at.sums:
            own = each.edge or edge
            cell: Cell = (*each.cell, VIA[own])
            sums.add_cell(0, cell, each.ps, each.n)
            more = each.beyond_at_memory_ps if own == _MEMORY else each.beyond_ps
            if more:
                beyond[each.cell[1]] = beyond.get(each.cell[1], 0) + more
        ties += at.n_ties
        edge = at.edge or edge
        if at.before is None:
            return PathTotal(sums, beyond, ties, at.start_ps)
        at = at.before


class PathForest:
    """Follows paths through *events*. *labels* has the labels of their pieces.

    Raises NoWindowsError for events at one time that wait for each other in a circle.
    """

    def __init__(
        self, walk: PathWalk, events: PathEvents, transfers: TransferParts, labels: PathLabels, texts: PathTexts
    ) -> None:
        self._walk, self._events, self._transfers = walk, events, transfers
        self._labels, self._texts = labels, texts

    def nodes(self, wanted: Array, known: dict[int, PathNode], since_ps: int, stays: bool) -> dict[int, PathNode]:
        """Returns the node of each of the events *wanted*.

        *known* has nodes of events before *since_ps*; others have none. With *stays*, paths stay on their PE.
        """
        times, wanted_list = self._events.time, wanted.tolist()
        found = {event: known[event] for event in wanted_list if event in known}
        later = wanted[times[wanted] >= since_ps].tolist()
        trunks, is_joint = self._trunks(later, known, since_ps, stays)
        nodes = self._of_trunks(trunks, is_joint, known)
        return found | {event: nodes[event] for event in later}

    def _trunks(
        self, wanted: list[int], known: dict[int, PathNode], since_ps: int, stays: bool
    ) -> tuple[list[Array], Array]:
        """Returns the paths back from each of *wanted* up to another path or an event of *known*, its last event.

        Also returns, for each event, whether several paths go through it.
        """
        is_earlier = self._events.time < since_ps
        causes = np.where(is_earlier, -1, self._walk.causes(stays)).data
        seen, is_known = bytearray(len(causes)), np.zeros(len(causes), np.bool_)
        is_joint, is_pushed = np.zeros(len(causes), np.bool_), np.zeros(len(causes), np.bool_)
        is_known[list(known)] = True
        trunks: list[Array] = []
        for event in wanted:
            trunk = array("q")
            append = trunk.append
            while event >= 0 and not seen[event]:
                seen[event] = 1
                append(event)
                event = causes[event]
            if event >= 0:
                append(event)
                is_joint[event] = True
                if not is_pushed[event]:
                    raise NoWindowsError("a circle of causes")
            found = np.frombuffer(trunk, np.int64)
            if is_earlier[found[-1]] and not is_known[found[-1]]:
                raise NoWindowsError("a cause that was not kept")
            is_pushed[found] = True
            trunks.append(found)
        return trunks, is_joint

    def _of_trunks(self, trunks: list[Array], is_joint: Array, known: dict[int, PathNode]) -> dict[int, PathNode]:
        """The nodes of the first events of *trunks* and of the events of *is_joint*, at which trunks are cut."""
        parts: list[Array] = []
        for events in trunks:  # the part before a part stands before it in the list
            cuts = (np.flatnonzero(is_joint[events[1:-1]]) + 1).tolist()
            ends = zip([0, *cuts], [*cuts, len(events) - 1], strict=True)
            parts += reversed([events[low : high + 1] for low, high in ends])
        sums: list[list[_Sums]] = [[] for _ in parts]
        for number, found in self._sums(parts):
            sums[number].append(found)
        edges, ties, times = self._events.edge, self._events.is_tie, self._events.time
        nodes: dict[int, PathNode] = {}
        for part, of_part in zip(parts, sums, strict=True):
            first, last = int(part[0]), int(part[-1])
            before = known.get(last) or nodes.get(last)
            said = edges[part[:-1]]
            said = said[said > 0]
            n_ties = int(ties[part if before is None else part[:-1]].sum())
            edge = int(said[-1]) if len(said) else 0
            nodes.setdefault(first, PathNode(before, of_part, edge, n_ties, int(times[last])))
        return nodes

    def _sums(self, parts: list[Array]) -> Iterator[tuple[int, _Sums]]:
        if not parts:
            return
        labels, texts, size = self._labels, self._texts.strings, len(self._labels)
        for pieces in self._walk.pieces(*parts):
            plain, at_memory = self._beyond(pieces)
            kinds, number = numbered((pieces.path * size + pieces.label) * len(VIA) + pieces.edge)
            columns = [np.zeros(len(kinds), np.int64) for _ in range(3)]
            for column, values in zip(columns, (pieces.end_ps - pieces.start_ps, plain, at_memory), strict=True):
                np.add.at(column, number, values)
            counts = np.bincount(number, minlength=len(kinds))
            path, label = np.divmod(kinds // len(VIA), size)
            of_texts = [each(label).tolist() for each in (labels.line, labels.block, labels.what)]
            rows = path, kinds % len(VIA), columns[0], counts, columns[1], columns[2]
            for line, block, what, of_path, *totals in zip(*of_texts, *(row.tolist() for row in rows), strict=True):
                yield of_path, _Sums((texts[line], texts[block], texts[what]), *totals)

    def _beyond(self, pieces: Pieces) -> tuple[Array, Array]:
        """Picoseconds of *pieces* beyond the work of commands (`work_beside`): with any edge, and with "memory"."""
        labels, texts, ps = self._labels, self._texts, pieces.end_ps - pieces.start_ps
        plain = np.where(pieces.pe < 0, ps, 0)
        is_bytes = labels.what(pieces.label) == texts.number("bytes")
        is_bytes &= labels.block(pieces.label) != texts.number("links")
        held, at_memory = np.flatnonzero(is_bytes), plain.copy()
        counted = self._transfers.lengths("memory_bytes_ps", self._transfers.of_op[pieces.op[held]])
        at_memory[held] = np.maximum(ps[held] - counted, 0)
        return plain, at_memory
