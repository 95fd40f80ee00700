"""Does a memory take as long for reads as the device that it describes? README.md describes the comparison.

    python benchmarks/validation/hbm.py PATH             # the HBM2 of a Xilinx U280, and tables without measurements
    python benchmarks/validation/hbm.py --data FILE [--picture scatter.svg] [--explain N] [--json]

PATH is a CSV with the columns quantity, memory, value. FILE is a CSV with the columns device, test, params, value,
unit, source, licence. A row of `dram_idle_latency` has the params `page=hit|closed|miss`, and a value in ns or in
cycles of the clock that the unit names; one of `dram_throughput` has `stride= nbytes= working_set=`, in bytes, and a
value in GB/s. Exit code 1: an error is above its target, or less than 85 % of the rows lie in the band that the chip
states. Exit code 2: a file cannot be used.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path
from typing import NamedTuple

import dram_rows
import measured
import traffic

KIB, MIB = 1024, 1 << 20
MEASURED = Path(__file__).parents[3] / "shared" / "data" / "hbm2_measured.csv"
PART = "HBM2 (U280)"
MAPPINGS = {"RGBCG": traffic.DEFAULT_MAPPING, "RBC": "14R-2BG-2B-5C", "BRC": "2BG-2B-14R-5C"}
STRIDES = (64, 256, KIB, 4 * KIB, 16 * KIB, 64 * KIB)
SIZES = (32, 64, 256, KIB)
WORKING_SETS = (8 * KIB, 64 * KIB, MIB, 16 * MIB, 256 * MIB)
N_READS = 4096


class Target(NamedTuple):
    """A measured quantity, its unit, and the largest error of the simulation in percent."""

    quantity: str
    unit: str
    percent: float


class TargetComparison(NamedTuple):
    """A quantity, measured and simulated."""

    quantity: str
    unit: str
    measured: float
    simulated: float
    error_percent: float
    target_percent: float


class Table(NamedTuple):
    """Simulated throughputs in GB/s: a row for each name, a column for each number of bytes."""

    title: str
    columns: tuple[int, ...]
    rows: dict[str, list[float]]


TARGETS = {
    Target("idle read latency page hit", "ns", 2): traffic.latency_hit_ns,
    Target("idle read latency page closed", "ns", 2): traffic.latency_closed_ns,
    Target("idle read latency page miss", "ns", 2): traffic.latency_miss_ns,
    Target("sequential read throughput one pseudo-channel", "GB/s", 3): lambda: traffic.throughput_gbs(
        64, 64, 256 * MIB, 32 * KIB
    ),
}


def read_measured(path: Path) -> dict[str, float]:
    """Quantities of the part by name. Raises OSError, and ValueError when a quantity of TARGETS is missing."""
    with path.open(newline="", encoding="utf-8") as file:
        found = {row["quantity"]: float(row["value"]) for row in csv.DictReader(file) if row["memory"] == PART}
    missing = [target.quantity for target in TARGETS if target.quantity not in found]
    if missing:
        raise ValueError(f"no row {missing[0]!r} of {PART}")
    return found


def compare(values: dict[str, float]) -> list[TargetComparison]:
    comparisons = []
    for target, simulate in TARGETS.items():
        expected, found = values[target.quantity], simulate()
        error = 100 * (found / expected - 1)
        comparisons.append(TargetComparison(target.quantity, target.unit, expected, found, error, target.percent))
    return comparisons


def tables() -> list[Table]:
    everything = traffic.CHANNEL_NBYTES
    return [
        Table(
            "over stride, by mapping (64 bytes a read, 256 MiB)",
            STRIDES,
            {
                name: [traffic.throughput_gbs(stride, 64, everything, N_READS, mapping) for stride in STRIDES]
                for name, mapping in MAPPINGS.items()
            },
        ),
        Table(
            "over stride, by bytes a read (RGBCG, 256 MiB)",
            STRIDES,
            {f"{size} B": [throughput_or_nan(stride, size, everything) for stride in STRIDES] for size in SIZES},
        ),
        Table(
            "over working set, by stride (RGBCG, 64 bytes a read)",
            WORKING_SETS,
            {
                label(stride): [throughput_or_nan(stride, 64, nbytes) for nbytes in WORKING_SETS]
                for stride in (64, KIB, 4 * KIB, 16 * KIB)
            },
        ),
    ]


def throughput_or_nan(stride: int, size: int, working_set: int) -> float:
    """The throughput, or NaN where reads would overlap or all have one address."""
    if stride < size or stride >= working_set:
        return float("nan")
    return traffic.throughput_gbs(stride, size, working_set, N_READS)


def label(nbytes: int) -> str:
    for unit, each in (("MiB", MIB), ("KiB", KIB)):
        if nbytes >= each:
            return f"{nbytes // each} {unit}"
    return f"{nbytes} B"


def comparison_text(comparisons: list[TargetComparison]) -> str:
    lines = [f"{'':47}{'measured':>10}{'simulated':>11}{'error':>13}  target"]
    for c in comparisons:
        values = f"{c.measured:10.2f}{c.simulated:11.2f} {c.unit:4}"
        lines.append(f"{c.quantity:47}{values}{c.error_percent:+6.2f} %  {c.target_percent:g} %")
    return "\n".join(lines)


def table_text(table: Table) -> str:
    lines = [f"Simulated GB/s {table.title}", f"{'':8}" + "".join(f"{label(each):>10}" for each in table.columns)]
    lines += [
        f"{name:8}" + "".join(f"{'-' if value != value else f'{value:.2f}':>10}" for value in values)
        for name, values in table.rows.items()
    ]
    return "\n".join(lines)


def as_json(comparisons: list[TargetComparison], found: list[Table]) -> str:
    plain = [
        {**table._asdict(), "rows": {n: [None if v != v else v for v in row] for n, row in table.rows.items()}}
        for table in found
    ]
    return json.dumps({"comparisons": [each._asdict() for each in comparisons], "tables": plain}, indent=2)


def compare_rows(options: argparse.Namespace) -> int:
    """Compare the rows of `--data`, print, and say by the exit code whether the targets are met."""
    try:
        rows = measured.read_rows(options.data, dram_rows.TESTS)
        for row in rows:
            dram_rows.check(row)
    except (OSError, ValueError) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error
        print(f"{options.data}: got {reason}; needs measured rows, see --help", file=sys.stderr)
        return 2
    comparisons = [dram_rows.simulate(row) for row in rows]
    devices = dict.fromkeys(row.device for row in rows)
    found = [dram_rows.validate(name, [each for each in comparisons if each.row.device == name]) for name in devices]
    return measured.show(comparisons, found, "Reads of a memory", dram_rows.explain, options)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", nargs="?", type=Path, default=MEASURED, help="CSV of measured values of the U280")
    parser.add_argument("--data", type=Path, help="CSV of measured rows of any device")
    parser.add_argument("--picture", type=Path, help="with --data: write an SVG of simulated over measured values")
    parser.add_argument("--explain", type=int, default=3, metavar="N", help="explain the N largest errors (default: 3)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.data is not None:
        return compare_rows(options)
    try:
        expected = read_measured(options.measured)
    except (OSError, ValueError, KeyError) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error
        text = f"{options.measured}: got {reason}, needs the measured values; pass the path of hbm2_measured.csv"
        print(text, file=sys.stderr)
        return 2
    comparisons, found = compare(expected), tables()
    if options.json:
        print(as_json(comparisons, found))
    else:
        print("\n\n".join([comparison_text(comparisons), *map(table_text, found)]))
    return 0 if all(abs(each.error_percent) <= each.target_percent for each in comparisons) else 1


if __name__ == "__main__":
    sys.exit(main())
