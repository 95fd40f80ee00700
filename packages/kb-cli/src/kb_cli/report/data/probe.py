"""The reports of `kb probe`: one transfer or several at once, and reads of every memory by every PE."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec import UNSET, Struct, UnsetType

from kb_cli.terminal.units import PS_PER_NS
from kb_engine.probe import NO_PATH, Probe, ProbeMatrix
from kb_topology import Topology


class HopResult(Struct, frozen=True, kw_only=True):
    """A part of the latency: `phase` names the activity, and `node` the place."""

    phase: str
    node: str
    latency_ns: float


class FlowResult(Struct, frozen=True, kw_only=True):
    """One of several transfers that run at once."""

    src: str
    latency_ns: float
    bandwidth_gbs: float


class ProbeResult(Struct, frozen=True, kw_only=True):
    """A probe as `--json` prints it.

    `hops` and `latency_ns` belong to the first flow; the hops add up to the latency. `bandwidth_gbs` is the bytes of
    all flows over the time of the last flow. `flows` is missing where there is one flow.
    """

    topology: str
    src: str
    dst: str
    operation: str
    nbytes: int
    hops: list[HopResult]
    latency_ns: float
    latency_ps: int
    bandwidth_gbs: float
    bottleneck: str
    bottleneck_gbs: float | None
    flows: list[FlowResult] | UnsetType = UNSET


def probe_result(topology: str, measured: Probe) -> ProbeResult:
    """Returns the report on *measured*, which was probed on *topology*."""
    flows = [
        FlowResult(
            src=flow.src,
            latency_ns=flow.latency_ps / PS_PER_NS,
            bandwidth_gbs=measured.nbytes * PS_PER_NS / flow.latency_ps if flow.latency_ps else 0.0,
        )
        for flow in measured.flows
    ]
    return ProbeResult(
        topology=topology,
        src=measured.src,
        dst=measured.dst,
        operation=str(measured.operation),
        nbytes=measured.nbytes,
        hops=[
            HopResult(phase=str(part.phase), node=part.node, latency_ns=part.latency_ps / PS_PER_NS)
            for part in measured.parts
        ],
        latency_ns=measured.latency_ps / PS_PER_NS,
        latency_ps=measured.latency_ps,
        bandwidth_gbs=measured.bandwidth_gbs,
        bottleneck=measured.bottleneck,
        bottleneck_gbs=measured.bottleneck_gbs,
        flows=flows if len(flows) > 1 else UNSET,
    )


LARGEST_WHOLE = 16
"""The largest number of rows and columns for which tables and pictures name every PE and memory. Beyond, they name
cubes."""


class ProbeMapResult(Struct, frozen=True, kw_only=True):
    """All probes as `--json` prints them.

    `sources[i]` reads `memories[j]` with `latency_ns[i][j]` and `bandwidth_gbs[i][j]`, which are null where no path
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
    """Returns the report on *matrix*, whose heat map lies in *picture*."""
    return ProbeMapResult(
        topology=chip.name,
        nbytes=matrix.nbytes,
        sources=matrix.sources,
        memories=matrix.memories,
        latency_ns=_cells(latency_ns(matrix)),
        bandwidth_gbs=_cells(matrix.bandwidth_gbs),
        heatmap=str(picture),
    )


def short_name(name: str) -> str:
    """Returns a node's name for tables and pictures: a PE for its DMA or TCM, without cube 0 of SIP 0."""
    return name.removesuffix(".pe_dma").removesuffix(".pe_tcm").removeprefix("sip0.cube0.")


def latency_ns(matrix: ProbeMatrix) -> npt.NDArray[np.float64]:
    """Returns the latencies of *matrix* in nanoseconds, (sources, memories); NaN where there is no path."""
    latency: npt.NDArray[np.float64] = np.where(matrix.latency_ps == NO_PATH, np.nan, matrix.latency_ps / PS_PER_NS)
    return latency


def _cells(values: npt.NDArray[np.float64]) -> list[list[float | None]]:
    return [[None if cell != cell else cell for cell in row] for row in values.tolist()]  # NaN differs from itself
