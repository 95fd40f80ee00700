"""Reads of one pseudo-channel through the engine's fabric: one at a time for latency, many for throughput."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path

from kb_engine import Engine
from kb_messages import Rectangle
from kb_topology import loads_topology

U280 = Path(__file__).parents[2] / "topologies" / "u280_hbm.yaml"
DEFAULT_MAPPING = "14R-1BG-2B-5C-1BG"
CHANNEL_NBYTES = 256 << 20
OUTSTANDING = 64
AXI_NBYTES = 32


class Port:
    """The DMA of PE 0 and the pseudo-channel behind its AXI port, in a new chip."""

    def __init__(self, mapping: str = DEFAULT_MAPPING) -> None:
        text = U280.read_text()
        assert text.count(f"mapping: {DEFAULT_MAPPING}\n") == 1
        engine = Engine(
            loads_topology(text.replace(f"mapping: {DEFAULT_MAPPING}\n", f"mapping: {mapping}\n"), str(U280))
        )
        region = engine.topology.address_map.region_of_node("sip0.cube0.hbm0")
        self._clock, self._fabric, self._base = engine.clock, engine.fabric, region.base
        self._path = engine.fabric.path("sip0.cube0.pe0.pe_dma", region.owner)
        self._asked: Iterator[tuple[int, int]] = iter(())
        self.latencies_ps: list[int] = []

    def read(self, addresses: Iterable[int], nbytes: int, outstanding: int) -> int:
        """Read *nbytes* at each address, *outstanding* reads at once.

        Returns picoseconds from the first request to the last byte.
        """
        self._asked = ((address, nbytes) for address in addresses)
        begin = self._clock.now
        for _ in range(outstanding):
            self._next()
        self._clock.drain()
        return self._clock.now - begin

    def _next(self) -> None:
        for address, nbytes in self._asked:
            memory = Rectangle(self._base + address, 1, nbytes, nbytes)
            self._fabric.read(self._path, memory, self._clock.now, self._done, self._clock.now)
            return

    def _done(self, start_ps: int) -> None:
        self.latencies_ps.append(self._clock.now - start_ps)
        self._next()


def idle_latency_ns(addresses: Iterable[int]) -> float:
    """The most frequent latency of reads of 32 bytes, one at a time. A few reads take longer, because of a refresh."""
    port = Port()
    port.read(addresses, AXI_NBYTES, 1)
    return statistics.mode(port.latencies_ps) / 1000


def latency_hit_ns() -> float:
    """Reads along one row: 32 columns, every other burst of 2 KiB, eight times."""
    return idle_latency_ns([column * 64 for _ in range(8) for column in range(32)])


def latency_closed_ns() -> float:
    """One read in each of 16 unused banks. One bank bit is at 32 bytes, the other three from 2 KiB."""
    return idle_latency_ns([bank * 2048 + group * 32 for bank in range(8) for group in range(2)])


def latency_miss_ns() -> float:
    """Reads of one bank, each in the next row. Rows are 16 KiB apart."""
    return idle_latency_ns([row << 14 for row in range(256)])


def throughput_gbs(stride: int, nbytes: int, working_set: int, n_reads: int, mapping: str = DEFAULT_MAPPING) -> float:
    """GB/s of reads of *nbytes*, *stride* bytes apart, 64 at once. Addresses start again after *working_set* bytes."""
    port = Port(mapping)
    took = port.read((number * stride % working_set for number in range(n_reads)), nbytes, OUTSTANDING)
    return n_reads * nbytes * 1000 / took
