"""How far a simulated latency may be from the device: the validation of the chip that fits a run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, Struct, UnsetType

from kb_cli.terminal.units import PS_PER_NS, duration

if TYPE_CHECKING:
    from kb_cli.run.metrics import Metrics
    from kb_topology import Topology

Test = Literal["gemm", "dram", "noc"]


class Fidelity(Struct, frozen=True, kw_only=True):
    """The kind of test that fits a run, and what a comparison of that kind on the chip says of the latency.

    `low_ns` and `high_ns` are the latency divided and multiplied by e to the power of `p90`: nine of ten of the `rows`
    measured on `device` lay in such a band. Without a comparison of that kind, `validated` is false, and they are None.
    So it is where a chip was changed after its comparison; then `device` and `source` say with what it was compared.
    """

    test: Test
    validated: bool
    low_ns: float | None = None
    high_ns: float | None = None
    device: str | None = None
    rows: int | None = None
    p90: float | None = None
    source: str | None = None

    def __str__(self) -> str:
        if self.low_ns is None or self.high_ns is None or self.p90 is None:
            if self.device is not None:
                return f"not validated: the chip was changed since its {self.test} test against {self.device}"
            return f"not validated: no {self.test} test on this chip"
        low, high = (duration(ns * PS_PER_NS) for ns in (self.low_ns, self.high_ns))
        return f"{low} to {high}, as 9 of 10 of {self.rows} {self.test} rows of {self.device}"


def fidelity_text(fidelity: Fidelity | UnsetType) -> str:
    """The fidelity behind a latency, in brackets; nothing for the run of an older version."""
    return "" if isinstance(fidelity, UnsetType) else f" ({fidelity})"


def kind_of(metrics: Metrics) -> Test:
    """The kind of test that a run with these *metrics* is like.

    A run whose MAC arrays worked is like a product, another one that moved bytes of HBM like a test of DRAM, and all
    others like one of a network. Source: assumed.
    """
    array, memory = metrics.uses.get("pe_gemm"), metrics.traffic.get("hbm")
    if array is not None and array.mean > 0:
        return "gemm"
    return "dram" if memory is not None and memory.read + memory.write > 0 else "noc"


def fidelity_of(topology: Topology, metrics: Metrics) -> Fidelity:
    """What the comparisons of *topology* say of a run with *metrics*. Of several that fit, the first counts."""
    test, stated = kind_of(metrics), topology.spec.fidelity
    known = [] if stated is UNSET else [each for each in stated if each.test == test]
    if not known:
        return Fidelity(test=test, validated=False)
    first = next((each for each in known if each.is_of(topology.digest)), None)
    if first is None:
        return Fidelity(test=test, validated=False, device=known[0].device, source=known[0].source)
    latency_ns = metrics.span_ps / PS_PER_NS
    return Fidelity(
        test=test,
        validated=True,
        low_ns=latency_ns * math.exp(-first.p90),
        high_ns=latency_ns * math.exp(first.p90),
        device=first.device,
        rows=first.rows,
        p90=first.p90,
        source=first.source,
    )
