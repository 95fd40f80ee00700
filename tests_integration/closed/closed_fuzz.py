"""Random chips and kernels, with commands closed and event by event: both have to come to the same.

python tests_integration/closed/closed_fuzz.py 3000             # seeds 0 to 2999
python tests_integration/closed/closed_fuzz.py 3000 --first N   # seeds N to N + 2999
"""

from __future__ import annotations

import argparse
import os
import sys
from multiprocessing import Pool
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests_shared"))
sys.path.insert(0, str(Path(__file__).parent))

from closed_cases import draw, run

from kb_messages import KbError

Counts = tuple[int, int, int]


def compare(seed: int) -> tuple[int, str, Counts]:
    """What of *seed* differs between the two ways, or "", and how many commands were isolated."""
    case = draw(seed)
    try:
        events = run(case, "events")
    except KbError as refused:
        try:
            run(case, "isolated")
        except KbError as error:
            return seed, "" if str(error) == str(refused) else f"{error}, and {refused} event by event", (0,) * 3
        return seed, f"no error, and {refused} event by event", (0,) * 3
    closed = run(case, "check" if seed % 5 == 0 else "isolated")
    parts = "digest", "counts", "launches", "pending"
    names = [name for name in parts if getattr(events, name) != getattr(closed, name)]
    return seed, f"other {', '.join(names)}" if names else "", closed.closed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=1000, help="how many cases (default: 1000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    failed, totals = 0, [0] * 3
    with Pool(options.processes) as pool:
        for seed, said, closed in pool.imap_unordered(compare, range(options.first, options.first + options.count), 8):
            totals = [total + more for total, more in zip(totals, closed, strict=True)]
            if said:
                failed += 1
                print(f"seed {seed}: {said}", flush=True)
    names = "commands ran apart", "took a result", "were opened"
    what = ", ".join(f"{n} {name}" for n, name in zip(totals, names, strict=True))
    print(f"{options.count} cases, {failed} differ; {what}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
