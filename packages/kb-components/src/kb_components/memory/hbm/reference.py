"""The reference model of the banked HBM, burst by burst: slow and plain.

`builtin.hbm_banked` has to agree with it to the picosecond. The two share attributes and their conversion to cycles
(Timing). Mapping, grouping, repetition and refresh arithmetic are written twice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from fractions import Fraction

from kb_components.memory.hbm.timing import HbmBankedSpec, Timing
from kb_engine.block import exact, ps_from_ns
from kb_messages import Rectangle

_NEVER = -(10**30)


class ReferenceHbm:
    """Has the same `reserve` as HbmBanked. Inner times are active cycles.

    `counts` has hits, closed, misses and turnarounds.
    """

    def __init__(self, spec: HbmBankedSpec) -> None:
        self._spec = spec
        self._timing = Timing(spec)
        self._cycle_ps = Fraction(1_000_000) / exact(spec.clock_mhz)
        self._channels: dict[int, _Channel] = {}
        self._known: dict[int, dict[str, int]] = {}
        self.counts = dict.fromkeys(("hits", "closed", "misses", "turnarounds"), 0)

    def reserve(self, t_ps: int, memory: Rectangle, last_byte_ps: int, write: bool) -> tuple[int, int]:
        """Serves every burst of *memory* in the order of its rows and addresses."""
        arrival, last_byte = self._active(t_ps), self._active(last_byte_ps)
        asked: dict[int, list[tuple[int, int, int]]] = {}
        for burst in self._bursts(memory):
            fields = self._known.get(burst) or self._known.setdefault(burst, self._fields(burst))
            asked.setdefault(fields["PC"], []).append((fields["BG"], fields["B"], fields["R"]))
        firsts, lasts = [], []
        for number, bursts in asked.items():
            channel = self._channels.setdefault(number, _Channel(self))
            commands = channel.serve(arrival, bursts, last_byte, write)
            firsts.append(self._wall(commands[0]))
            lasts.append(self._wall(commands[-1]))
        spec, latency = self._spec, ps_from_ns(self._spec.latency_ns)
        if write:
            end = self._ps(max(lasts) + spec.wl_cycles + spec.tccd_s_cycles) + latency
            return end, end
        first, last = min(firsts) + spec.rl_cycles, max(lasts) + spec.rl_cycles + spec.tccd_s_cycles
        return self._ps(first) + latency, self._ps(last) + latency

    def refreshes_before(self, active: int) -> int:
        """The number of refreshes that are over at an active cycle, counted one by one."""
        count = 0
        while self._timing.refi and active >= self.begin_after(count + 1):
            count += 1
        return count

    def begin_after(self, count: int) -> int:
        """The first active cycle after *count* refreshes."""
        return count * self._timing.refi - (count - 1) * self._timing.rfc

    def _bursts(self, memory: Rectangle) -> Iterator[int]:
        nbytes, rows, row_nbytes = self._spec.burst_nbytes, memory.rows, memory.row_nbytes
        if memory.stride == row_nbytes:
            rows, row_nbytes = 1, rows * row_nbytes
        for row in range(rows):
            base = memory.base + row * memory.stride
            yield from range(base // nbytes, (base + row_nbytes - 1) // nbytes + 1)

    def _fields(self, burst: int) -> dict[str, int]:
        """The fields of a burst number, taken bit by bit from the lowest part of the mapping up."""
        found = {"PC": 0, "BG": 0, "B": 0, "R": 0, "C": 0}
        filled = dict.fromkeys(found, 0)
        for bits, name in reversed(re.findall(r"(\d+)([A-Z]+)", self._spec.mapping)):
            for _ in range(int(bits)):
                found[name] += (burst & 1) << filled[name]
                filled[name] += 1
                burst >>= 1
        return found

    def _active(self, t_ps: int) -> int:
        """The first active cycle at or after *t_ps*: its wall cycle without the cycles of earlier refreshes."""
        wall = math.ceil(t_ps / self._cycle_ps)
        lost, due = 0, self._timing.refi
        while due and due <= wall:
            wall = max(wall, due + self._timing.rfc)
            lost, due = lost + self._timing.rfc, due + self._timing.refi
        return wall - lost

    def _wall(self, active: int) -> int:
        return active + self.refreshes_before(active) * self._timing.rfc

    def _ps(self, wall: int) -> int:
        return math.ceil(wall * self._cycle_ps)


class _Channel:
    """A pseudo-channel, one column command after another."""

    def __init__(self, memory: ReferenceHbm) -> None:
        self._memory = memory
        self._timing = memory._timing
        self._rows: dict[tuple[int, int], int] = {}
        self._precharge: dict[tuple[int, int], int] = {}
        self._closed: dict[tuple[int, int], int] = {}
        self._activates: list[tuple[int, int]] = []
        self._last: tuple[int, int, bool] | None = None
        self._refreshes = 0

    def serve(self, arrival: int, bursts: list[tuple[int, int, int]], last_byte: int, write: bool) -> list[int]:
        """The times of the column commands of *bursts*, which are (group, bank, row)."""
        timing, commands = self._timing, []
        after = timing.write_to_precharge if write else timing.read_to_precharge
        for number, (group, bank, row) in enumerate(bursts):
            at = max(arrival, self._after_last(group, write))
            if number == 0:
                arrival = self._refresh(arrival, at)
            at = max(at, self._opened(arrival, (group, bank), row))
            if number == len(bursts) - 1:
                at = max(at, last_byte)
            self._last = at, group, write
            self._precharge[group, bank] = max(self._precharge[group, bank], at + after)
            commands.append(at)
        self._refreshes = self._memory.refreshes_before(commands[-1])
        if timing.closes:
            for key in {(group, bank) for group, bank, _ in bursts}:
                del self._rows[key]
                self._closed[key] = self._precharge[key] + timing.rp
        return commands

    def _after_last(self, group: int, write: bool) -> int:
        """The earliest column command that the data bus allows."""
        if self._last is None:
            return _NEVER
        at, last_group, written = self._last
        timing, same = self._timing, group == last_group
        if written == write:
            return at + (timing.ccd_l if same else timing.ccd_s)
        self._memory.counts["turnarounds"] += 1
        if write:
            return at + timing.read_to_write
        return at + (timing.write_to_read_l if same else timing.write_to_read_s)

    def _refresh(self, arrival: int, first: int) -> int:
        """Closes all rows when there was a refresh since the last request. Returns the new arrival."""
        refreshes = self._memory.refreshes_before(first)
        if refreshes == self._refreshes:
            return arrival
        self._rows.clear()
        self._closed.clear()
        self._activates.clear()
        return max(arrival, self._memory.begin_after(refreshes))

    def _opened(self, arrival: int, key: tuple[int, int], row: int) -> int:
        """The earliest column command that the bank allows. Opens *row* unless it is open."""
        timing, counts, found = self._timing, self._memory.counts, self._rows.get(key)
        if found == row:
            counts["hits"] += 1
            return _NEVER
        if found is None:
            counts["closed"] += 1
            at = max(arrival, self._closed.get(key, _NEVER))
        else:
            counts["closed" if timing.closes else "misses"] += 1
            at = max(arrival, self._precharge[key]) + timing.rp
        if self._activates:
            before, group = self._activates[-1]
            at = max(at, before + (timing.rrd_l if group == key[0] else timing.rrd_s))
        if len(self._activates) >= 4:
            at = max(at, self._activates[-4][0] + timing.faw)
        self._activates.append((at, key[0]))
        self._rows[key] = row
        self._precharge[key] = at + timing.ras
        return at + timing.rcd
