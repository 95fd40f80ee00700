"""One GEMM sharded over 1, 8, 128 and 512 PEs: correctness, scaling, and the simulator's time and memory.

Each chip is one `kb run gemm` in a process of its own, verified with a float64 reference. The exit code is 1 when a
chip is wrong. README.md has the results.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

KB = Path(sys.executable).with_name("kb")
CHIPS = {1: "one_pe", 8: "one_cube", 128: "one_sip", 512: "four_sip"}
FULL, QUICK = (4096, 14336, 4096), (512, 448, 128)


class Ran(NamedTuple):
    """The JSON of `kb run`, the command's wall seconds, and its peak memory."""

    result: dict[str, Any]
    wall_s: float
    peak_mib: float


class Row(NamedTuple):
    """One chip. `efficiency` is relative to one PE. Seconds are wall time; `wall_s` is that of the whole command."""

    pes: int
    latency_us: float
    efficiency: float
    tflops: float
    of_peak: float
    verified: bool
    max_abs_err: float | None
    pass1_s: float
    data_s: float
    verify_s: float
    wall_s: float
    peak_mib: float


def run(topology: str, shape: tuple[int, int, int], tile: str | None) -> Ran:
    """One run of the bundled benchmark. The run folder is deleted. Raises RuntimeError when there is no result."""
    assignments = [f"{name}={size}" for name, size in zip("MNK", shape, strict=True)] + [
        "dtype=f16",
        "operands=replicated",
    ]
    assignments += [f"tile={tile}"] if tile is not None else []
    params = [argument for each in assignments for argument in ("-p", each)]
    command = [str(KB), "run", "gemm", "--topology", topology, *params, "--keep", "none", "--json"]
    with TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
            began = perf_counter()
            process = subprocess.Popen([*command, "--out", str(folder / "runs")], stdout=out, stderr=err)
            _, status, usage = os.wait4(process.pid, 0)
            wall_s = perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        try:
            result = json.loads((folder / "out").read_bytes())
        except ValueError:
            said = (folder / "err").read_text().strip()
            raise RuntimeError(f"{topology}: kb exited with {process.returncode}: {said}") from None
    return Ran(result, wall_s, usage.ru_maxrss / 1024)


def measure(shape: tuple[int, int, int], tile: str | None) -> list[Row]:
    """A row for each chip, from 1 to 512 PEs. Raises RuntimeError when a run gives no result."""
    rows: list[Row] = []
    one_ps = 0
    for pes, topology in CHIPS.items():
        ran = run(topology, shape, tile)
        one_ps = one_ps or ran.result["latency_ps"]
        rows.append(_row(pes, ran, one_ps))
    return rows


def _row(pes: int, ran: Ran, one_ps: int) -> Row:
    result, wall = ran.result, ran.result["wall_s"]
    return Row(
        pes=pes,
        latency_us=result["latency_ps"] / 1e6,
        efficiency=one_ps / (pes * result["latency_ps"]),
        tflops=result["achieved_flops"] / 1e12,
        of_peak=result["achieved_flops"] / result["peak_flops"],
        verified=result["verified"],
        max_abs_err=result["max_abs_err"],
        pass1_s=wall["timing"],
        data_s=wall["data"],
        verify_s=wall["verify"],
        wall_s=ran.wall_s,
        peak_mib=ran.peak_mib,
    )


def print_table(rows: list[Row], shape: tuple[int, int, int], tile: str | None) -> None:
    print(f"{' x '.join(map(str, shape))}, f16, tiles of {tile or 'the benchmark'}")
    print(f"{'PEs':>5} {'latency':>13} {'efficiency':>11} {'TFLOP/s':>9} {'of peak':>8} {'verified':>9} "
          f"{'max error':>10} {'pass 1':>8} {'data':>8} {'verify':>8} {'in all':>8} {'memory':>9}")  # fmt: skip
    for row in rows:
        error = "-" if row.max_abs_err is None else f"{row.max_abs_err:.3g}"
        print(f"{row.pes:>5} {row.latency_us:>10.1f} us {row.efficiency:>10.1%} {row.tflops:>9.1f} {row.of_peak:>7.1%} "
              f"{'yes' if row.verified else 'NO':>9} {error:>10} {row.pass1_s:>6.1f} s {row.data_s:>6.1f} s "
              f"{row.verify_s:>6.1f} s {row.wall_s:>6.1f} s {row.peak_mib:>5.0f} MiB")  # fmt: skip


def main() -> int:
    """Print the table, or JSON. The exit code is 0 when the numbers of every chip are right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{' x '.join(map(str, QUICK))} instead")
    parser.add_argument("--tile", metavar="MxNxK", help="instead of the benchmark's own")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    shape = QUICK if options.quick else FULL
    rows = measure(shape, options.tile)
    if options.json:
        print(json.dumps({"shape": shape, "tile": options.tile, "rows": [row._asdict() for row in rows]}, indent=2))
    else:
        print_table(rows, shape, options.tile)
    return 0 if all(row.verified for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
