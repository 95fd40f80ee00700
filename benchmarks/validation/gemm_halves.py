"""Fit the two numbers of a GPU to half of its rows, and predict the other half: a guard against fitting too much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import measured
import stated_bands
from gemm_runs import run_gemm
from measured import MeasuredRow

from kb_topology import YamlSource, load_topology, loads_topology, parse_path, value_at, with_values

STARTUP, CLOCK = (
    parse_path(f"$.cube.pe_template.nodes.{name}") for name in ("pe_cpu.startup_ns", "pe_gemm.sustained_clock_ghz")
)
PARTS = (0.92, 1.0, 1.08)
"""The clocks that are simulated, as parts of the topology's. Times between them follow from a parabola in 1 / clock."""


class Halves(NamedTuple):
    """The mean errors in percent of rows that were fitted, and of rows that were not, and the numbers of each half.

    `predicted_p90` is the 90th percentile of the rows that were not fitted, over both halves. `stated_p90` is the one
    that the topology states for the device, and None without any.
    """

    device: str
    fitted_percent: float
    predicted_percent: float
    predicted_p90: float
    numbers: list[tuple[float, float]]
    stated_p90: float | None = None

    @property
    def is_stated(self) -> bool:
        """Whether the topology states no narrower band than that of the rows that were not fitted."""
        return self.stated_p90 is None or self.predicted_p90 <= self.stated_p90 + stated_bands.ROUNDING

    def __str__(self) -> str:
        stated = "" if self.is_stated else f"; the chip states a narrower p90, {self.stated_p90:g}"
        numbers = ", ".join(f"{startup_ns:.0f} ns and {ghz:.3f} GHz" for startup_ns, ghz in self.numbers)
        return (
            f"{self.device}: fitted to every second row, MAPE {self.fitted_percent:.1f} %; of the rows left out, "
            f"{self.predicted_percent:.1f} % and p90 {self.predicted_p90:.3f} ({numbers}){stated}"
        )


class Curve(NamedTuple):
    """Microseconds of a row without start-up, at three values of 1 / clock."""

    row: MeasuredRow
    at: tuple[float, ...]
    us: tuple[float, ...]

    def predict(self, startup_us: float, ghz: float) -> float:
        """Microseconds with a start-up and a clock. The time between the three values is Lagrange's parabola."""
        x, total = 1 / ghz, startup_us
        for i, us in enumerate(self.us):
            weight = 1.0
            for j, other in enumerate(self.at):
                weight *= 1.0 if i == j else (x - other) / (self.at[i] - other)
            total += weight * us
        return total


def predict(device: str, name: str, rows: Sequence[MeasuredRow]) -> Halves:
    """Fit each half of *rows*, and predict the other with its numbers."""
    curves = curves_of(name, rows)
    halves = curves[::2], curves[1::2]
    numbers = [fit(half) for half in halves]
    inside = [pair for half, each in zip(halves, numbers, strict=True) for pair in pairs(half, *each)]
    outside = [pair for half, each in zip(halves, reversed(numbers), strict=True) for pair in pairs(half, *each)]
    in_ns = [(1000 * startup_us, ghz) for startup_us, ghz in numbers]
    stated = stated_bands.stated_p90(load_topology(measured.TOPOLOGIES / f"{name}.yaml"), device)
    return Halves(device, measured.mape(inside), measured.mape(outside), measured.p90_of(outside), in_ns, stated)


def curves_of(name: str, rows: Sequence[MeasuredRow]) -> list[Curve]:
    """Every row of *rows*, simulated at three clocks of the topology *name*."""
    path = measured.TOPOLOGIES / f"{name}.yaml"
    source = YamlSource(str(path), path.read_text(encoding="utf-8"))
    startup_us, ghz = float(value_at(source, STARTUP)) / 1000, float(value_at(source, CLOCK))
    clocks = [part * ghz for part in PARTS]
    chips = [loads_topology(with_values(source, {CLOCK: f"{clock:.6f}"}).text, str(path)) for clock in clocks]
    inverse = tuple(1 / clock for clock in clocks)
    return [
        Curve(row, inverse, tuple(run_gemm(chip, row).took_ps / 1e6 - startup_us for chip in chips)) for row in rows
    ]


def fit(curves: Sequence[Curve]) -> tuple[float, float]:
    """The start-up in us and the clock in GHz that make the mean error of *curves* least, on a grid."""
    shortest = min(curve.row.value for curve in curves)
    ghz = 1 / curves[0].at[PARTS.index(1.0)]
    candidates = [(shortest * step / 100, ghz * (0.9 + 0.004 * part)) for step in range(101) for part in range(51)]
    return min(candidates, key=lambda each: measured.mape(pairs(curves, *each)))


def pairs(curves: Sequence[Curve], startup_us: float, ghz: float) -> list[tuple[float, float]]:
    """(measured, predicted) of all *curves*."""
    return [(curve.row.value, curve.predict(startup_us, ghz)) for curve in curves]
