"""How many measured rows lie in the bands that the topology of their device states under `fidelity`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from gemm_roofline import size_of
from measured import Comparison

from kb_cli.run.observe.validated_runs import KernelOfRun, fidelity_of
from kb_topology import Topology

LEAST_SHARE: Final = 0.85
"""The least share of the rows of a comparison that lie in its band. Nine of ten rows of the fit would be 0.9."""
ROUNDING: Final = 0.0005
"""Half of the last digit of a p90 in a topology, which has three decimals."""
PS_PER_US: Final = 1_000_000


class BandCount(NamedTuple):
    """Of `rows`, `covered` are such as a comparison of the topology has, and `inside` of these lie in its band."""

    inside: int
    covered: int
    rows: int

    @property
    def is_kept(self) -> bool:
        """Whether enough rows lie in the band. A topology that states no band for the rows keeps it."""
        return self.inside >= LEAST_SHARE * self.covered

    def __str__(self) -> str:
        if not self.covered:
            return "the chip states no band for such rows"
        others = f", and no band is stated for {self.rows - self.covered} more" if self.covered < self.rows else ""
        missed = "" if self.is_kept else f", less than {100 * LEAST_SHARE:g} %"
        return f"{self.inside} of {self.covered} rows lie in the band that the chip states{missed}{others}"


def with_band(summary: dict[str, Any], band: BandCount) -> dict[str, Any]:
    """Adds *band* to the *summary* of a device, which passes only if enough rows lie in the band."""
    passed = summary["passed"] and band.is_kept
    return {**summary, "band": band._asdict(), "band_text": str(band), "passed": passed}


def of_gemms(topology: Topology, comparisons: Sequence[Comparison]) -> BandCount:
    """Counts the rows of *comparisons* by the bands that `kb run gemm` prints for them on *topology*."""
    if not topology.spec.fidelity:
        return BandCount(0, 0, len(comparisons))
    bands = [
        (each.row.value * 1000, found.band_ns)
        for each in comparisons
        if (found := fidelity_of(topology, _run_of(each), *_times_ps(each))).band_ns is not None
    ]
    inside = sum(low <= measured_ns <= high for measured_ns, (low, high) in bands)
    return BandCount(inside, len(bands), len(comparisons))


def of_part(topology: Topology, comparisons: Sequence[Comparison]) -> BandCount:
    """Counts the rows of *comparisons*, all of one device, by the comparison of a part of *topology* with it."""
    stated = stated_p90(topology, comparisons[0].row.device)
    if stated is None:
        return BandCount(0, 0, len(comparisons))
    inside = sum(abs(each.ln_ratio) <= stated + ROUNDING for each in comparisons)
    return BandCount(inside, len(comparisons), len(comparisons))


def stated_p90(topology: Topology, device: str) -> float | None:
    """The p90 of the first comparison of *topology*, as it is, with *device*; None without any."""
    stated = [each for each in topology.spec.fidelity or [] if each.device == device]
    return next((each.p90 for each in stated if each.is_of(topology.digest)), None)


def _run_of(comparison: Comparison) -> KernelOfRun:
    """The run of the bundled benchmark `gemm` that is like the row: the library's product, from one A and one B."""
    size = size_of(comparison.row)
    facts = {"M": size.m, "N": size.n, "K": size.k, "dtype": size.dtype.value, "batch": size.batch}
    chosen = {"method": "library", "operands": "one_slice"}
    others = {"batch": 1} if size.batch > 1 else {}  # the benchmark has one product
    return KernelOfRun("gemm", bundled_as="gemm", facts={**facts, **chosen}, others=others)


def _times_ps(comparison: Comparison) -> tuple[int, int]:
    latency_us = comparison.simulated - comparison.startup
    return round(latency_us * PS_PER_US), round(comparison.startup * PS_PER_US)
