"""Measured rows of devices, simulated values for them, and the errors of the simulation."""

from __future__ import annotations

import csv
import json
import math
import re
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

TOPOLOGIES = Path(__file__).parents[2] / "topologies" / "devices"
COLUMNS = ("device", "test", "params", "value", "unit", "source", "licence")
FITTED = re.compile(r"FITTED: (\d+) rows of (\S+)")


class MeasuredRow(NamedTuple):
    """A line of the data: a test on a device, and its measured value in the unit of the line."""

    device: str
    test: str
    params: dict[str, str]
    value: float
    unit: str


class Comparison(NamedTuple):
    """A row, the simulated value in the same unit, and the seconds that the simulation took. `note` explains it.

    `startup` is the part of the simulated value that is the start-up of the kernel.
    """

    row: MeasuredRow
    simulated: float
    wall_s: float
    note: str = ""
    startup: float = 0.0

    @property
    def ln_ratio(self) -> float:
        """The natural logarithm of simulated over measured."""
        return math.log(self.simulated / self.row.value)


def read_rows(path: Path, tests: Sequence[str]) -> list[MeasuredRow]:
    """The rows of *path* whose test is one of *tests*. Raises OSError, and ValueError for anything but such rows."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise ValueError(f"no column {missing[0]!r}")
        found = [_row(line, reader.line_num) for line in reader if line["test"] in tests]
    if not found:
        raise ValueError(f"no row of the tests {', '.join(tests)}")
    return found


def _row(line: dict[str, str], number: int) -> MeasuredRow:
    pairs = [word.partition("=") for word in line["params"].split()]
    try:
        value = float(line["value"])
    except ValueError:
        raise ValueError(f"line {number}: the value {line['value']!r}, which is no number") from None
    if not (value > 0 and math.isfinite(value)) or not all(name and each for name, _, each in pairs):
        raise ValueError(f"line {number}: value {line['value']!r} and params {line['params']!r}")
    return MeasuredRow(line["device"], line["test"], {name: each for name, _, each in pairs}, value, line["unit"])


def fitted(topology: Path) -> list[str]:
    """The rows, and their file, to which the topology's text says that each of its numbers was fitted."""
    return [" rows of ".join(each) for each in FITTED.findall(topology.read_text(encoding="utf-8"))]


def p90(comparisons: Sequence[Comparison]) -> float:
    """The 90th percentile of the absolute logarithms of simulated over measured: a tenth of the rows is above it."""
    return p90_of([(each.row.value, each.simulated) for each in comparisons])


def p90_of(values: Sequence[tuple[float, float]]) -> float:
    """The 90th percentile, as `p90`, of (measured, simulated)."""
    ordered = sorted(abs(math.log(simulated / measured)) for measured, simulated in values)
    return ordered[max(0, math.ceil(0.9 * len(ordered)) - 1)]


def mape(values: Sequence[tuple[float, float]]) -> float:
    """The mean absolute error of (measured, simulated), in percent of the measured values."""
    return 100 * sum(abs(simulated / measured - 1) for measured, simulated in values) / len(values)


def mape_of(comparisons: Sequence[Comparison]) -> float:
    """The mean absolute error of *comparisons* in percent of the measured values."""
    return mape([(each.row.value, each.simulated) for each in comparisons])


def table(comparisons: Sequence[Comparison]) -> str:
    """A line for each row. The start-up of kernels, which the simulated value counts, has a column if there is any."""
    has_startup = any(each.startup for each in comparisons)
    names = [
        f"{each.row.device} {each.row.test} " + " ".join(f"{key}={value}" for key, value in each.row.params.items())
        for each in comparisons
    ]
    width = max(44, *map(len, names))
    of_it = f"{'start-up':>12}" if has_startup else ""
    lines = [f"{'':{width}}{'measured':>12}{'simulated':>12}{of_it}{'ln ratio':>10}{'wall s':>8}"]
    for name, each in zip(names, comparisons, strict=True):
        of_it = f"{each.startup:12.4g}" if has_startup else ""
        values = f"{each.row.value:12.4g}{each.simulated:12.4g}{of_it}{each.ln_ratio:+10.3f}{each.wall_s:8.2f}"
        lines.append(f"{name:{width}}{values}  {each.note}".rstrip())
    return "\n".join(lines)


def largest(comparisons: Sequence[Comparison], count: int, explain: Callable[[Comparison], str]) -> str:
    """The *count* rows that are farthest off, each with the text of *explain*."""
    worst = sorted(comparisons, key=lambda each: -abs(each.ln_ratio))[:count]
    return "\n".join(
        f"{each.row.device} {' '.join(f'{k}={v}' for k, v in each.row.params.items())}: {each.ln_ratio:+.3f}; "
        f"{explain(each)}"
        for each in worst
    )


