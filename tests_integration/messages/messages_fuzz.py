"""Random programs that send messages, on random chips: all ways of simulation come to one time and one digest.

python tests_integration/messages/messages_fuzz.py 1000             # seeds 0 to 999
python tests_integration/messages/messages_fuzz.py 1000 --first N   # seeds N to N + 999
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing import Pool
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from messages_programs import MessagesCase, MessagesRun, draw, run

from kb_messages import KbError

WAYS = (
    ("isolated", True, True), ("check", True, True), ("isolated", False, True), ("isolated", True, False),
)  # fmt: skip
"""Values of `exact`, with templates or without, with a log or without. Seeds take them in turn."""


def compare(seed: int) -> tuple[int, str]:
    """What of *seed* differs from a run of every event, or "": counts, times, log or data."""
    case = draw(seed)
    events, isolated = _found(case, *WAYS[seed % len(WAYS)]), _found(case, "events", True, True)
    if isinstance(events, str) or isinstance(isolated, str):
        return seed, "" if events == isolated else f"{events}, and {isolated}"
    names = [
        name
        for name in MessagesRun._fields
        if getattr(events, name) != getattr(isolated, name) and getattr(events, name) not in ("", [])
    ]
    return seed, f"other {', '.join(names)}" if names else ""


def _found(case: MessagesCase, exact: str, templates: bool, logs: bool) -> MessagesRun | str:
    try:
        return run(case, exact, templates, logs)
    except (KbError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"


def differing(seeds: Sequence[int], hash_seeds: Sequence[str]) -> list[str]:
    """The digests of *seeds* that depend on PYTHONHASHSEED, each of *hash_seeds* in a process of its own."""
    command = [sys.executable, __file__, "--digests", *map(str, seeds)]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONHASHSEED": each})
        for each in hash_seeds
    ]
    texts = [each.communicate()[0].splitlines() for each in running]
    assert {len(text) for text in texts} == {len(seeds)}, "a process printed no digest"
    return [" ".join(lines) for lines in zip(*texts, strict=True) if len(set(lines)) > 1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=1000, help="how many cases (default: 1000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--digests", type=int, nargs="+", help="print the digests of these seeds instead")
    options = parser.parse_args()
    for seed in options.digests or ():
        print(seed, run(draw(seed)).digest)
    if options.digests:
        return 0
    failed = 0
    with Pool(options.processes) as pool:
        seeds = range(options.first, options.first + options.count)
        for seed, said in pool.imap_unordered(compare, seeds, 8):
            if said:
                failed += 1
                print(f"seed {seed}: {said}", flush=True)
    print(f"{options.count} cases, {failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
