"""The speed of a run: operations a second beside the peak, bytes a second beside the bandwidth, and the roofline."""

from __future__ import annotations

from collections.abc import Iterator

from kb_cli.run.base.result import COMPUTE, Roof, Roofline, RunResult, Unwritten
from kb_cli.terminal.units import PS_PER_NS, bandwidth, duration, percent, quantity
from kb_messages import DType

SPACES = {
    "hbm": "HBM",
    "hbm cache": "cache of HBM",
    "sram": "SRAM",
    "tcm": "TCM",
    "reg": "registers (TCM port)",
}
"""Words for memory spaces and their caches."""
PORTS = {
    **SPACES,
    "hbm cache": "the cache of HBM",
    "reg": "the TCM ports",
    "reg_fetch": "the TCM ports for fetches",
    "reg_store": "the TCM ports for stores",
}
"""Words for memory spaces in sentences on bandwidth, where `reg` stands for the ports."""
ROOFS = {
    **PORTS,
    "tcm": "the DMA ports of TCMs",
    "pe_gemm": COMPUTE,
    "pe_math": "the math units",
    "pe_dma_read": "set-ups of reads",
    "pe_dma_write": "set-ups of writes",
    "link": "the links",
    "port": "the ports of DMAs",
}
"""Words for the kinds of roofs. Other kinds are named as they are."""


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
    """Returns the rows `achieved`, `memory`, `roofline`, `as placed`, `no peak` and `unwritten` of a run's summary.

    A row whose limit the chip does not state is left out, and so is `achieved` where no operations are stated.
    """
    rows = [("achieved", _achieved(result))] if result.flops else []
    roof = result.roofline
    if isinstance(roof, Roofline):
        if roof.memory is not None and roof.memory_gbs is not None and roof.memory_share is not None:
            rows.append(("memory", _memory(result, roof)))
        rows.append(("roofline", _roofline(result, roof)))
        rows += [("as placed", text) for text in _as_placed(result, roof)]
    rows += [("no peak", _no_peak(each)) for each in known_roofs(result) if each.least_ps is None]
    if isinstance(result.unwritten, Unwritten):
        took = duration(result.unwritten.ps)
        text = (
            f"{quantity(result.unwritten.nbytes, 'B')} of dirty lines stay in the caches: writing them back would take"
        )
        rows.append(("unwritten", f"{text} {took}"))
    return rows


def known_roofs(result: RunResult) -> list[Roof]:
    """Returns the roofs of *result*; none for a folder of an older kb."""
    return result.roofs if isinstance(result.roofs, list) else []


def peak_share(result: RunResult) -> float | None:
    """Returns the part of the peak at which the stated operations were done, 0 to 1.

    None without a peak, and where the benchmark states more operations than the chip can do in the time.
    """
    if not result.flops or not result.peak_flops:
        return None
    share = result.achieved_flops / result.peak_flops
    return share if share <= 1 else None


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
    if roof.memory == roof.bound and roof.memory_gbs is not None and roof.memory_share is not None:
        return f"{percent(roof.memory_share)} of {bandwidth(roof.memory_gbs)} of {PORTS.get(roof.memory, roof.memory)}"
    return f"{percent(roof.least_ns / result.latency_ns)} of {ROOFS.get(roof.bound, roof.bound)}"


def _achieved(result: RunResult) -> str:
    unit = f"{operation(result)}/s"
    text, share = quantity(result.achieved_flops, unit), peak_share(result)
    if not result.peak_flops:
        return text
    peak = f"the peak of {quantity(result.peak_flops, unit)}"
    if share is None:
        did = quantity(result.gemm_flops, operation(result))
        return f"{text} as the benchmark counts, which is more than {peak}; the arrays did {did}"
    return f"{text}, {percent(share)} of {peak}"


def _memory(result: RunResult, roof: Roofline) -> str:
    """Returns the rate of the memory whose bytes take longest, and that of its busiest part if it is another."""
    assert roof.memory is not None
    assert roof.memory_gbs is not None
    assert roof.memory_share is not None
    share = percent(roof.memory_share)
    moved = f"{bandwidth(roof.memory_gbs * roof.memory_share)} of {PORTS.get(roof.memory, roof.memory)}"
    text = f"{moved}, {share} of {bandwidth(roof.memory_gbs)}"
    mine = next((each for each in known_roofs(result) if each.kind == roof.memory), None)
    alone = percent(mine.least_ps / result.latency_ps) if mine is not None and mine.least_ps is not None else share
    return text if mine is None or alone == share else f"{text}; {alone} at {mine.node}, the busiest"


def _roofline(result: RunResult, roof: Roofline) -> str:
    """Returns the least time that the roofline allows, the limit that sets it, and the operations for each byte."""
    text = f"at least {duration(roof.least_ns * PS_PER_NS)}, set by {ROOFS.get(roof.bound, roof.bound)}"
    moved = result.bytes.get(roof.memory or "")
    if moved is not None and result.flops:
        intensity = f"{result.flops / (moved.read + moved.write):.4g} {operation(result)}"
        text += f", with {intensity} for each byte of {PORTS.get(roof.memory or '', roof.memory or '')}"
    return text


def _as_placed(result: RunResult, roof: Roofline) -> Iterator[str]:
    """Yields the least time with the work where it lies, and the part that sets it, if it is more than the roofline."""
    if not isinstance(roof.placed_ns, float) or not result.latency_ps:
        return
    least = duration(roof.placed_ns * PS_PER_NS)
    if least != duration(roof.least_ns * PS_PER_NS):
        placed = next(each for each in known_roofs(result) if each.least_ps is not None)
        yield f"at least {least} with the work where it lies, set by {placed.node}"


def _no_peak(roof: Roof) -> str:
    """Returns the sentence on a block without a full rate."""
    if roof.is_beaten:
        return f"{roof.kind} states a rate and was faster: it sets no roof"
    return f"no peak known for {roof.kind}, which {roof.node} has"
