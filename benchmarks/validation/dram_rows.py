"""Measured rows of memories, simulated on the topologies of their devices."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import measured
import stated_bands
import traffic
from measured import Comparison, MeasuredRow

from kb_topology import load_topology

LATENCY: Final = "dram_idle_latency"
THROUGHPUT: Final = "dram_throughput"
TESTS: Final = (LATENCY, THROUGHPUT)
PAGES: Final = {
    "hit": traffic.latency_hit_ns,
    "closed": traffic.latency_closed_ns,
    "miss": traffic.latency_miss_ns,
}
CYCLES: Final = re.compile(r"cycles at ([0-9.]+) ([MG])Hz")
N_READS: Final = 32 << 10


class DramDevice(NamedTuple):
    """The topology of a device, the largest p90, and the most fitted numbers."""

    topology: Path
    p90: float
    most_fitted: int


DEVICES: Final = {
    "u280_hbm2": DramDevice(traffic.U280, 0.05, 1),
    "u50_hbm2": DramDevice(measured.TOPOLOGIES / "u50_hbm.yaml", 0.10, 0),
    "u280_ddr4": DramDevice(measured.TOPOLOGIES / "ddr4_u280.yaml", 0.05, 1),
}


def check(row: MeasuredRow) -> None:
    """Raise ValueError unless *row* is one that `simulate` knows."""
    where = f"a row of {row.device} with {row.params}"
    if row.device not in DEVICES:
        raise ValueError(f"rows of {row.device}, needs {', '.join(DEVICES)}")
    if row.test == LATENCY:
        if set(row.params) != {"page"} or row.params["page"] not in PAGES:
            raise ValueError(f"{where}, needs page={'|'.join(PAGES)}")
        if row.unit != "ns" and CYCLES.fullmatch(row.unit) is None:
            raise ValueError(f"{where} in {row.unit!r}, and not in 'ns' or 'cycles at N MHz'")
        return
    sizes = {name: int(value) for name, value in row.params.items() if value.isdecimal()}
    if set(sizes) != {"stride", "nbytes", "working_set"} or len(sizes) != len(row.params):
        raise ValueError(f"{where}, needs stride, nbytes and working_set in bytes")
    if not 0 < sizes["nbytes"] <= sizes["stride"] < sizes["working_set"]:
        raise ValueError(f"{where}, needs nbytes up to the stride, and a stride below the working set")
    if row.unit != "GB/s":
        raise ValueError(f"{where} in {row.unit!r}, and not in 'GB/s'")


def simulate(row: MeasuredRow) -> Comparison:
    """Read as *row* says, one burst at a time for a latency, 64 reads at once for a throughput of one channel."""
    began, chip = time.perf_counter(), DEVICES[row.device].topology
    if row.test == LATENCY:
        value = PAGES[row.params["page"]](chip)
        cycles = CYCLES.fullmatch(row.unit)
        if cycles is not None:
            value *= float(cycles[1]) * (1.0 if cycles[2] == "G" else 0.001)
    else:
        stride, nbytes, working_set = (int(row.params[name]) for name in ("stride", "nbytes", "working_set"))
        value = traffic.throughput_gbs(stride, nbytes, working_set, N_READS, chip=chip)
    return Comparison(row, value, time.perf_counter() - began)


def explain(comparison: Comparison) -> str:
    """The latencies of the memory's pages, or the memory's counts of the row's reads, in words."""
    row, chip = comparison.row, DEVICES[comparison.row.device].topology
    if row.test == LATENCY:
        hit, closed, miss = (latency(chip) for latency in PAGES.values())
        return (
            f"hit {hit:.1f} ns, opening a row {closed - hit:.1f} more, closing another first {miss - closed:.1f} more"
        )
    stride, nbytes, working_set = (int(row.params[name]) for name in ("stride", "nbytes", "working_set"))
    port = traffic.Port(chip=chip)
    port.read((number * stride % working_set for number in range(N_READS)), nbytes, traffic.OUTSTANDING)
    memory = port.memory
    bursts = memory.row_hits + memory.row_closed + memory.row_misses
    shares = ", ".join(
        f"{name} {100 * number / bursts:.0f} %"
        for name, number in (("hits", memory.row_hits), ("closed", memory.row_closed), ("misses", memory.row_misses))
    )
    return f"of the bursts, {shares}; {memory.refreshes} refreshes; the bus has {port.spec.bw_gbs:.1f} GB/s"


def validate(device: str, comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """The summary of the *comparisons* of *device*."""
    target = DEVICES[device]
    summary = measured.p90_summary(device, comparisons, target.topology, target.p90, target.most_fitted)
    return stated_bands.with_band(summary, stated_bands.of_part(load_topology(target.topology), comparisons))
