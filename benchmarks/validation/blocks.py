"""Does a chip take as long for the ops of a model's block as the device that it describes? See README.md.

    python benchmarks/validation/blocks.py --data FILE
    python benchmarks/validation/blocks.py --data FILE --op qkv,o --most-tokens 512

FILE is a CSV with the columns device, test, params, value, unit, source, licence. Rows of the test `block_op` have
params `model= op= tokens= tp= dtype=` and a value in us, the time of a kernel. Exit code 1: the chip states a narrower
band for products of a block than that of the rows that were predicted. Exit code 2: FILE cannot be used.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import measured
import size_halves
from block_ops import BUILDERS, PRODUCTS, block_op, simulate
from gemm_runs import chip
from measured import Comparison, MeasuredRow

from kb_messages import KbError

DEVICES: Final = {"a100_sxm_80gb": "a100", "h100_sxm": "h100", "h200_sxm": "h200"}
KINDS: Final = {"products": PRODUCTS, "other ops": tuple(set(BUILDERS) - set(PRODUCTS))}


def chosen_rows(options: argparse.Namespace) -> list[MeasuredRow]:
    """The rows of the file that *options* name. Raises OSError, and ValueError for rows that cannot be used."""
    ops = options.op.split(",") if options.op else list(BUILDERS)
    if unknown := sorted(set(ops) - set(BUILDERS)):
        raise ValueError(f"--op {', '.join(unknown)}, needs some of {', '.join(BUILDERS)}")
    rows = measured.read_rows(options.data, ("block_op",))
    if unknown := sorted({row.device for row in rows} - set(DEVICES)):
        raise ValueError(f"rows of {', '.join(unknown)}, needs {', '.join(DEVICES)}")
    sizes = [(row, block_op(row)) for row in rows]
    found = [row for row, size in sizes if size.op in ops and size.tokens <= (options.most_tokens or size.tokens)]
    if not found:
        raise ValueError("no row of these ops and tokens")
    return found


def summary(device: str, kind: str, found: Sequence[Comparison]) -> dict[str, Any]:
    """The errors of the ops of *kind* on *device*, each predicted with a call time that other sizes were fitted to."""
    rows, calls_us = size_halves.predictions(found, "tokens")
    errors = size_halves.errors_by(rows, ("op", "tokens", "tp"))
    stated = [each for each in chip(DEVICES[device]).spec.fidelity or [] if each.test == "block"]
    p90 = stated[0].p90 if stated and kind == "products" else None
    passed = p90 is None or errors[0]["p90"] <= p90 + 0.0005
    return {"device": device, "kind": kind, "call_us": calls_us, "errors": errors, "stated": p90, "passed": passed}


def text_of(found: dict[str, Any]) -> str:
    """A paragraph and a table on the ops of a kind."""
    calls = " and ".join(f"{each:.2f}" for each in found["call_us"])
    stated = "" if found["stated"] is None else f"; the chip states p90 {found['stated']:g}"
    missed = "" if found["passed"] else ", which is narrower"
    head = f"{found['device']}, {found['kind']}: a call takes {calls} us, fitted to every second number of tokens"
    return f"{head}; errors of the others{stated}{missed}\n{size_halves.table(found['errors'])}"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="CSV of measured rows")
    parser.add_argument("--op", help=f"some of {', '.join(BUILDERS)}, with commas between (default: all)")
    parser.add_argument("--most-tokens", type=int, help="rows of at most so many tokens")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print, and say by the exit code whether the stated bands hold."""
    options = parse(arguments)
    try:
        found = [simulate(chip(DEVICES[row.device]), row) for row in chosen_rows(options)]
        groups = [
            (device, kind, [each for each in found if each.row.device == device and each.row.params["op"] in ops])
            for device in dict.fromkeys(each.row.device for each in found)
            for kind, ops in KINDS.items()
        ]
        summaries = [summary(*group) for group in groups if group[2]]
    except (OSError, ValueError, KbError) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error
        print(f"{options.data}: got {reason}; needs measured rows, see --help", file=sys.stderr)
        return 2
    if options.json:
        print(measured.as_json(found, {"kinds": summaries}))
    else:
        print("\n\n".join([measured.table(found), *map(text_of, summaries)]))
    return 0 if all(each["passed"] for each in summaries) else 1


if __name__ == "__main__":
    sys.exit(main())
