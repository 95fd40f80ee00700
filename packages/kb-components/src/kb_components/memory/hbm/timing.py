"""DRAM timing in cycles of the memory controller."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from msgspec import Meta, Struct

from kb_components.cost_fields import clock_mhz, time_ns
from kb_components.memory.hbm.address_bits import PATTERN, address_mapping
from kb_engine.block import exact

Ns = Annotated[float, Meta(ge=0)]
Cycles = Annotated[int, Meta(ge=0)]


class HbmBankedSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Attributes of a banked HBM. Timings have the names of JEDEC JESD235, in ns or in cycles of `clock_mhz`.

    `clock_mhz` is the clock of the controller, which takes requests and sends commands at its edges. A burst of
    `burst_nbytes` holds the data bus for `tccd_s_cycles`. `trefi_ns: 0` means no refresh. `latency_ns` is the time from
    the port to the controller and back, and overlaps everything else. AddressMapping describes `mapping`. `page_policy`
    decides whether rows stay open after the request that used them.
    """

    clock_mhz: Annotated[float, clock_mhz(("hbm", "pe_dma: service"))]
    mapping: Annotated[str, Meta(pattern=f"^{PATTERN}$")]
    rl_cycles: Cycles
    wl_cycles: Cycles
    tccd_s_cycles: Annotated[int, Meta(ge=1)]
    tccd_l_cycles: Annotated[int, Meta(ge=1)]
    trtw_cycles: Cycles
    trcd_ns: Ns
    trp_ns: Ns
    tras_ns: Ns
    trrd_s_ns: Ns
    trrd_l_ns: Ns
    tfaw_ns: Ns
    trtp_ns: Ns
    twr_ns: Ns
    twtr_s_ns: Ns
    twtr_l_ns: Ns
    trefi_ns: Ns
    trfc_ns: Ns
    latency_ns: Annotated[float, time_ns(("hbm: latency", "hbm: service", "pe_dma: service"))]
    burst_nbytes: Annotated[int, Meta(ge=1)] = 32
    page_policy: Literal["open", "closed"] = "open"

    @property
    def bw_gbs(self) -> float:
        """GB/s of all data buses together, before refresh."""
        channels = address_mapping(self.mapping).n_channels
        return float(channels * self.burst_nbytes * exact(self.clock_mhz) / (1000 * self.tccd_s_cycles))


class Timing:
    """Least distances between commands in whole cycles. Minima are rounded up, tREFI, a maximum, down."""

    __slots__ = (
        "ccd_l",
        "ccd_s",
        "closes",
        "faw",
        "ras",
        "rcd",
        "read_to_precharge",
        "read_to_write",
        "refi",
        "rfc",
        "rp",
        "rrd_l",
        "rrd_s",
        "write_to_precharge",
        "write_to_read_l",
        "write_to_read_s",
    )

    def __init__(self, spec: HbmBankedSpec) -> None:
        def cycles(value_ns: float) -> int:
            return math.ceil(exact(value_ns) * exact(spec.clock_mhz) / 1000)

        written = spec.wl_cycles + spec.tccd_s_cycles
        self.ccd_s, self.ccd_l = spec.tccd_s_cycles, max(spec.tccd_s_cycles, spec.tccd_l_cycles)
        self.rcd, self.rp, self.ras = cycles(spec.trcd_ns), cycles(spec.trp_ns), cycles(spec.tras_ns)
        self.rrd_s, self.rrd_l, self.faw = cycles(spec.trrd_s_ns), cycles(spec.trrd_l_ns), cycles(spec.tfaw_ns)
        self.read_to_precharge = cycles(spec.trtp_ns)
        self.write_to_precharge = written + cycles(spec.twr_ns)
        self.read_to_write = max(spec.trtw_cycles, self.ccd_s)
        self.write_to_read_s, self.write_to_read_l = written + cycles(spec.twtr_s_ns), written + cycles(spec.twtr_l_ns)
        self.refi = math.floor(exact(spec.trefi_ns) * exact(spec.clock_mhz) / 1000)
        self.rfc = self.rp + cycles(spec.trfc_ns) if self.refi else 0
        self.closes = spec.page_policy == "closed"


class RefreshClock:
    """Maps cycles of the controller (wall) to cycles in which commands can be sent (active), and back.

    A refresh begins at every multiple of `interval` cycles except 0. It takes `duration` cycles, in which no command
    can be sent. `interval` 0 means no refresh.
    """

    __slots__ = ("_active", "_duration", "_interval")

    def __init__(self, interval: int, duration: int) -> None:
        self._interval = interval
        self._duration = duration
        self._active = interval - duration

    def active(self, wall: int) -> int:
        """The first active cycle at or after *wall*."""
        if not self._interval or wall < self._interval:
            return wall
        number, into = divmod(wall, self._interval)
        return number * self._active + (into if into > self._duration else self._duration)

    def count(self, active: int) -> int:
        """The number of refreshes before *active*."""
        if not self._interval or active < self._interval:
            return 0
        return (active - self._interval) // self._active + 1

    def wall(self, active: int) -> int:
        """The wall cycle of *active*."""
        return active + self.count(active) * self._duration

    def after(self, count: int) -> int:
        """The first active cycle after refresh number *count* (from 1 on)."""
        return self._interval + (count - 1) * self._active
