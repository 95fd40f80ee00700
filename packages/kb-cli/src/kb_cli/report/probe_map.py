"""`kb probe --all`: every PE's reads of every memory, as a table, JSON and a heat map."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from kb_cli.report.heatmap import HeatMapPanel, Tick, heat_map
from kb_cli.terminal.output import emit_json, emit_tables, new_table, progress_bar
from kb_engine.probe import NO_PATH, Matrix, ProbeError, probe_all
from kb_messages import MemorySpace
from kb_topology import Topology

_WHOLE = 16
"""Up to so many rows and columns the matrix itself is the table."""


class AllResult(Struct, frozen=True, kw_only=True):
    """`latency_ns[i][j]` and `bandwidth_gbs[i][j]` are of `sources[i]` reading `memories[j]`; null for no path."""

    topology: str
    nbytes: int
    sources: tuple[str, ...]
    memories: tuple[str, ...]
    latency_ns: list[list[float | None]]
    bandwidth_gbs: list[list[float | None]]
    heatmap: str


def run_all(chip: Topology, nbytes: int, spaces: tuple[MemorySpace, ...], heatmap: Path, as_json: bool) -> None:
    """Measure, draw to *heatmap*, and print. Raises ProbeError where there is nothing to measure."""
    with progress_bar("probing") as progress:
        try:
            matrix = probe_all(chip, nbytes, spaces, progress)
        except ValueError as error:
            raise ProbeError("--nbytes", str(nbytes), str(error).partition("needs ")[2]) from None
    if not matrix.sources or not matrix.memories:
        named = " or ".join(space.value.upper() for space in spaces)
        raise ProbeError(chip.name, "no DMA or no memory", "both", f"give the topology PEs and {named}")
    _save(heatmap, draw(chip, matrix))
    if as_json:
        emit_json(_result(chip, matrix, heatmap))
    else:
        emit_tables(*_tables(chip, matrix), "", f"heat map      {heatmap}")


def draw(chip: Topology, matrix: Matrix) -> str:
    """The SVG: latency beside bandwidth, PEs down, memories along."""
    latency = np.where(matrix.latency_ps == NO_PATH, np.nan, matrix.latency_ps / 1000)
    return heat_map(
        f"{chip.name}: every PE (down) reads {matrix.nbytes} B of every memory (along), alone",
        [
            HeatMapPanel(title="latency", unit="ns", values=latency),
            HeatMapPanel(title="bandwidth", unit="GB/s", values=matrix.bandwidth_gbs),
        ],
        _ticks(matrix.sources),
        _ticks(matrix.memories),
    )


def _ticks(names: tuple[str, ...]) -> list[Tick]:
    """One label a cube, or a node where there are few."""
    if len(names) <= _WHOLE:
        return [Tick(number, _short(name)) for number, name in enumerate(names)]
    groups = groupby(range(len(names)), key=lambda number: ".".join(names[number].split(".")[:2]))
    return [Tick(next(iter(members)), cube) for cube, members in groups]


def _save(path: Path, picture: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(picture, encoding="utf-8")
    except OSError as error:
        got = f"a file that cannot be written ({error.strerror})"
        raise ProbeError(str(path), got, "a file in a folder of yours", "name one with --heatmap") from None


def _short(name: str) -> str:
    return name.removesuffix(".pe_dma").removesuffix(".pe_tcm").removeprefix("sip0.cube0.")


def _result(chip: Topology, matrix: Matrix, path: Path) -> AllResult:
    latency = np.where(matrix.latency_ps == NO_PATH, np.nan, matrix.latency_ps / 1000)
    return AllResult(
        topology=chip.name,
        nbytes=matrix.nbytes,
        sources=matrix.sources,
        memories=matrix.memories,
        latency_ns=_cells(latency),
        bandwidth_gbs=_cells(matrix.bandwidth_gbs),
        heatmap=str(path),
    )


def _cells(values: Any) -> list[list[float | None]]:
    return [[None if cell != cell else cell for cell in row] for row in values.tolist()]  # NaN is not itself


def _tables(chip: Topology, matrix: Matrix) -> list[Any]:
    title = f"{chip.name}: every PE reads {matrix.nbytes} B of every memory, alone"
    if len(matrix.sources) <= _WHOLE and len(matrix.memories) <= _WHOLE:
        return [title, "", *_whole(matrix)]
    return [title, "", _by_distance(chip, matrix)]


def _whole(matrix: Matrix) -> Iterable[Any]:
    for what, values, form in (("ns", matrix.latency_ps / 1000, "{:,.1f}"), ("GB/s", matrix.bandwidth_gbs, "{:.4g}")):
        table = new_table(what, *map(_short, matrix.memories), left=1)
        for name, row, there in zip(matrix.sources, values, matrix.latency_ps != NO_PATH, strict=True):
            table.add_row(
                _short(name), *(form.format(cell) if known else "-" for cell, known in zip(row, there, strict=True))
            )
        yield from (table, "") if what == "ns" else (table,)


def _by_distance(chip: Topology, matrix: Matrix) -> Any:
    """Least, mean and most over pairs that are alike: in one cube, in one SIP, in two."""
    nodes = chip.graph.nodes
    src = np.array([(nodes[name].sip or 0, nodes[name].cube or 0) for name in matrix.sources])
    dst = np.array([(nodes[name].sip or 0, nodes[name].cube or 0) for name in matrix.memories])
    same_sip = src[:, None, 0] == dst[None, :, 0]
    same_cube = same_sip & (src[:, None, 1] == dst[None, :, 1])
    table = new_table(
        "memory of", "pairs", "least ns", "mean ns", "most ns", "most GB/s", "mean GB/s", "least GB/s", left=1
    )
    there = matrix.latency_ps != NO_PATH
    classes = (
        ("the PE's cube", same_cube),
        ("another cube of its SIP", same_sip & ~same_cube),
        ("another SIP", ~same_sip),
    )
    for label, alike in classes:
        mine = alike & there
        if mine.any():
            ns, gbs = matrix.latency_ps[mine] / 1000, matrix.bandwidth_gbs[mine]
            numbers = [f"{each:,.1f}" for each in (ns.min(), ns.mean(), ns.max())]
            numbers += [f"{each:.4g}" for each in (gbs.max(), gbs.mean(), gbs.min())]
            table.add_row(label, f"{mine.sum():,}", *numbers)
    if not there.all():
        table.add_row("no path", f"{(~there).sum():,}", *["-"] * 6)
    return table
