"""RunTables: the further tables of the op log, which say why records began when they did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final

import numpy as np

from kb_engine.block.in_flight import CommandInFlight
from kb_engine.observe.chip import Chip
from kb_engine.observe.group_texts import Ints
from kb_engine.observe.int64s import int64s
from kb_engine.observe.observer import Rows
from kb_engine.observe.repeated import repeated
from kb_engine.observe.row_order import RowOrder
from kb_engine.timing.clock import Clock
from kb_messages import LOG_TABLES, MemorySpace
from kb_topology import NodeKind, Topology

_DTYPES: Final = {name: np.dtype(list(schema.columns)) for name, schema in LOG_TABLES.items()}

_N_DISPATCH: Final = len(LOG_TABLES["dispatches"].columns)
_N_TRANSFER: Final = 1 + len(LOG_TABLES["transfers"].columns)
"""Numbers of a row. A row of `transfers` has the moment at which it is known in front."""
_COMMAND_NUMBERS: Final = {
    "command_seq": "submitted.command_seq",
    "n_tiles": "shared_plan.n_tiles",
    "first_op_id": "first_op",
    "n_ops": "shared_plan.n_stages",
    **{name: name for name in LOG_TABLES["commands"].ascending},
    **{name: name for name in ("after_seq", "after", "operand_seq", "operand_ps")},
}
"""The columns of `commands` that are numbers, and where a command in flight has them."""
_numbers_of: Final = attrgetter(*_COMMAND_NUMBERS.values())


class RunTables:
    """Collects what happened to programs, their commands and their tiles, and makes tables of it.

    `tile_waited` takes the three numbers of a row of `dispatches`, and `transferred` the ten of a row of `transfers`.
    The first is a list's own method, which costs little. *intern* gives the number of a text in the log.
    """

    def __init__(self, intern: Callable[[str], int]) -> None:
        self._intern = intern
        self._dispatches: list[int] = []
        self._kernels: list[tuple[str, tuple[int, ...]]] = []
        self._messages: list[tuple[tuple[str, str], tuple[int, ...]]] = []
        self.tile_waited: Callable[[Iterable[int]], None] = self._dispatches.extend
        self._transfers: list[int] = []
        self._clock: Clock

    def restart(self, intern: Callable[[str], int]) -> None:
        """Forget what was collected. From now on *intern* gives the numbers of texts, in another log."""
        self._intern = intern
        for rows in (self._dispatches, self._kernels, self._messages, self._transfers):
            rows.clear()

    def number_of(self, text: str) -> int:
        """The number of *text* in the log."""
        return self._intern(text)

    def mark(self) -> tuple[int, int]:
        """How far the dispatches and the transfers have come."""
        return len(self._dispatches), len(self._transfers)

    def repeat(self, mark: Sequence[int], n: int, ps: int, ops: int) -> None:
        """*n* times more what was collected since *mark*, *ps* picoseconds and *ops* ops later each time."""
        dispatches, transfers = mark
        self._dispatches += repeated(self._dispatches[dispatches:], 3, n, {0: ops, 1: ps, 2: ps})
        steps = {0: ps, 1: ops, **dict.fromkeys(range(3, 8), ps), 10: ops}
        self._transfers += repeated(self._transfers[transfers:], _N_TRANSFER, n, steps, absent=-1)

    def kernel_ended(self, pe: str, numbers: tuple[int, int, int, int, int]) -> None:
        """The program on *pe* ended. *numbers* are its launch and the four times of a row of `kernels`."""
        self._kernels.append((pe, numbers))

    def message_arrived(self, way: tuple[str, str], numbers: tuple[int, int, int, int]) -> None:
        """A message of a launch arrived. *way* is (from, to); *numbers* are launch, kind and the two times."""
        self._messages.append((way, numbers))

    def transferred(self, row: Iterable[int]) -> None:
        """The end of a transfer is known now."""
        self._transfers.append(self._clock.now_ps)
        self._transfers += row

    def cut(self, mark: tuple[int, ...]) -> tuple[Ints, Ints]:
        """Take out the rows of `dispatches` and `transfers` since *mark*, the latter with their moments in front."""
        found = _rows(self._dispatches[mark[0] :], _N_DISPATCH), _rows(self._transfers[mark[1] :], _N_TRANSFER)
        del self._dispatches[mark[0] :], self._transfers[mark[1] :]
        return found

    def expect(self, dispatches: Iterable[int], transfers: Iterable[int]) -> None:
        """These rows will come, at the times that they have."""
        self._dispatches += dispatches
        self._transfers += transfers

    def drop(self, ops: range) -> None:
        """Forget the rows of *ops* that are not written."""
        for flat, width, op_id in ((self._dispatches, _N_DISPATCH, 0), (self._transfers, _N_TRANSFER, 1)):
            rows = _rows(flat, width)
            is_mine = (rows[:, op_id] >= ops.start) & (rows[:, op_id] < ops.stop)
            flat[:] = rows[~is_mine].ravel().tolist()

    def drop_written(self, mark: tuple[int, ...], before_ps: int) -> None:
        """Forget the rows since *mark* that came before *before_ps*: they are written already."""
        for flat, width, start, time in (
            (self._dispatches, _N_DISPATCH, mark[0], 2),
            (self._transfers, _N_TRANSFER, mark[1], 0),
        ):
            rows = _rows(flat[start:], width)
            flat[start:] = rows[rows[:, time] >= before_ps].ravel().tolist()

    def watch(self, chip: Chip) -> None:
        """The chip is finished."""
        self._clock = chip.clock
        self.name_nodes(chip.topology)

    def name_nodes(self, topology: Topology) -> None:
        """Enter the ids of PEs, processors and memories into the log: their numbers follow from the chip alone."""
        for pe_id in topology.graph.pe_ids:
            self._intern(pe_id)
        for region in topology.address_map.regions:
            if region.space is not MemorySpace.REG:
                self._intern(region.node_id)
        for kind in (NodeKind.HOST, NodeKind.IO_CPU, NodeKind.M_CPU, NodeKind.PE_CPU):
            for node in topology.graph.nodes_of_kind(kind):
                self._intern(node.id)

    def take(self, finished: Sequence[CommandInFlight], order: RowOrder) -> dict[str, Rows]:
        """The rows of what was collected since the last call, and of the *finished* commands, by table.

        *order* says which rows of tiles and of transfers are taken now, and in which order. Raises LogError for a time
        that does not fit 64 bits.
        """
        intern = self._intern
        kernels, self._kernels = self._kernels, []
        messages, self._messages = self._messages, []
        columns = dict(zip(_COMMAND_NUMBERS, _columns(map(_numbers_of, finished), len(_COMMAND_NUMBERS)), strict=True))
        columns |= dict(zip(("pe", "line", "name"), _columns(self._texts_of(finished), 3), strict=True))
        dispatched = _take_in_order(self._dispatches, _N_DISPATCH, order, op_id=0, time=2)
        transferred = _take_in_order(self._transfers, _N_TRANSFER, order, op_id=1, time=0)
        launch, called, target, start, end = _columns((numbers for _, numbers in kernels), 5)
        of, kind, sent, arrived = _columns((numbers for _, numbers in messages), 4)
        (pe,) = _columns(([intern(pe)] for pe, _ in kernels), 1)
        src, dst = _columns(([intern(end) for end in way] for way, _ in messages), 2)
        return {
            "commands": _table("commands", [columns[name] for name, _ in LOG_TABLES["commands"].columns]),
            "dispatches": _table("dispatches", dispatched),
            "transfers": _table("transfers", transferred[1:]),
            "kernels": _table("kernels", [launch, pe, called, target, start, end]),
            "messages": _table("messages", [of, src, dst, kind, sent, arrived]),
        }

    def _texts_of(self, finished: Sequence[CommandInFlight]) -> Iterator[tuple[int, int, int]]:
        """The numbers of PE, line and name of each of the *finished* commands, many of which have the same ones."""
        intern = self._intern
        known: dict[tuple[str, str, str], tuple[int, int, int]] = {}
        for each in finished:
            submitted = each.submitted
            texts = submitted.pe, submitted.line, each.shared_plan.kind
            numbers = known.get(texts)
            if numbers is None:
                numbers = known[texts] = intern(texts[0]), intern(texts[1]), intern(texts[2])
            yield numbers


def _take_in_order(flat: list[int], width: int, order: RowOrder, op_id: int, time: int) -> list[Any]:
    """The columns of the rows in *flat* that are written now. The rows that are kept stay in *flat*.

    *op_id* and *time* are the numbers of the columns by which *order* sorts. The time is when the row came.
    """
    rows = _rows(flat, width)
    now, later = order.split(rows[:, op_id], rows[:, time])
    flat[:] = rows[later].ravel().tolist()
    return list(rows[now].T)


def _rows(flat: list[int], width: int) -> Ints:
    rows: Ints = np.frombuffer(int64s(flat), np.int64).reshape(-1, width)
    return rows


def _columns(rows: Iterable[Iterable[int]], width: int) -> Sequence[Rows]:
    """The columns of *rows*, which have *width* numbers each."""
    flat = int64s(chain.from_iterable(rows))
    return list(np.frombuffer(flat, np.int64).reshape(-1, width).T) if flat else [np.empty(0, np.int64)] * width


def _table(name: str, columns: Sequence[Rows]) -> Rows:
    table = np.empty(len(columns[0]), _DTYPES[name])
    for column, values in zip(table.dtype.names or (), columns, strict=True):
        table[column] = values
    return table
