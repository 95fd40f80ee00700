"""Do GPUs behind a switch take as long for an all-reduce as those of a DGX? See README.md.

    python benchmarks/validation/collectives.py --data FILE
    python benchmarks/validation/collectives.py --data FILE --device dgx_h100 --most-nbytes 1048576

FILE is a CSV with the columns device, test, params, value, unit, source, licence. Rows of the test `all_reduce` have
params `ranks= nbytes=` and a value in us. The bandwidth of a link and a constant are fitted to the rows of every
second size, and predict the others. Exit code 2: FILE cannot be used.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import measured
import size_halves
from gpu_rings import long_all_reduce_us
from measured import MeasuredRow
from size_halves import Prediction

from kb_messages import KbError

DEVICES: Final = {"dgx_a100": "a100", "dgx_h100": "h100"}
SIMULATED_GBS: Final = (150.0, 450.0)
"""The bandwidths that are simulated. Times between them follow from a line in 1 / bandwidth."""
N_TRIED: Final = 60
"""The bandwidths that are tried in the fit, from the smallest to the largest."""


class Curve(NamedTuple):
    """Microseconds of a row, without a constant, at the bandwidths of `SIMULATED_GBS`."""

    row: MeasuredRow
    us: tuple[float, ...]

    def at(self, gbs: float) -> float:
        """Microseconds at *gbs*, within those that were simulated."""
        low, high = (1 / each for each in SIMULATED_GBS)
        return self.us[0] + (1 / gbs - low) / (high - low) * (self.us[1] - self.us[0])


class Fit(NamedTuple):
    """The bandwidth of a link in GB/s, each way, and the constant in us."""

    gbs: float
    constant_us: float


def curve_of(row: MeasuredRow) -> Curve:
    """Simulates *row* at each bandwidth, by a ring, or by a tree where few bytes are
    faster so. Raises ValueError for other params."""
    ranks, nbytes = sizes_of(row)
    return Curve(row, tuple(long_all_reduce_us(DEVICES[row.device], ranks, gbs, nbytes) for gbs in SIMULATED_GBS))


def sizes_of(row: MeasuredRow) -> tuple[int, int]:
    """The ranks and the bytes of *row*. Raises ValueError for other params, and for what cannot be run."""
    if set(row.params) != {"ranks", "nbytes"} or row.unit != "us":
        raise ValueError(f"params {' '.join(row.params)} in {row.unit}, needs ranks nbytes in us")
    try:
        ranks, nbytes = int(row.params["ranks"]), int(row.params["nbytes"])
    except ValueError:
        raise ValueError(f"ranks={row.params['ranks']} nbytes={row.params['nbytes']}") from None
    if not 2 <= ranks <= 16 or nbytes < 2 or nbytes % 2:
        raise ValueError(f"ranks={ranks} nbytes={nbytes}, needs 2 to 16 ranks, and elements of two bytes")
    return ranks, nbytes


def fit(curves: Sequence[Curve]) -> Fit:
    """The bandwidth and the constant that make the mean size of the logarithm of simulated over measured least."""
    ends = SIMULATED_GBS[0], SIMULATED_GBS[-1]
    found = []
    for gbs in (ends[0] * (ends[1] / ends[0]) ** (step / N_TRIED) for step in range(N_TRIED + 1)):
        values = [(curve.row.value, curve.at(gbs)) for curve in curves]
        constant = size_halves.constant_of(values)
        found.append((size_halves.mean_size([(value, us + constant) for value, us in values]), Fit(gbs, constant)))
    return min(found, key=lambda each: each[0])[1]


def summary(device: str, curves: Sequence[Curve]) -> dict[str, Any]:
    """The errors of the rows of *device*, each predicted with what was fitted to other sizes."""
    halves = size_halves.halves([each.row for each in curves], "nbytes")
    fits = [fit([curves[at] for at in half]) for half in halves]
    rows = [
        Prediction(curve.row.params, curve.row.value, curve.at(of.gbs) + of.constant_us)
        for half, of in zip(halves, reversed(fits), strict=True)
        for curve in (curves[at] for at in half)
    ]
    errors = size_halves.errors_by(rows, ("ranks", "nbytes"))
    return {"device": device, "fits": [each._asdict() for each in fits], "errors": errors}


def text_of(found: dict[str, Any]) -> str:
    """A paragraph and a table on a device."""
    fits = " and ".join(f"{each['gbs']:.0f} GB/s and {each['constant_us']:.1f} us" for each in found["fits"])
    head = f"{found['device']}: a link of {fits}, fitted to every second size; errors of the others"
    return f"{head}\n{size_halves.table(found['errors'])}"


def chosen_rows(options: argparse.Namespace) -> list[MeasuredRow]:
    """The rows of the file that *options* name. Raises OSError, and ValueError for rows that cannot be used."""
    rows = measured.read_rows(options.data, ("all_reduce",))
    if unknown := sorted({row.device for row in rows} - set(DEVICES)):
        raise ValueError(f"rows of {', '.join(unknown)}, needs {', '.join(DEVICES)}")
    most = options.most_nbytes
    found = [row for row in rows if options.device in (None, row.device)]
    found = [row for row in found if most is None or sizes_of(row)[1] <= most]
    if not found:
        raise ValueError("no row of this device and size")
    return found


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="CSV of measured rows")
    parser.add_argument("--device", choices=tuple(DEVICES), help="rows of this device alone")
    parser.add_argument("--most-nbytes", type=int, help="rows of at most so many bytes")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, fit, and print."""
    options = parse(arguments)
    try:
        began = time.perf_counter()
        curves = [curve_of(row) for row in chosen_rows(options)]
        wall_s = time.perf_counter() - began
        by_device = {name: [each for each in curves if each.row.device == name] for name in DEVICES}
        summaries = [summary(device, group) for device, group in by_device.items() if group]
    except (OSError, ValueError, KbError) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error
        print(f"{options.data}: got {reason}; needs measured rows, see --help", file=sys.stderr)
        return 2
    if options.json:
        rows = [{**each.row._asdict(), "us": each.us} for each in curves]
        print(json.dumps({"devices": summaries, "rows": rows, "gbs": SIMULATED_GBS}, indent=2))
        return 0
    width = max(len(" ".join(f"{k}={v}" for k, v in each.row.params.items())) for each in curves)
    print(f"{'us':{width + 10}}{'measured':>10}" + "".join(f"{f'{gbs:g} GB/s':>12}" for gbs in SIMULATED_GBS))
    for each in curves:
        name = " ".join(f"{k}={v}" for k, v in each.row.params.items())
        print(f"{each.row.device:10}{name:{width}}{each.row.value:10.1f}" + "".join(f"{us:12.1f}" for us in each.us))
    print("\n\n".join(["", *map(text_of, summaries), f"{wall_s:.0f} s"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
