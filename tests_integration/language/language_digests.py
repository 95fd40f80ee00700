"""What random programs do and log, a line for each program and way to run it. Lines of two processes have to be equal.

python tests_integration/language/language_digests.py 5 7 11
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from language_programs import draw
from language_runs import ISSUES, simulate


def digests(seeds: Sequence[int]) -> Iterator[str]:
    """The lines of *seeds*: steps, and the digest of the log under each way of issue, with templates and without."""
    for seed in seeds:
        case = draw(seed)
        for issue in ISSUES:
            for with_templates in (True, False):
                found = simulate(case, issue, with_templates=with_templates).log.digest
                yield f"{seed} {issue} {with_templates} {case.steps} {found}"


def differing(seeds: Sequence[int], hash_seeds: Sequence[str]) -> list[int]:
    """Those of *seeds* whose lines depend on PYTHONHASHSEED, each of *hash_seeds* in a process of its own."""
    command = [sys.executable, __file__, *map(str, seeds)]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONHASHSEED": each})
        for each in hash_seeds
    ]
    texts = [each.communicate()[0].splitlines() for each in running]
    lines = 2 * len(ISSUES)
    if any(each.returncode for each in running) or {len(text) for text in texts} != {lines * len(seeds)}:
        return list(seeds)
    return [seed for at, seed in enumerate(seeds) if len({tuple(text[at * lines :][:lines]) for text in texts}) > 1]


if __name__ == "__main__":
    for line in digests([int(each) for each in sys.argv[1:]]):
        print(line)
