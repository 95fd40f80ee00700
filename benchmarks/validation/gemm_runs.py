"""A measured GEMM on the topology of its device: how long it takes there, and where its time goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple

import measured
from gemm_roofline import size_of
from library_gemm import FILE, Operands, empty_operands, grid_of, launch_gemm, suggest_cut, warm_caches
from measured import Comparison, MeasuredRow
from msgspec import structs
from wave_folding import launch_folded

from kb_cli.run.observe.bounded_by import bounded_by
from kb_dataexec import LogWriter, MemoryLogWriter, OpLog
from kb_dataexec.analysis import path_shares, where
from kb_engine import Engine, Host, LaunchResult
from kb_topology import Topology, load_topology

MOST_SHARES: Final = 4
"""Parts of the path that an explanation names."""


class GemmRun(NamedTuple):
    """The chip after the programs that were run, the picoseconds of all, the result of the last launch, and the cut.

    The picoseconds count the start-up of the kernel, which the result has apart.
    """

    host: Host
    took_ps: float
    result: LaunchResult
    note: str


@cache
def chip(name: str) -> Topology:
    """The topology *name* of a device."""
    return load_topology(measured.TOPOLOGIES / f"{name}.yaml")


def simulate(topology: Topology, row: MeasuredRow) -> Comparison:
    """Run the GEMM of *row* without log and data."""
    began = time.perf_counter()
    run = run_gemm(topology, row)
    return Comparison(row, run.took_ps / 1e6, time.perf_counter() - began, run.note, run.result.startup_ps / 1e6)


def run_gemm(topology: Topology, row: MeasuredRow, writer: Callable[[], LogWriter] | None = None) -> GemmRun:
    """Runs the GEMM of *row*, with waves skipped where they are many. Each chip has the log of *writer*, if any.

    Measurements repeat a GEMM. So where all its bytes fit the cache, they lie there when the kernel begins.
    """
    size = size_of(row)
    used: list[Host] = []

    def new_chip() -> tuple[Host, Operands]:
        used[:] = [Host(Engine(topology, writer() if writer else None), FILE.parent)]
        return used[0], empty_operands(used[0], size)

    host, tensors = new_chip()
    cut = suggest_cut(host, size, tensors)
    grid, n_pes = grid_of(size, cut), host.num_pes

    def launch(n_programs: int) -> LaunchResult:
        chip_of_launch, its_tensors = new_chip()
        warm_caches(chip_of_launch, its_tensors)
        return launch_gemm(chip_of_launch, size, its_tensors, cut, n_programs)

    written = n_pes * cut.tile.m * cut.tile.n * size.out_dtype.nbytes
    taken = launch_folded(launch, grid, n_pes, -(-host.cache_nbytes // written))
    note = f"tiles {cut.tile}" + (f", K in {grid.splits} parts" if grid.splits > 1 else "")
    note += f", {taken.n_skipped} waves like those before" if taken.n_skipped else ""
    return GemmRun(used[0], taken.took_ps, used[0].launches[-1], note)


def explain(topology: Topology, comparison: Comparison) -> str:
    """Where the time of the row's last launch went: the sentence of `kb report`, and the parts of its path."""
    run = run_gemm(topology, comparison.row, MemoryLogWriter)
    log = run.host.engine.close_log()
    assert isinstance(log, OpLog)
    found = where(log)
    shares = path_shares(structs.replace(found, launches=found.launches[-1:]))
    path = ", ".join(f"{each.block} {each.what} {100 * each.share:.0f} %" for each in shares[:MOST_SHARES])
    return f"{bounded_by(shares, {})} The path: {path}; {comparison.note}"
