"""What `kb probe SRC DST` prints."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from kb_cli.report.probe import FlowResult, HopResult, ProbeResult
from kb_cli.terminal.output import new_table
from kb_cli.terminal.units import duration, quantity

_WORDS = {"read": "reads from", "write": "writes to", "send": "sends to"}


def probe_tables(result: ProbeResult) -> list[Any]:
    """The transfer, its hops, its flows if there are several, and a sentence with the bottleneck."""
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
