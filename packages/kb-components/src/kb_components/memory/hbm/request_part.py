"""One pseudo-channel's part of a request, and what such a part did to a channel that had nothing left to wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kb_components.memory.hbm.access_pattern import Run


class Outcome(NamedTuple):
    """What a request did, in cycles after its arrival and rows above its own.

    `banks` are (bank, row, precharge not before); `activates` the last of its activates, at most four.
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


class Part:
    """The runs of one pseudo-channel, the first row that each bank is asked for, and known outcomes.

    Outcomes are kept by the direction and by what each bank holds: nothing, the row asked for, or another one.
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
        self.outcomes: dict[tuple[int, ...], Outcome] = {}
