"""Does a chip take as long for GEMMs as the device that it describes? README.md describes the comparison.

    python benchmarks/validation/gemm.py --data FILE              # all GEMM rows of FILE
    python benchmarks/validation/gemm.py --data FILE --device h100_sxm --picture scatter.svg

FILE is a CSV with the columns device, test, params, value, unit, source, licence. Rows of the test `gemm` have params
`M= N= K= dtype=` and a value in us. Exit code 1: the error of a device is above its target, or above that of a roofline
with two numbers fitted to the same rows. Exit code 2: FILE cannot be used.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import measured
from library_gemm import launch_gemm
from measured import Comparison, MeasuredRow

from kb_engine import DType, Engine, Host
from kb_plans import GemmSize
from kb_topology import Topology, load_topology


class GemmDevice(NamedTuple):
    """The topology of a device, and the largest mean error in percent."""

    topology: str
    mape_percent: float


DEVICES = {"a100_sxm_80gb": GemmDevice("a100", 4.0), "h100_sxm": GemmDevice("h100", 7.0)}
MOST_FITTED = 2


class Roofline(NamedTuple):
    """A GEMM takes `constant_us`, and the longer of its operations and its bytes, the operations at a part of the peak.

    `peak_flops` and `gbs` are those of the topology. If not `overlaps`, the GEMM takes both times, one after the other.
    """

    peak_flops: float
    gbs: float
    efficiency: float = 1.0
    constant_us: float = 0.0
    overlaps: bool = True

    def us(self, row: MeasuredRow) -> float:
        """Microseconds of *row*."""
        m, n, k, dtype = shape_of(row)
        flops_us = 2e6 * m * n * k / (self.efficiency * self.peak_flops)
        bytes_us = (m * k + k * n + m * n) * dtype.nbytes / self.gbs / 1000
        return self.constant_us + (max(flops_us, bytes_us) if self.overlaps else flops_us + bytes_us)

    def fitted(self, rows: Sequence[MeasuredRow]) -> Roofline:
        """With the part of the peak and the constant that make the mean error of *rows* least, on a grid.

        Of the two ways to put operations and bytes together, it is the better one.
        """
        shortest = min(row.value for row in rows)
        candidates = [
            self._replace(efficiency=part / 100, constant_us=shortest * step / 50, overlaps=overlaps)
            for overlaps in (True, False)
            for part in range(40, 101)
            for step in range(51)
        ]
        return min(candidates, key=lambda each: each.mape(rows))

    def mape(self, rows: Sequence[MeasuredRow]) -> float:
        """The mean error over *rows*, in percent."""
        return measured.mape([(row.value, self.us(row)) for row in rows])


def shape_of(row: MeasuredRow) -> tuple[int, int, int, DType]:
    """M, N, K and dtype of *row*. Raises ValueError for other params."""
    try:
        m, n, k = (int(row.params[name]) for name in "MNK")
        dtype = DType(row.params["dtype"])
    except (KeyError, ValueError):
        raise ValueError(f"a row of {row.device} with {row.params}, and not with M, N, K and dtype") from None
    if min(m, n, k) < 1:
        raise ValueError(f"a row of {row.device} with {row.params}: sides are at least 1")
    if set(row.params) != {"M", "N", "K", "dtype"}:
        raise ValueError(f"a row of {row.device} with {row.params}: only M, N, K and dtype are known")
    return m, n, k, dtype


def size_of(row: MeasuredRow) -> GemmSize:
    """The GEMM of *row*, with a C of the operands' type. Raises ValueError as `shape_of`."""
    m, n, k, dtype = shape_of(row)
    return GemmSize(m, n, k, dtype, dtype)


@cache
def chip(name: str) -> Topology:
    """The topology *name* of a device."""
    return load_topology(measured.TOPOLOGIES / f"{name}.yaml")


def simulate(topology: Topology, row: MeasuredRow) -> Comparison:
    """Run the GEMM of *row* without log and data.

    Measurements repeat a GEMM. So where all its bytes fit the cache, it runs twice, and the second run counts.
    """
    began = time.perf_counter()
    shape = size_of(row)
    host = Host(Engine(topology), Path(__file__).parent)
    a, b = host.empty("a", (shape.m, shape.k), shape.dtype), host.empty("b", (shape.k, shape.n), shape.dtype)
    c = host.empty("c", (shape.m, shape.n), shape.dtype)
    cut = launch_gemm(host, shape, a, b, c)
    if sum(matrix.nbytes for each in (a, b, c) for _, matrix in each.every_block()) <= cache_nbytes(host):
        cut = launch_gemm(host, shape, a, b, c)
    result = host.launches[-1]
    simulated_us = (result.response_ps - result.call_ps) / 1e6
    note = f"tiles {cut.tile}" + (f", K in {cut.splits} parts" if cut.splits > 1 else "")
    return Comparison(row, simulated_us, time.perf_counter() - began, note)


