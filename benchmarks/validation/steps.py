"""Does a chip take as long for a step of a whole model as the device that it describes? See README.md.

    python benchmarks/validation/steps.py --data benchmarks/validation/measured_rows/h200_sxm.csv
    python benchmarks/validation/steps.py --data FILE --phase decode

FILE is a CSV with the columns device, test, params, value, unit, source, licence. Rows of the test `model_step` have
params `model= phase= batch= context= dtype=` or, for prefill, `tokens=` in place of `context=`, and a value in us.
Nothing is fitted. Exit code 2: FILE cannot be used.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import measured
from blocks import DEVICES
from gemm_runs import chip
from measured import Comparison, MeasuredRow
from size_halves import quantile

import kb_models
from kb_messages import KbError

SIZES: Final = {"decode": "context", "prefill": "tokens"}


def checked(row: MeasuredRow) -> MeasuredRow:
    """*row*. Raises ValueError for params of no step."""
    phase = row.params.get("phase", "")
    wanted = {"model", "phase", "batch", SIZES.get(phase, "context"), "dtype"}
    if phase not in SIZES or set(row.params) != wanted or row.unit != "us" or row.device not in DEVICES:
        text = " ".join(f"{name}={value}" for name, value in row.params.items())
        needs = f"phase={' or '.join(SIZES)}, {' '.join(sorted(wanted))} in us, and one of {', '.join(DEVICES)}"
        raise ValueError(f"{row.device} {text} in {row.unit}, needs {needs}")
    return row


def simulate(row: MeasuredRow) -> Comparison:
    """The step of *row* on the chip of its device, for times alone. Raises the errors of `kb_models.run`."""
    began = time.perf_counter()
    numbers = {name: int(row.params[name]) for name in ("batch", SIZES[row.params["phase"]])}
    params = {"phase": row.params["phase"], "dtype": row.params["dtype"], **numbers}
    result = kb_models.run(row.params["model"], chip=chip(DEVICES[row.device]), compute=False, **params).result
    return Comparison(row, result.model.total_ps / 1e6, time.perf_counter() - began)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="CSV of measured rows")
    parser.add_argument("--phase", choices=SIZES, help="steps of this phase alone")
    parser.add_argument("--most-tokens", type=int, default=sys.maxsize, help="prompts of at most so many tokens")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare and print."""
    options = parse(arguments)
    try:
        rows = [checked(row) for row in measured.read_rows(options.data, ("model_step",))]
        rows = [row for row in rows if options.phase in (None, row.params["phase"])]
        found = [simulate(row) for row in rows if int(row.params.get("tokens", 1)) <= options.most_tokens]
        if not found:
            raise ValueError("no row of this phase and so few tokens")
    except (OSError, ValueError, KbError) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error
        print(f"{options.data}: got {reason}; needs measured rows, see --help", file=sys.stderr)
        return 2
    p50, p90 = (quantile(found, part) for part in (0.5, 0.9))
    if options.json:
        print(measured.as_json(found, {"p50": p50, "p90": p90}))
    else:
        print(f"{measured.table(found)}\n\n{len(found)} steps, nothing fitted: p50 {p50:.3f}, p90 {p90:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
