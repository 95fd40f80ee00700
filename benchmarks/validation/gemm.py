"""Does a chip take as long for GEMMs as the device that it describes? README.md describes the comparison.

    python benchmarks/validation/gemm.py --data FILE              # all GEMM rows of FILE
    python benchmarks/validation/gemm.py --data FILE --device h100_sxm --picture scatter.svg
    python benchmarks/validation/gemm.py --data FILE --device NAME --topology h200    # a device of another name
    python benchmarks/validation/gemm.py --data FILE --halves     # fit half of the rows, and predict the others

FILE is a CSV with the columns device, test, params, value, unit, source, licence. Rows of the test `gemm` have params
`M= N= K= dtype=`, and `batch=` where several products of one shape are one call, and a value in us. Exit code 1: the
error of a device is above its target, or above that of a roofline with two numbers fitted to the same rows; less than
85 % of the rows that a comparison of the chip covers lie in the band that it states; or, with `--halves`, the band is
narrower than that of the rows that are predicted. Exit code 2: FILE cannot be used.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import gemm_halves
import measured
import stated_bands
from gemm_roofline import roofline, size_of
from gemm_runs import chip, explain, simulate
from measured import Comparison, MeasuredRow

from kb_messages import KbError


class GemmDevice(NamedTuple):
    """The topology of a device, the largest mean error in percent or the largest p90, and the most fitted numbers."""

    topology: str
    mape_percent: float | None = None
    p90: float = 0.15
    most_fitted: int = 0


DEVICES: Final = {
    "a100_sxm_80gb": GemmDevice("a100", 4.0, most_fitted=2),
    "h100_sxm": GemmDevice("h100", 7.0, most_fitted=2),
    "v100_sxm2": GemmDevice("v100"),
    "h200_sxm": GemmDevice("h200"),
    "b200_sxm": GemmDevice("b200"),
    "tpu_v4": GemmDevice("tpu_v4"),
    "trainium2": GemmDevice("trainium2"),
}


def validate(device: str, target: GemmDevice, rows: Sequence[MeasuredRow]) -> tuple[list[Comparison], dict[str, Any]]:
    """The comparisons of all *rows* of *device*, and their summary."""
    topology = chip(target.topology)
    comparisons = [simulate(topology, row) for row in rows]
    plain = roofline(topology, size_of(rows[0]).dtype)
    ledger = measured.fitted(measured.TOPOLOGIES / f"{target.topology}.yaml")
    error, p90, bound = measured.mape_of(comparisons), measured.p90(comparisons), plain.fitted(rows).mape(rows)
    within = p90 <= target.p90 if target.mape_percent is None else error <= target.mape_percent and error < bound
    summary = {
        "device": device,
        "topology": target.topology,
        "rows": len(rows),
        "p90": p90,
        "mape_percent": error,
        "target_percent": target.mape_percent,
        "target_p90": target.p90,
        "roofline_percent": plain.mape(rows),
        "fitted_roofline_percent": bound,
        "fitted": ledger,
        "wall_s": sum(each.wall_s for each in comparisons),
        "passed": within and len(ledger) <= target.most_fitted,
    }
    return comparisons, stated_bands.with_band(summary, stated_bands.of_gemms(topology, comparisons))


def report(summary: dict[str, Any]) -> str:
    """A paragraph on one device."""
    percent = summary["target_percent"]
    p90_target = f" (target {summary['target_p90']:g})" if percent is None else ""
    mape_target = "" if percent is None else f" (target {percent:g} %)"
    return (
        f"{summary['device']}: {summary['rows']} rows, p90 {summary['p90']:.3f}{p90_target}, "
        f"MAPE {summary['mape_percent']:.1f} %{mape_target}; roofline {summary['roofline_percent']:.1f} % with nothing "
        f"fitted, {summary['fitted_roofline_percent']:.1f} % with two numbers fitted; {len(summary['fitted'])} fitted "
        f"numbers ({', '.join(summary['fitted']) or 'none'}); {summary['band_text']}; {summary['wall_s']:.1f} s"
    )


def targets(rows: Sequence[MeasuredRow], topology: str | None) -> dict[str, GemmDevice]:
    """The device of each row, by name. With *topology*, all rows are of that chip. Raises ValueError for others."""
    names = dict.fromkeys(row.device for row in rows)
    if topology is not None:
        known = sorted(path.stem for path in measured.TOPOLOGIES.glob("*.yaml"))
        if topology not in known:
            raise ValueError(f"the topology {topology}, needs one of {', '.join(known)}")
        of_chip = [device for device in DEVICES.values() if device.topology == topology]
        return dict.fromkeys(names, of_chip[0] if of_chip else GemmDevice(topology))
    unknown = sorted(set(names) - set(DEVICES))
    if unknown or not rows:
        raise ValueError(f"rows of {', '.join(unknown) or 'no device'}, needs {', '.join(DEVICES)}, or --topology")
    return {name: DEVICES[name] for name in names}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="CSV of measured rows")
    parser.add_argument("--device", help="rows of this device alone")
    parser.add_argument("--topology", help="run all rows on this chip of topologies/devices")
    parser.add_argument("--picture", type=Path, help="write an SVG of simulated over measured values")
    parser.add_argument("--explain", type=int, default=3, metavar="N", help="explain the N largest errors (default: 3)")
    parser.add_argument("--halves", action="store_true", help="fit every second row, and predict the others")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print, and say by the exit code whether the targets are met."""
    options = parse(arguments)
    try:
        rows = measured.read_rows(options.data, ("gemm",))
        rows = [row for row in rows if options.device in (None, row.device)]
        devices = targets(rows, options.topology)
        for row in rows:
            size_of(row)
        groups = {name: [row for row in rows if row.device == name] for name in devices}
        found = [validate(name, devices[name], group) for name, group in groups.items()]
    except (OSError, ValueError, KbError) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error
        print(f"{options.data}: got {reason}; needs measured rows, see --help", file=sys.stderr)
        return 2
    comparisons, summaries = [each for some, _ in found for each in some], [summary for _, summary in found]
    halves = [
        gemm_halves.predict(name, devices[name].topology, group)
        for name, group in groups.items()
        if options.halves and devices[name].most_fitted
    ]
    if options.picture is not None:
        options.picture.write_text(measured.picture(comparisons, "GEMMs"), encoding="utf-8")
    passed = all(summary["passed"] for summary in summaries) and all(each.is_stated for each in halves)
    if options.json:
        print(measured.as_json(comparisons, {"devices": summaries, "halves": [each._asdict() for each in halves]}))
        return 0 if passed else 1
    print(measured.table(comparisons))
    print("\n".join(["", *map(report, summaries), *map(str, halves)]))
    if options.explain:
        topologies = {name: chip(device.topology) for name, device in devices.items()}
        say = partial(_explained, topologies)
        print(f"\nLargest errors\n{measured.largest(comparisons, options.explain, say)}")
    return 0 if passed else 1


def _explained(topologies: dict[str, Any], comparison: Comparison) -> str:
    return explain(topologies[comparison.row.device], comparison)


if __name__ == "__main__":
    sys.exit(main())
