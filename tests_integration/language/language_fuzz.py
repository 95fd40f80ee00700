"""Random programs of `tl` by the thousand, against numpy. Of every tenth, logs under two hash seeds too.

python tests_integration/language/language_fuzz.py                  # seeds 0 to 2999
python tests_integration/language/language_fuzz.py 500 --first N    # seeds N to N + 499
python tests_integration/language/language_fuzz.py --seed N         # one seed, with its steps and the traceback
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from multiprocessing import Pool
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from language_digests import differing
from language_programs import draw
from language_progress import told
from language_runs import check

HASH_SEEDS = "1", "2"
HASHED_EVERY = 10
"""Of so many seeds one is also run in two processes of its own, whose strings have other hashes."""


def failure(seed: int) -> tuple[int, str, int]:
    """What is wrong with *seed*, nothing if all holds; and how many of its programs were repeated from a template."""
    repeats = 0
    try:
        repeats = check(draw(seed))
        if seed % HASHED_EVERY == 0 and differing([seed], HASH_SEEDS):
            return seed, f"another log with another of the hash seeds {', '.join(HASH_SEEDS)}", repeats
    except Exception as error:  # noqa: BLE001 (any error is a failure of the seed, which is what this looks for)
        said = str(error).partition("\n")[0]
        return seed, f"{type(error).__name__}: {said}", repeats
    return seed, "", repeats


def repeat(seed: int) -> int:
    """Run one seed and print its steps. Returns the exit code."""
    case = draw(seed)
    print(f"seed {seed}: {len(case.models)} programs, {case.float_dtype}, {case.int_dtype}")
    for step in case.steps:
        print("  ", *step)
    try:
        check(case)
    except Exception:  # noqa: BLE001 (as above)
        traceback.print_exc()
        return 1
    print("all holds")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=3000, help="how many programs (default: 3000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--seed", type=int, help="repeat this seed alone")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if options.seed is not None:
        return repeat(options.seed)
    failed = repeated = 0
    seeds = range(options.first, options.first + options.count)
    with Pool(options.processes) as pool:
        for seed, said, repeats in told(pool.imap_unordered(failure, seeds), options.count):
            repeated += repeats
            if said:
                failed += 1
                print(f"seed {seed}: {said}", flush=True)
    print(f"{options.count} cases, {repeated} programs repeated from templates, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