def p90_summary(
    device: str, comparisons: Sequence[Comparison], topology: Path, target_p90: float, most_fitted: int
) -> dict[str, Any]:
    """The summary of the *comparisons* of *device*, on *topology*, beside the bounds of p90 and of the ledger."""
    ledger, found = fitted(topology), p90(comparisons)
    return {
        "device": device,
        "rows": len(comparisons),
        "p90": found,
        "target_p90": target_p90,
        "mape_percent": mape_of(comparisons),
        "fitted": ledger,
        "wall_s": sum(each.wall_s for each in comparisons),
        "passed": found <= target_p90 and len(ledger) <= most_fitted,
    }


def show(
    comparisons: Sequence[Comparison],
    summaries: Sequence[dict[str, Any]],
    title: str,
    explain: Callable[[Comparison], str],
    options: Namespace,
) -> int:
    """Draw and print as *options* say, and return the exit code: 1 where a target is missed."""
    if options.picture is not None:
        options.picture.write_text(picture(comparisons, title), encoding="utf-8")
    if options.json:
        print(as_json(comparisons, {"devices": summaries}))
    else:
        print(table(comparisons))
        print("\n".join(["", *map(p90_report, summaries)]))
        if options.explain:
            print(f"\nLargest errors\n{largest(comparisons, options.explain, explain)}")
    return 0 if all(summary["passed"] for summary in summaries) else 1


def p90_report(summary: dict[str, Any]) -> str:
    """A sentence on a device that has a target of p90."""
    return (
        f"{summary['device']}: {summary['rows']} rows, p90 {summary['p90']:.3f} (target {summary['target_p90']:g}), "
        f"MAPE {summary['mape_percent']:.1f} %; {len(summary['fitted'])} fitted numbers "
        f"({', '.join(summary['fitted']) or 'none'}); {summary['band_text']}; {summary['wall_s']:.1f} s"
    )


_FIGURES = ("simulated", "startup", "ln_ratio", "wall_s")


def as_json(comparisons: Sequence[Comparison], summary: dict[str, object]) -> str:
    """One JSON object: the summary, and a list of the rows."""
    rows = [{**each.row._asdict(), **{name: getattr(each, name) for name in _FIGURES}} for each in comparisons]
    return json.dumps({**summary, "rows": rows}, indent=2)


def picture(comparisons: Sequence[Comparison], title: str) -> str:
    """An SVG of simulated over measured values on logarithmic axes, a dot for each row. On the line both agree."""
    values = [value for each in comparisons for value in (each.row.value, each.simulated)]
    low, high = math.log10(min(values)) - 0.1, math.log10(max(values)) + 0.1
    side, margin = 400.0, 50.0

    def at(value: float) -> float:
        return (math.log10(value) - low) / (high - low) * side

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side + 2 * margin:g} {side + 2 * margin:g}">',
        "<style>text {font: 11px sans-serif}</style>",
        f'<rect x="{margin:g}" y="{margin:g}" width="{side:g}" height="{side:g}" fill="none" stroke="#888"/>',
        f'<line x1="{margin:g}" y1="{margin + side:g}" x2="{margin + side:g}" y2="{margin:g}" stroke="#888"/>',
        f'<text x="{margin + side / 2:g}" y="30" text-anchor="middle" font-size="14">{title}</text>',
    ]
    unit = comparisons[0].row.unit
    for power in range(math.ceil(low), math.floor(high) + 1):
        place = at(10.0**power)
        parts.append(
            f'<text x="{margin + place:.1f}" y="{margin + side + 15:g}" text-anchor="middle">{10.0**power:g}</text>'
        )
        parts.append(
            f'<text x="{margin - 5:g}" y="{margin + side - place + 4:.1f}" text-anchor="end">{10.0**power:g}</text>'
        )
    parts.append(
        f'<text x="{margin + side / 2:g}" y="{margin + side + 35:g}" text-anchor="middle">measured, {unit}</text>'
    )
    parts.append(
        f'<text x="14" y="{margin + side / 2:g}" text-anchor="middle" '
        f'transform="rotate(-90 14 {margin + side / 2:g})">simulated, {unit}</text>'
    )
    parts += [
        f'<circle cx="{margin + at(each.row.value):.1f}" cy="{margin + side - at(each.simulated):.1f}" r="3" '
        'fill="#2266cc" fill-opacity="0.7"/>'
        for each in comparisons
    ]
    return "\n".join([*parts, "</svg>", ""])
