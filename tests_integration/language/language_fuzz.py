"""Random programs of `tl` by the thousand.

python tests_integration/language/language_fuzz.py 3000             # seeds 0 to 2999
python tests_integration/language/language_fuzz.py 3000 --first N   # seeds N to N + 2999
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

from language_programs import draw
from language_runs import check


def failure(seed: int) -> tuple[int, str]:
    """What is wrong with *seed*; nothing if all holds."""
    try:
        check(draw(seed))
    except Exception as error:  # noqa: BLE001 (any error is a failure of the seed, which is what this looks for)
        said = str(error).partition("\n")[0]
        return seed, f"{type(error).__name__}: {said}"
    return seed, ""


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
    parser.add_argument("count", nargs="?", type=int, default=1000, help="how many programs (default: 1000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--seed", type=int, help="repeat this seed alone")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if options.seed is not None:
        return repeat(options.seed)
    failed = 0
    with Pool(options.processes) as pool:
        for seed, said in pool.imap_unordered(failure, range(options.first, options.first + options.count), 8):
            if said:
                failed += 1
                print(f"seed {seed}: {said}", flush=True)
    print(f"{options.count} programs, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