def cache_nbytes(host: Host) -> int:
    """The bytes of all caches of the chip."""
    specs: list[Any] = [block.spec for block in host.engine.components.values()]
    return sum(spec.sets * spec.ways * spec.line_nbytes for spec in specs if hasattr(spec, "ways"))


def roofline(topology: Topology, dtype: DType) -> Roofline:
    """The roofline of *topology*, from its blocks."""
    engine = Engine(topology)
    blocks: list[Any] = list(engine.components.values())
    peak = sum(block.peak_flops(dtype) for block in blocks if hasattr(block, "peak_flops"))
    return Roofline(
        peak, sum(block.spec.bw_gbs for block in blocks if block.node_id.rpartition(".")[2].startswith("hbm"))
    )


def validate(device: str, rows: Sequence[MeasuredRow]) -> tuple[list[Comparison], dict[str, Any]]:
    """All *rows* of *device*, and what they come to."""
    target = DEVICES[device]
    topology = chip(target.topology)
    comparisons = [simulate(topology, row) for row in rows]
    plain = roofline(topology, shape_of(rows[0])[3])
    ledger = measured.fitted(measured.TOPOLOGIES / f"{target.topology}.yaml")
    error, bound = measured.mape_of(comparisons), plain.fitted(rows).mape(rows)
    return comparisons, {
        "device": device,
        "rows": len(rows),
        "p90": measured.p90(comparisons),
        "mape_percent": error,
        "target_percent": target.mape_percent,
        "roofline_percent": plain.mape(rows),
        "fitted_roofline_percent": bound,
        "fitted": ledger,
        "wall_s": sum(each.wall_s for each in comparisons),
        "passed": error <= target.mape_percent and error < bound and len(ledger) <= MOST_FITTED,
    }


def explain(comparison: Comparison) -> str:
    """Where the time of the row's slowest PE goes, as the blocks count it."""
    shape = size_of(comparison.row)
    engine = Engine(chip(DEVICES[comparison.row.device].topology))
    host = Host(engine, Path(__file__).parent)
    a, b = host.empty("a", (shape.m, shape.k), shape.dtype), host.empty("b", (shape.k, shape.n), shape.dtype)
    launch_gemm(host, shape, a, b, host.empty("c", (shape.m, shape.n), shape.dtype))
    whole = max(1, engine.clock.now_ps)
    busiest: dict[str, int] = {}
    for server in engine.servers:
        name = server.stage_type.name
        busiest[name] = max(busiest.get(name, 0), server.busy_ps)
    start = min(host.launches[-1].pe_start_ps.values())
    shares = ", ".join(
        f"{name} {100 * busy / whole:.0f} %" for name, busy in sorted(busiest.items(), key=lambda b: -b[1])
    )
    return f"start-up {100 * start / whole:.0f} %; the busiest PE's {shares}; {comparison.note}"


def report(summary: dict[str, Any]) -> str:
    """A paragraph on one device."""
    return (
        f"{summary['device']}: {summary['rows']} rows, p90 {summary['p90']:.3f}, MAPE {summary['mape_percent']:.1f} % "
        f"(target {summary['target_percent']:g} %); roofline {summary['roofline_percent']:.1f} % with nothing fitted, "
        f"{summary['fitted_roofline_percent']:.1f} % with two numbers fitted; {len(summary['fitted'])} fitted numbers "
        f"({', '.join(summary['fitted']) or 'none'}); {summary['wall_s']:.1f} s"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print, and say by the exit code whether the targets are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="CSV of measured rows")
    parser.add_argument("--device", choices=sorted(DEVICES), help="rows of this device alone")
    parser.add_argument("--picture", type=Path, help="write an SVG of simulated over measured values")
    parser.add_argument("--explain", type=int, default=3, metavar="N", help="explain the N largest errors (default: 3)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    try:
        rows = measured.read_rows(options.data, ("gemm",))
        rows = [row for row in rows if options.device in (None, row.device)]
        unknown = sorted({row.device for row in rows} - set(DEVICES))
        if unknown or not rows:
            raise ValueError(f"rows of {', '.join(unknown) or 'no device'}, needs {', '.join(DEVICES)}")
        for row in rows:
            shape_of(row)
    except (OSError, ValueError) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error
        print(f"{options.data}: got {reason}; needs measured rows, see --help", file=sys.stderr)
        return 2
    found = [
        validate(device, [row for row in rows if row.device == device])
        for device in dict.fromkeys(r.device for r in rows)
    ]
    comparisons = [each for some, _ in found for each in some]
    if options.picture is not None:
        options.picture.write_text(measured.picture(comparisons, "GEMMs"), encoding="utf-8")
    if options.json:
        print(measured.as_json(comparisons, {"devices": [summary for _, summary in found]}))
    else:
        print(measured.table(comparisons))
        print("\n".join(["", *(report(summary) for _, summary in found)]))
        if options.explain:
            print(f"\nLargest errors\n{measured.largest(comparisons, options.explain, explain)}")
    return 0 if all(summary["passed"] for _, summary in found) else 1


if __name__ == "__main__":
    sys.exit(main())
