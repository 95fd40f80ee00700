"""Tables of `kb probe`: one transfer, or all pairs of a PE and a memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table

from kb_cli.report.data.probe import LARGEST_WHOLE, FlowResult, HopResult, ProbeResult, short_name
from kb_cli.terminal.output import new_table
from kb_cli.terminal.units import PS_PER_NS, duration, quantity
from kb_engine.probe import NO_PATH, ProbeMatrix
from kb_topology import Topology

_WORDS = {"read": "reads from", "write": "writes to", "send": "sends to"}


def probe_tables(result: ProbeResult) -> list[Any]:
    """Returns the transfer, its hops, its flows if there are several, and a sentence with the bottleneck."""
    lines: list[Any] = [
        f"{result.src} {_WORDS[result.operation]} {result.dst}: {result.nbytes} B on {result.topology}",
        "",
        _hops(result.hops),
        "",
    ]
    if isinstance(result.flows, list):
        lines += [_flows(result.flows), ""]
    limit = f", which has {_gbs(result.bottleneck_gbs)}" if result.bottleneck_gbs is not None else ""
    text = f"latency {duration(result.latency_ps)}, achieved {_gbs(result.bandwidth_gbs)}"
    return [*lines, f"{text}; bottleneck {result.bottleneck}{limit}"]


def _hops(hops: list[HopResult]) -> Table:
    table = new_table("part", "at", "latency", "so far", left=2)
    so_far_ns = 0.0
    for hop in hops:
        so_far_ns += hop.latency_ns
        table.add_row(hop.phase, hop.node, _ns(hop.latency_ns), _ns(so_far_ns))
    return table


def _flows(flows: list[FlowResult]) -> Table:
    table = new_table("flow", "from", "latency", "bandwidth", left=2)
    for number, flow in enumerate(flows):
        table.add_row(str(number), flow.src, _ns(flow.latency_ns), _gbs(flow.bandwidth_gbs))
    return table


def _ns(ns: float) -> str:
    return f"{ns:,.3f} ns"


def _gbs(gbs: float) -> str:
    return quantity(gbs * 1e9, "B/s")


Pairs = npt.NDArray[np.bool_]
"""Marks the pairs of a PE (row) and a memory (column) that belong to a group."""


def probe_map_tables(chip: Topology, matrix: ProbeMatrix) -> list[Any]:
    """Returns title and tables of *matrix*: every pair on a small chip, pairs by distance on a large one."""
    title = f"{chip.name}: every PE reads {matrix.nbytes} B of every memory, alone"
    if max(len(matrix.sources), len(matrix.memories)) <= LARGEST_WHOLE:
        return [title, "", *_every_pair(matrix)]
    return [title, "", _by_distance(chip, matrix)]


def _every_pair(matrix: ProbeMatrix) -> Iterator[Any]:
    yield _grid("ns", matrix, matrix.latency_ps / PS_PER_NS, "{:,.1f}")
    yield ""
    yield _grid("GB/s", matrix, matrix.bandwidth_gbs, "{:.4g}")


def _grid(unit: str, matrix: ProbeMatrix, values: npt.NDArray[np.float64], form: str) -> Table:
    table = new_table(unit, *map(short_name, matrix.memories), left=1)
    for name, row, there in zip(matrix.sources, values, matrix.latency_ps != NO_PATH, strict=True):
        cells = (form.format(cell) if known else "-" for cell, known in zip(row, there, strict=True))
        table.add_row(short_name(name), *cells)
    return table


def _by_distance(chip: Topology, matrix: ProbeMatrix) -> Table:
    """Returns least, mean and most over the pairs in one cube, in one SIP, and in two SIPs."""
    table = new_table(
        "memory of", "pairs", "least ns", "mean ns", "most ns", "most GB/s", "mean GB/s", "least GB/s", left=1
    )
    there = matrix.latency_ps != NO_PATH
    for label, pairs in _distances(chip, matrix).items():
        measured = pairs & there
        if measured.any():
            ns, gbs = matrix.latency_ps[measured] / PS_PER_NS, matrix.bandwidth_gbs[measured]
            numbers = [f"{each:,.1f}" for each in (ns.min(), ns.mean(), ns.max())]
            numbers += [f"{each:.4g}" for each in (gbs.max(), gbs.mean(), gbs.min())]
            table.add_row(label, f"{measured.sum():,}", *numbers)
    if not there.all():
        table.add_row("no path", f"{(~there).sum():,}", *["-"] * 6)
    return table


def _distances(chip: Topology, matrix: ProbeMatrix) -> dict[str, Pairs]:
    nodes = chip.graph.nodes
    src = np.array([(nodes[name].sip or 0, nodes[name].cube or 0) for name in matrix.sources])
    dst = np.array([(nodes[name].sip or 0, nodes[name].cube or 0) for name in matrix.memories])
    same_sip = src[:, None, 0] == dst[None, :, 0]
    same_cube = same_sip & (src[:, None, 1] == dst[None, :, 1])
    return {
        "the PE's cube": same_cube,
        "another cube of its SIP": same_sip & ~same_cube,
        "another SIP": ~same_sip,
    }
