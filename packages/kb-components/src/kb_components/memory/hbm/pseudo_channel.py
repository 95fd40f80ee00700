"""A pseudo-channel of an HBM: rows, banks, the data bus, and the distances between commands.

A request is a RequestPart for each pseudo-channel. The outcome of a part on an idle channel is kept, and applied again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kb_components.memory.hbm.access_pattern import Run, Stretch
from kb_components.memory.hbm.timing import RefreshClock, Timing

_LONG_AGO = -(1 << 62)
_MOST_OUTCOMES = 64


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


class PseudoChannel:
    """Serves requests in order of arrival, and the bursts of a request in order of their addresses.

    Column commands are in order, at least tCCD apart. A row is opened as soon as its request is there and its bank,
    tRRD and tFAW allow, even if earlier bursts are still to be read. So rows of other banks open while the bytes of
    this bank move. All times are in active cycles (RefreshClock). `last` is the last column command so far. A refresh
    between two requests closes all rows. A refresh within a request delays the rest of the request and leaves rows
    open. Of all bursts, `written` were writes.
    """

    __slots__ = (
        "_activated_group",
        "_activates",
        "_closed_at",
        "_last_group",
        "_last_write",
        "_per_group",
        "_precharge_from",
        "_refresh",
        "_rows",
        "_timing",
        "closed",
        "hits",
        "last",
        "misses",
        "refreshes",
        "turnarounds",
        "written",
    )

    def __init__(self, timing: Timing, refresh: RefreshClock, n_banks: int, banks_per_group: int) -> None:
        self._timing = timing
        self._refresh = refresh
        self._per_group = banks_per_group
        self._rows = [-1] * n_banks
        self._precharge_from = [_LONG_AGO] * n_banks
        self._closed_at = [_LONG_AGO] * n_banks
        self._activates = [_LONG_AGO] * 4
        self._activated_group = 0
        self.last = _LONG_AGO
        self._last_group = 0
        self._last_write = False
        self.hits = self.closed = self.misses = self.turnarounds = self.refreshes = self.written = 0

    def serve(self, arrival: int, part: RequestPart, row: int, last_byte: int, write: bool) -> tuple[int, int]:
        """The cycles at which the first and the last column command of a request are sent.

        The rows of *part* count from *row*. The last command is not sent before *last_byte*.
        """
        arrival, start = self._begin(arrival, part.runs[0].stretch.first_group, write)
        to_precharge = self._timing.write_to_precharge if write else self._timing.read_to_precharge
        key = self._idle_state(part, row, arrival, write) if start == arrival else None
        outcome = part.outcomes.get(key) if key is not None else None
        if outcome is not None:
            first = self._recall(outcome, row, arrival)
        else:
            counts = self.hits, self.closed, self.misses
            first = self._serve_runs(part, row, arrival, start, to_precharge)
            if key is not None and len(part.outcomes) < _MOST_OUTCOMES:
                part.outcomes[key] = self._outcome(part, row, arrival, first, counts)
        if self.last < last_byte:
            self.last = last_byte
            bank = part.last_bank
            self._precharge_from[bank] = max(self._precharge_from[bank], last_byte + to_precharge)
        self._last_write = write
        self.written += write and part.n_bursts
        self.refreshes = self._refresh.count(self.last)
        if self._timing.closes:
            self._close(part)
        return first, self.last

    def soonest(self, now: int, part: RequestPart, row: int, write: bool) -> int:
        """The cycle at which the first column command of *part* can be sent, if it is chosen *now*. Nothing changes.

        A refresh is left out of account.
        """
        run, timing, activates = part.runs[0], self._timing, self._activates
        start = now
        if self.last != _LONG_AGO:
            start = max(now, self.last + self._distance(run.stretch.first_group, write))
        bank, row_up, *_ = run.stretch.visits[0]
        if self._rows[bank] == row + run.row + row_up:
            return start
        if self._rows[bank] < 0:
            at = max(now, self._closed_at[bank])
        else:
            # Another row is open: the bank has to precharge first.
            at = max(now, self._precharge_from[bank]) + timing.rp
        near = bank // self._per_group == self._activated_group
        at = max(at, activates[3] + (timing.rrd_l if near else timing.rrd_s), activates[0] + timing.faw)
        return max(start, at + timing.rcd)

    def _serve_runs(self, part: RequestPart, row: int, arrival: int, start: int, to_precharge: int) -> int:
        """Serves the runs in order. Returns the first column command."""
        first = self._run(part.runs[0], row, arrival, start, to_precharge)
        for run in part.runs[1:]:
            self._run(run, row, arrival, self._next(run.stretch), to_precharge)
        return first

    def _idle_state(self, part: RequestPart, row: int, arrival: int, write: bool) -> tuple[int, ...] | None:
        """The state that decides the outcome of *part*, or None when *part* has to wait for earlier commands."""
        timing, activated = self._timing, self._activates[3]
        if activated + max(timing.rrd_s, timing.rrd_l, timing.faw) > arrival:
            return None
        rows, precharge_from, closed_at = self._rows, self._precharge_from, self._closed_at
        state = [int(write)]
        for bank, first_row in part.first_rows:
            found = rows[bank]
            if (closed_at[bank] if found < 0 else precharge_from[bank]) > arrival:
                return None
            state.append(0 if found < 0 else 1 if found == row + first_row else 2)
        return tuple(state)

    def _outcome(
        self, part: RequestPart, row: int, arrival: int, first: int, counts: tuple[int, int, int]
    ) -> PartOutcome:
        """The outcome of the part that was just served, relative to *row* and *arrival*. *counts* precede it."""
        closed, misses = self.closed - counts[1], self.misses - counts[2]
        n_activates = min(4, closed + misses)
        return PartOutcome(
            first=first - arrival,
            last=self.last - arrival,
            last_group=self._last_group,
            hits=self.hits - counts[0],
            closed=closed,
            misses=misses,
            banks=tuple(
                (bank, self._rows[bank] - row, self._precharge_from[bank] - arrival) for bank, _ in part.first_rows
            ),
            activates=tuple(at - arrival for at in self._activates[4 - n_activates :]),
            activated_group=self._activated_group,
        )

    def _recall(self, outcome: PartOutcome, row: int, arrival: int) -> int:
        """Applies a known outcome at *row* and *arrival*. Returns the first column command."""
        for bank, row_up, precharge_from in outcome.banks:
            self._rows[bank] = row + row_up
            self._precharge_from[bank] = arrival + precharge_from
        if outcome.activates:
            self._activates = [*self._activates, *(arrival + at for at in outcome.activates)][-4:]
            self._activated_group = outcome.activated_group
        self.last, self._last_group = arrival + outcome.last, outcome.last_group
        self.hits += outcome.hits
        self.closed += outcome.closed
        self.misses += outcome.misses
        return arrival + outcome.first

    def _begin(self, arrival: int, group: int, write: bool) -> tuple[int, int]:
        """The earliest times to open rows for a request and to send its first column command."""
        start = arrival
        if self.last != _LONG_AGO:
            self.turnarounds += write != self._last_write
            start = max(arrival, self.last + self._distance(group, write))
        refreshes = self._refresh.count(start)
        if refreshes > self.refreshes:
            arrival = max(arrival, self._refresh.after(refreshes))
            # A refresh closes all rows (-1), and ends after every distance that activates would still ask for.
            self._rows = [-1] * len(self._rows)
            self._closed_at = [_LONG_AGO] * len(self._rows)
            self._activates = [_LONG_AGO] * 4
        return arrival, start

    def _distance(self, group: int, write: bool) -> int:
        """The cycles from the last column command to a column command in *group*."""
        timing, same = self._timing, group == self._last_group
        if write == self._last_write:
            return timing.ccd_l if same else timing.ccd_s
        if write:
            return timing.read_to_write
        return timing.write_to_read_l if same else timing.write_to_read_s

    def _next(self, stretch: Stretch) -> int:
        """The earliest time for the first column command of the next stretch of a request."""
        return self.last + (self._timing.ccd_l if stretch.first_group == self._last_group else self._timing.ccd_s)

    def _run(self, run: Run, row: int, arrival: int, start: int, to_precharge: int) -> int:
        """Serves every repetition of a stretch. Returns the first column command."""
        row += run.row
        first = self._walk(run.stretch, row, arrival, start, to_precharge)
        if run.repeat > 1:
            self._repeat(run, row, arrival, to_precharge)
        return first

    def _repeat(self, run: Run, row: int, arrival: int, to_precharge: int) -> None:
        """Serves the repetitions after the first, up to the steady state.

        Once a repetition ends in the bank state of the one before, shifted in time and rows, all later repetitions do
        the same, so they are skipped in closed form.
        """
        stretch = run.stretch
        state = self._state(stretch, row)
        for left in range(run.repeat - 2, -1, -1):
            last, counts = self.last, (self.hits, self.closed, self.misses)
            row += run.row_step
            self._walk(stretch, row, arrival, self._next(stretch), to_precharge)
            before, state = state, self._state(stretch, row)
            # The same state again: every repetition that is left takes as long as this one.
            if state == before:
                self._skip(stretch, left * run.row_step, left * (self.last - last))
                self.hits += left * (self.hits - counts[0])
                self.closed += left * (self.closed - counts[1])
                self.misses += left * (self.misses - counts[2])
                return

    def _walk(self, stretch: Stretch, row: int, arrival: int, start: int, to_precharge: int) -> int:
        """Serves one stretch, visit by visit. Returns the first column command, which is at *start* or later.

        Column commands of a visit follow each other at tCCD, so a row that opens late only moves `start`.
        """
        rows, precharge_from = self._rows, self._precharge_from
        first: int | None = None
        opened = 0
        for bank, row_up, cycles, leaves in stretch.visits:
            if rows[bank] != row + row_up:
                opened += 1
                ready = self._open(bank, row + row_up, arrival) - cycles
                if ready > start:
                    start = ready
            if first is None:
                first = start
            for left, until in leaves:
                until += start + to_precharge
                if until > precharge_from[left]:
                    precharge_from[left] = until
        self.hits += stretch.n_bursts - opened
        self.last = start + stretch.length
        self._last_group = stretch.last_group
        assert first is not None
        return first

    def _open(self, bank: int, row: int, arrival: int) -> int:
        """Opens *row* as early as possible. Returns the earliest time for its first column command."""
        timing, activates = self._timing, self._activates
        if self._rows[bank] < 0:
            at = max(arrival, self._closed_at[bank])
            self.closed += 1
        else:
            at = max(arrival, self._precharge_from[bank]) + timing.rp
            if timing.closes:
                self.closed += 1
            else:
                self.misses += 1
        group = bank // self._per_group
        at = max(
            at,
            activates[3] + (timing.rrd_l if group == self._activated_group else timing.rrd_s),
            activates[0] + timing.faw,
        )
        # The last four activates are kept, because tFAW bounds the time of any five.
        self._activates = [*activates[1:], at]
        self._activated_group = group
        self._rows[bank] = row
        self._precharge_from[bank] = at + timing.ras
        return at + timing.rcd

    def _state(self, stretch: Stretch, row: int) -> list[int]:
        """The state that decides the time of the next stretch, relative to its *row* and to the last column command."""
        last, rows, precharge_from = self.last, self._rows, self._precharge_from
        state = [each - last for each in self._activates]
        state.append(self._activated_group)
        for bank in stretch.banks:
            state.append(rows[bank] - row)
            state.append(precharge_from[bank] - last)
        return state

    def _skip(self, stretch: Stretch, row_step: int, cycles: int) -> None:
        """Advances time by *cycles* and the banks of *stretch* by *row_step* rows."""
        self.last += cycles
        self._activates = [each + cycles for each in self._activates]
        for bank in stretch.banks:
            self._rows[bank] += row_step
            self._precharge_from[bank] += cycles

    def _close(self, part: RequestPart) -> None:
        """Applies the closed page policy: a request closes the rows that it opened when it ends."""
        for bank, _ in part.first_rows:
            self._rows[bank] = -1
            self._closed_at[bank] = self._precharge_from[bank] + self._timing.rp
