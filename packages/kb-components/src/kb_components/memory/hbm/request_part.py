"""The part of a request that one pseudo-channel serves, and the known outcomes of such parts on an idle channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kb_components.memory.hbm.access_pattern import Run


class PartOutcome(NamedTuple):
    """The effect of a part on its channel, in cycles after the arrival and in rows above the row of the part.

    `banks` are (bank, row, earliest precharge), and `activates` the last activates, at most four.
    """

    first: int
    last: int
    last_group: int
    hits: int
    closed: int
    misses: int
    banks: tuple[tuple[int, int, int], ...]
    activates: tuple[int, ...]
    activated_group: int


class RequestPart:
    """The runs of one pseudo-channel, the first row that each bank has to open, and known outcomes.

    The key of an outcome is the direction and the state of each bank: closed, with the first row open, or with another.
    """

    __slots__ = ("channel", "first_rows", "last_bank", "n_bursts", "outcomes", "runs")

    def __init__(self, channel: int, runs: Sequence[Run]) -> None:
        self.channel = channel
        self.runs = runs
        first_rows: dict[int, int] = {}
        for run in runs:
            for bank, row, *_ in run.stretch.visits:
                first_rows.setdefault(bank, run.row + row)
        self.first_rows = tuple(first_rows.items())
        self.last_bank = runs[-1].stretch.last_bank
        self.n_bursts = sum(run.repeat * run.stretch.n_bursts for run in runs)
        self.outcomes: dict[tuple[int, ...], PartOutcome] = {}
