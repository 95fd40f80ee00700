"""Attacks on readers, folders, plans, chips and benchmark files: how many were tried, how many handled badly.

    python tests_integration/attack/attack.py [--most 200] [--kind "lines of JSON" ...] [--seed 0]

Exits with 1 when one was handled badly: a traceback, no end within 30 s, more than 4 GB, an exit code that is not
documented, or damage that passed as ok.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # forked processes have no threads of their parent's

import kinds
import plans_and_chips
import texts
from kinds import Tried, prepare

KINDS = kinds.KINDS | plans_and_chips.KINDS | texts.KINDS

SHOWN = 12


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=200, help="attempts for each file and kind (default: 200)")
    parser.add_argument("--kind", action="append", choices=sorted(KINDS), help="this kind alone, as often as needed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="print the kinds and do nothing")
    options = parser.parse_args()
    if options.list:
        print("\n".join(KINDS))
        return 0
    total = 0
    print(f"{'kind':24}{'tried':>8}{'badly':>8}")
    with tempfile.TemporaryDirectory() as folder:
        stage = prepare(Path(folder), options.seed, options.most)
        for name in options.kind or KINDS:
            n_tried, badly = count(list(KINDS[name](stage)))
            total += len(badly)
            print(f"{name:24}{n_tried:8}{len(badly):8}", flush=True)
            for tried in badly[:SHOWN]:
                print(f"    {tried.what[:100]}: {tried.wrong}", flush=True)
    return 1 if total else 0


def count(attempts: list[Tried]) -> tuple[int, list[Tried]]:
    """How many there were, and those that were handled badly."""
    assert attempts, "an attack that tries nothing shows nothing"
    return len(attempts), [each for each in attempts if each.wrong]


if __name__ == "__main__":
    sys.exit(main())
