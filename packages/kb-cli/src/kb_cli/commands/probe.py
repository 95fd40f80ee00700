"""`kb probe`: what a transfer between two nodes takes, and where; or what all of them take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from msgspec import UNSET, Struct, UnsetType

from kb_cli.benchmark import bundled
from kb_cli.terminal.output import emit_json, emit_tables, new_table
from kb_cli.terminal.units import duration, quantity
from kb_engine.probe import Operation, Probe, ProbeError, probe
from kb_messages import MemorySpace
from kb_topology import load_topology, parse_nbytes

_OPERATIONS = [each.value for each in Operation]
_SPACES = MemorySpace.HBM, MemorySpace.SRAM
"""What `--all` reads unless --memories says."""


class HopResult(Struct, frozen=True, kw_only=True):
    """A part of the latency: `phase` says of what, `node` where."""

    phase: str
    node: str
    latency_ns: float


class FlowResult(Struct, frozen=True, kw_only=True):
    """One of several transfers at once."""

    src: str
    latency_ns: float
    bandwidth_gbs: float


class ProbeResult(Struct, frozen=True, kw_only=True):
    """`latency_ns` and its parts are the first flow's; `bandwidth_gbs` all flows' bytes over the last one's time."""

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


@click.command("probe")
@click.argument("src", required=False)
@click.argument("dst", required=False)
@click.option("--nbytes", default="4096", show_default=True, help="Bytes to move, e.g. 64, '4 KiB' or 1MiB.")
@click.option("--flows", default=1, show_default=True, help="So many transfers at once; a DMA moves one each way, so "
    "further flows come from the DMAs behind SRC.",
)  # fmt: skip
@click.option("--op", type=click.Choice(_OPERATIONS), help="Left out, a DMA reads a memory; else it is a message.")
@click.option("--all", "everything", is_flag=True, help="Every PE's reads of every memory, each alone.")
@click.option(
    "--memories", help="With --all, of hbm, sram and tcm those to read: 'tcm' or 'hbm,tcm' [default: hbm,sram]"
)
@click.option("--heatmap", metavar="FILE.svg", help="With --all, where the picture goes; by default below kb-runs.")
@click.option("--topology", default="one_cube", show_default=True, help="A bundled chip's name, or a YAML file.")
@click.option("--json", "as_json", is_flag=True, help="Print one object, nothing else.")
def command(
    src: str | None,
    dst: str | None,
    nbytes: str,
    flows: int,
    op: str | None,
    everything: bool,
    memories: str | None,
    heatmap: str | None,
    topology: str,
    as_json: bool,
) -> None:
    """Measure a transfer from SRC to DST on an idle chip: its way, latency hop by hop, bandwidth and bottleneck.

    SRC and DST are nodes such as sip0.cube0.hbm3 or host; a PE stands for its DMA or its TCM. Cube 0 of SIP 0 need not
    be named: pe0, hbm3. What the DMA itself takes to set a transfer up is not part of it.
    """
    chip = load_topology(bundled.find("topologies", topology))
    size = parse_nbytes(int(nbytes) if nbytes.isdecimal() else nbytes)
    if size is None:
        raise ProbeError("--nbytes", repr(nbytes), "a size such as 64, 4 KiB or 1 MiB")
    if everything:
        from kb_cli.report.probe_map import run_all

        _refuse_with_all(src, flows, op)
        spaces = _spaces(memories)
        run_all(chip, size, spaces, Path(heatmap) if heatmap else _picture(chip.name, size, spaces), as_json)
        return
    if src is None or dst is None:
        raise ProbeError("kb probe", "no DST" if src else "no SRC", "SRC and DST, or --all", "as in kb probe pe0 hbm0")
    if memories is not None:
        raise ProbeError("--memories", repr(memories), "--all beside it", "name the memory as DST")
    if heatmap is not None:
        raise ProbeError("--heatmap", repr(heatmap), "--all beside it", "one transfer has no map")
    if flows < 1:
        raise ProbeError("--flows", str(flows), "1 or more")
    measured = probe(chip, src, dst, size, flows, Operation(op) if op else None)
    if as_json:
        emit_json(_result(chip.name, measured))
    else:
        emit_tables(*_tables(chip.name, measured))


