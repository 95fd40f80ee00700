"""The picture of `kb probe --all`: the latency and the bandwidth of every PE's reads of every memory."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from kb_cli.report.data.probe import LARGEST_WHOLE, latency_ns, short_name
from kb_cli.report.pictures.heatmap import HeatMapPanel, Tick, heat_map
from kb_cli.run.base.files import write_whole
from kb_engine.probe import ProbeMatrix
from kb_topology import Topology


def save_probe_map(chip: Topology, matrix: ProbeMatrix, path: Path) -> None:
    """Draws latency above bandwidth, PEs down and memories across, to *path*. Raises OSError, which names the file."""
    picture = heat_map(
        f"{chip.name}: every PE reads every memory",
        f"Each PE (down) reads {matrix.nbytes:,} B of each memory (across), alone.",
        [
            HeatMapPanel(title="latency", unit="ns", values=latency_ns(matrix), hot="high"),
            HeatMapPanel(title="bandwidth", unit="GB/s", values=matrix.bandwidth_gbs, hot="low"),
        ],
        _ticks(matrix.sources),
        _ticks(matrix.memories),
    )
    write_whole(path, picture.encode())


def _ticks(names: tuple[str, ...]) -> list[Tick]:
    """Returns a label for each node where there are few, otherwise for each cube: with its SIP for the first of it."""
    if len(names) <= LARGEST_WHOLE:
        return [Tick(number, short_name(name)) for number, name in enumerate(names)]
    found: list[Tick] = []
    sip = ""
    for (outer, cube), members in groupby(range(len(names)), key=lambda number: tuple(names[number].split(".")[:2])):
        begins = outer != sip
        sip = outer
        found.append(Tick(next(iter(members)), f"{outer}.{cube}" if begins else cube, begins))
    return found
