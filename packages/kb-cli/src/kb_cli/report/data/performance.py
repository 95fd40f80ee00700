"""The speed of a run: operations a second beside the peak, bytes a second beside the bandwidth, and the roofline."""

from __future__ import annotations

from kb_cli.run.base.result import COMPUTE, Roofline, RunResult
from kb_cli.terminal.units import PS_PER_NS, bandwidth, duration, percent, quantity
from kb_messages import DType

SPACES = {"hbm": "HBM", "sram": "SRAM", "tcm": "TCM", "reg": "registers (TCM port)"}
"""Words for memory spaces."""
PORTS = {**SPACES, "reg": "the TCM ports"}
"""Words for memory spaces in sentences on bandwidth, where `reg` stands for the ports."""


def operation(result: RunResult) -> str:
    """Returns `FLOP`, or `OP` where the benchmark's parameter `dtype` is an integer."""
    dtype = result.params.get("dtype")
    return "OP" if isinstance(dtype, str) and dtype in set(DType) and not DType(dtype).is_float else "FLOP"


def rate(flops: int, ps: int, unit: str = "FLOP/s") -> str:
    """Returns the rate of *flops* operations in *ps* picoseconds as text; `-` where no operations are stated or no
    time passed.
    """
    return quantity(flops / ps * 1e12, unit) if flops and ps else "-"


def performance_rows(result: RunResult) -> list[tuple[str, str]]:
    """Returns the rows `achieved`, `memory` and `roofline` of a run's summary.

    A row whose limit the chip does not state is left out, and so is `achieved` where no operations are stated.
    """
    rows = [("achieved", _achieved(result))] if result.flops else []
    roof = result.roofline
    if not isinstance(roof, Roofline):
        return rows
    if roof.memory is not None and roof.memory_gbs is not None and roof.memory_share is not None:
        moved = f"{bandwidth(roof.memory_gbs * roof.memory_share)} of {PORTS.get(roof.memory, roof.memory)}"
        rows.append(("memory", f"{moved}, {percent(roof.memory_share)} of {bandwidth(roof.memory_gbs)}"))
    return [*rows, ("roofline", _roofline(result, roof))]


def choices_text(chose: dict[str, str | int]) -> str:
    """Returns what a benchmark chose as text: `operands sharded, replicas 1`."""
    return ", ".join(f"{name} {value}" for name, value in chose.items())


def speed_of_light(result: RunResult) -> str:
    """Returns how near the run came to the limit of its roofline: `21.1 % of 819.2 GB/s of HBM`. Empty without
    limits.
    """
    roof = result.roofline
    if not isinstance(roof, Roofline):
        return ""
    if roof.bound == COMPUTE and roof.compute_share is not None and result.peak_flops:
        return f"{percent(roof.compute_share)} of {quantity(result.peak_flops, 'FLOP/s')}"
    if roof.memory is None or roof.memory_gbs is None or roof.memory_share is None:
        return ""
    return f"{percent(roof.memory_share)} of {bandwidth(roof.memory_gbs)} of {PORTS.get(roof.memory, roof.memory)}"


def _achieved(result: RunResult) -> str:
    unit = f"{operation(result)}/s"
    text = quantity(result.achieved_flops, unit)
    if not result.peak_flops:
        return text
    share = percent(result.achieved_flops / result.peak_flops)
    return f"{text}, {share} of the peak of {quantity(result.peak_flops, unit)}"


def _roofline(result: RunResult, roof: Roofline) -> str:
    """Returns the least time that the roofline allows, the limit that sets it, and the operations for each byte."""
    what = COMPUTE if roof.bound == COMPUTE else PORTS.get(roof.bound, roof.bound)
    least_ps = roof.least_ns * PS_PER_NS
    text = f"at least {duration(least_ps)}, set by {what}"
    moved = result.bytes.get(roof.memory or "")
    if moved is None or not result.flops:
        return text
    intensity = f"{result.flops / (moved.read + moved.write):.4g} {operation(result)}"
    return f"{text}, with {intensity} for each byte of {PORTS.get(roof.memory or '', roof.memory or '')}"
