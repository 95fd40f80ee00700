"""Compares the engine's fabric with a reference that sends burst after burst, over random chips with random traffic.

python tests_integration/contention/contention.py 10000       # cases 0 to 9999, over all processors
python tests_integration/contention/contention.py --seed 17   # one case in full
python tests_integration/contention/contention.py --seed 17 --shrink
python tests_integration/contention/contention.py 2000 --networks  # with packets and ports
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from contention_cases import Case, networked_case, random_case
from contention_chips import PREFIX, yaml_of
from contention_compare import MOST_BURST_HOPS, Comparison, compare, examine
from contention_shrink import shrink


class Verdict(NamedTuple):
    """How a case came out: `bursts` and `ps` are the largest differences, `failed` says why it failed, if it did."""

    seed: int
    transfers: int
    bursts: float
    ps: float
    ties: int
    refined: int
    failed: str


def judge(seed: int, most_burst_hops: int = MOST_BURST_HOPS, networks: bool = False) -> Verdict:
    """How case *seed* came out. With *networks*, it has packets and ports."""
    case = networked_case(seed) if networks else random_case(seed)
    try:
        found, refined, disagreeing = examine(case, most_burst_hops)
    except Exception:  # noqa: BLE001
        return Verdict(seed, len(case.jobs), 0, 0, 0, 0, traceback.format_exc(limit=-3))
    bursts = max(each.bursts for each in found.differences)
    failed = f"{len(disagreeing)} transfers disagree" if disagreeing else ""
    return Verdict(seed, len(case.jobs), float(bursts), float(abs(found.largest.ps)), found.ties, refined, failed)


def fails(case: Case, most_burst_hops: int = MOST_BURST_HOPS, least_ps: int = 0) -> bool:
    """Whether the engine fails on *case*, or disagrees by at least *least_ps*."""
    try:
        found = examine(case, most_burst_hops)
    except Exception:  # noqa: BLE001
        return True
    return any(abs(each.ps) >= least_ps for each in found.disagreeing)


def text_of(case: Case, found: Comparison) -> str:
    lines = [yaml_of(case.chip), f"bursts of {found.burst_nbytes} bytes, {float(found.burst_ps):.2f} ps at the slowest"]
    lines.append(
        f"{'':36} {'bytes':>6} {'start ps':>9} {'engine ps':>11} {'reference':>13} {'off ps':>10} {'bursts':>8}"
    )
    for outcome, expected, bursts in found.differences:
        _, transfer, end_ps = outcome
        ends = f"{transfer.src.removeprefix(PREFIX)} {transfer.kind} {transfer.dst.removeprefix(PREFIX)}"
        lines.append(
            f"{ends:36} {transfer.nbytes:6} {transfer.start_ps:9} {end_ps:11} {float(expected):13.2f} "
            f"{float(end_ps - expected):10.2f} {float(bursts):8.2f}"
        )
    return "\n".join(lines)


def small(case: Case) -> Case:
    """A smaller case that fails too: by a nanosecond if *case* does, with coarser bursts if those show it."""
    for most_burst_hops in (MOST_BURST_HOPS // 100, MOST_BURST_HOPS // 10, MOST_BURST_HOPS):
        for least_ps in (1000, 0):
            if fails(case, most_burst_hops, least_ps):
                return shrink(case, partial(fails, most_burst_hops=most_burst_hops, least_ps=least_ps))
    return case


def show(seed: int, is_shrunk: bool, burst: Fraction | None, networks: bool) -> int:
    """Prints a case in full. Returns 1 if it fails, else 0."""
    case = networked_case(seed) if networks else random_case(seed)
    failed = fails(case)
    if is_shrunk and failed:
        case = small(case)
    print(f"case {seed}: {'fails' if failed else 'agrees'}")
    try:
        print(text_of(case, compare(case, burst)))
    except Exception:  # noqa: BLE001
        print(yaml_of(case.chip), *case.jobs, traceback.format_exc(), sep="\n")
    return int(failed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="?", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the first case")
    parser.add_argument("--seed", type=int, help="this case alone, in full")
    parser.add_argument("--shrink", action="store_true", help="make the failing case small")
    parser.add_argument("--burst", type=Fraction, help="bytes of a burst, like 16 or 1/4")
    parser.add_argument("--networks", action="store_true", help="with packets, ports and interleaved memories")
    parser.add_argument("--worst", type=int, default=10, help="how many of the worst cases to print")
    options = parser.parse_args()
    if options.seed is not None:
        return show(options.seed, options.shrink, options.burst, options.networks)
    began = time.perf_counter()
    seeds = range(options.first, options.first + options.cases)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        verdicts = list(pool.map(partial(judge, networks=options.networks), seeds, chunksize=8))
    verdicts.sort(key=lambda each: (not each.failed, -each.bursts))
    for each in verdicts[: options.worst]:
        print(f"case {each.seed}: {each.bursts:.1f} bursts, {each.ps:.0f} ps, {each.transfers} transfers {each.failed}")
    print(summary(verdicts) + f", {time.perf_counter() - began:.0f} s")
    return int(any(each.failed for each in verdicts))


def summary(verdicts: list[Verdict]) -> str:
    return (
        f"{len(verdicts)} cases, {sum(each.transfers for each in verdicts)} transfers, "
        f"{sum(each.ties for each in verdicts)} ties at memories; largest difference "
        f"{max(each.bursts for each in verdicts):.1f} bursts, {max(each.ps for each in verdicts):.0f} ps; "
        f"{sum(each.refined for each in verdicts)} transfers compared with finer bursts, "
        f"{sum(bool(each.failed) for each in verdicts)} cases failed"
    )


if __name__ == "__main__":
    sys.exit(main())
