"""What `kb probe --all` says: latency and bandwidth of every PE's reads of every memory, and their heat map."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_cli.report.heatmap import HeatMapPanel, Tick, heat_map
from kb_cli.run.files import write_whole
from kb_cli.terminal.units import PS_PER_NS
from kb_engine.probe import NO_PATH, ProbeMatrix
from kb_topology import Topology

LARGEST_WHOLE = 16
"""Up to this many rows and columns, tables and pictures name every PE and memory; beyond, cubes."""


class ProbeMapResult(Struct, frozen=True, kw_only=True):
    """All probes as `--json` prints them.

    `latency_ns[i][j]` and `bandwidth_gbs[i][j]` are those of `sources[i]` reading `memories[j]`, or null where no path
    joins the two.
    """

    topology: str
    nbytes: int
    sources: tuple[str, ...]
    memories: tuple[str, ...]
    latency_ns: list[list[float | None]]
    bandwidth_gbs: list[list[float | None]]
    heatmap: str


def probe_map_result(chip: Topology, matrix: ProbeMatrix, picture: Path) -> ProbeMapResult:
    """The result of *matrix*, whose heat map lies in *picture*."""
    return ProbeMapResult(
        topology=chip.name,
        nbytes=matrix.nbytes,
        sources=matrix.sources,
        memories=matrix.memories,
        latency_ns=_cells(_latency_ns(matrix)),
        bandwidth_gbs=_cells(matrix.bandwidth_gbs),
        heatmap=str(picture),
    )


def save_heat_map(chip: Topology, matrix: ProbeMatrix, path: Path) -> None:
    """Draw latency beside bandwidth, PEs down and memories along, to *path*. Raises OSError, which names the file."""
    picture = heat_map(
        f"{chip.name}: every PE (down) reads {matrix.nbytes} B of every memory (along), alone",
        [
            HeatMapPanel(title="latency", unit="ns", values=_latency_ns(matrix)),
            HeatMapPanel(title="bandwidth", unit="GB/s", values=matrix.bandwidth_gbs),
        ],
        _ticks(matrix.sources),
        _ticks(matrix.memories),
    )
    write_whole(path, picture.encode())


def short_name(name: str) -> str:
    """A node's name as tables and pictures show it: a PE for its DMA or TCM, without cube 0 of SIP 0."""
    return name.removesuffix(".pe_dma").removesuffix(".pe_tcm").removeprefix("sip0.cube0.")


def _latency_ns(matrix: ProbeMatrix) -> npt.NDArray[np.float64]:
    """NaN where there is no path."""
    latency: npt.NDArray[np.float64] = np.where(matrix.latency_ps == NO_PATH, np.nan, matrix.latency_ps / PS_PER_NS)
    return latency


def _cells(values: npt.NDArray[np.float64]) -> list[list[float | None]]:
    return [[None if cell != cell else cell for cell in row] for row in values.tolist()]  # NaN differs from itself


def _ticks(names: tuple[str, ...]) -> list[Tick]:
    """A label for each node where there are few, otherwise for each cube."""
    if len(names) <= LARGEST_WHOLE:
        return [Tick(number, short_name(name)) for number, name in enumerate(names)]
    groups = groupby(range(len(names)), key=lambda number: ".".join(names[number].split(".")[:2]))
    return [Tick(next(iter(members)), cube) for cube, members in groups]