def _spaces(memories: str | None) -> tuple[MemorySpace, ...]:
    """The spaces that --memories names, in the order of the memory map."""
    if memories is None:
        return _SPACES
    names = memories.split(",")
    known = (MemorySpace.HBM, MemorySpace.SRAM, MemorySpace.TCM)
    if not set(names) <= {space.value for space in known}:
        raise ProbeError("--memories", repr(memories), "some of hbm, sram and tcm", "as in --memories hbm,tcm")
    return tuple(space for space in known if space.value in names)


def _picture(topology: str, nbytes: int, spaces: tuple[MemorySpace, ...]) -> Path:
    """Where the heat map goes unless --heatmap says: another choice of memories is another picture."""
    of = "" if spaces == _SPACES else "".join(f"-{space.value}" for space in spaces)
    return Path("kb-runs") / f"probe-{topology}-{nbytes}{of}.svg"


def _refuse_with_all(src: str | None, flows: int, op: str | None) -> None:
    for name, given in (("SRC", src is not None), ("--flows", flows != 1), ("--op", op is not None)):
        if given:
            raise ProbeError(
                "--all", f"{name} beside it", "no more than --nbytes and --memories", "it probes every pair, alone"
            )


def _result(topology: str, measured: Probe) -> ProbeResult:
    flows = [
        FlowResult(
            src=flow.src,
            latency_ns=flow.latency_ps / 1000,
            bandwidth_gbs=measured.nbytes * 1000 / flow.latency_ps if flow.latency_ps else 0.0,
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
            HopResult(phase=str(part.phase), node=part.node, latency_ns=part.latency_ps / 1000)
            for part in measured.parts
        ],
        latency_ns=measured.latency_ps / 1000,
        latency_ps=measured.latency_ps,
        bandwidth_gbs=measured.bandwidth_gbs,
        bottleneck=measured.bottleneck,
        bottleneck_gbs=measured.bottleneck_gbs,
        flows=flows if len(flows) > 1 else UNSET,
    )


_WORDS = {Operation.READ: "reads from", Operation.WRITE: "writes to", Operation.SEND: "sends to"}


def _tables(topology: str, measured: Probe) -> list[Any]:
    what = f"{measured.src} {_WORDS[measured.operation]} {measured.dst}: {measured.nbytes} B on {topology}"
    hops = new_table("part", "at", "latency", "so far", left=2)
    so_far = 0
    for part in measured.parts:
        so_far += part.latency_ps
        hops.add_row(str(part.phase), part.node, _ns(part.latency_ps), _ns(so_far))
    lines: list[Any] = [what, "", hops, ""]
    if len(measured.flows) > 1:
        flows = new_table("flow", "from", "latency", "bandwidth", left=2)
        for number, flow in enumerate(measured.flows):
            gbs = measured.nbytes * 1000 / flow.latency_ps if flow.latency_ps else 0.0
            flows.add_row(str(number), flow.src, _ns(flow.latency_ps), _gbs(gbs))
        lines += [flows, ""]
    limit = f", which has {_gbs(measured.bottleneck_gbs)}" if measured.bottleneck_gbs is not None else ""
    return [
        *lines,
        (
            f"latency {duration(measured.latency_ps)}, achieved {_gbs(measured.bandwidth_gbs)}; "
            f"bottleneck {measured.bottleneck}{limit}"
        ),
    ]


def _ns(ps: int) -> str:
    return f"{ps / 1000:,.3f} ns"


def _gbs(gbs: float) -> str:
    return quantity(gbs * 1e9, "B/s")
