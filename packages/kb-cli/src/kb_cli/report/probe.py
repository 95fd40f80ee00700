"""What `kb probe` says of one transfer, or of several at once: latency by hop, bandwidth and bottleneck."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from kb_cli.terminal.units import PS_PER_NS
from kb_engine.probe import Probe


class HopResult(Struct, frozen=True, kw_only=True):
    """A part of the latency: `phase` says what it is spent on, `node` where."""

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

    `hops` and `latency_ns` are those of the first flow; the hops add up to the latency. `bandwidth_gbs` is the bytes of
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
    """The result of *measured*, which was probed on *topology*."""
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
