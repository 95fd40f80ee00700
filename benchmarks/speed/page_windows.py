"""The timeline of `kb web`: seconds of CPU for its index and for a window, and bytes of a window, by number of slices.

    python benchmarks/speed/page_windows.py            # a million slices and ten millions: a minute
    python benchmarks/speed/page_windows.py --quick    # a tenth of both

Slices are made up, on 60 lanes, and a window shows all lanes. Targets: an index within 1 s and a window within 25 ms
at a million slices, twice that at ten millions, and 200 kB.

Then the tree of 512 PEs with the same slices: the first view, whose strips are 64 cubes and the whole run; all PEs of a
screen, opened; and a further window of the cubes. Targets at a million slices: 0.5 s, 0.2 s, 0.1 s, and 200 kB.
"""

from __future__ import annotations

import argparse
from statistics import median
from time import process_time
from typing import NamedTuple

import numpy as np

from kb_cli.trace.tracks import Slices, TrackPlace
from kb_cli.web.answers.timeline import window_bytes
from kb_cli.web.lanes.colourings import by_words
from kb_cli.web.lanes.fold_table import FoldTable
from kb_cli.web.lanes.lane_table import LaneTable

LANES, PIXELS, ROUNDS = 60, 1666, 9
BLOCKS, PES = 6, [f"sip{at // 128}.cube{at // 8 % 16}.pe{at % 8}" for at in range(512)]
SCREEN = 40
"""The rows of folded PEs that a window of 900 pixels shows."""
NAMES = [f"stage{number} gemm.py:{number}" for number in range(LANES)]


def made_up(count: int, lanes: int = LANES) -> Slices:
    """*count* slices, the same number in each of *lanes*, of random lengths and with random gaps."""
    rng = np.random.default_rng(0)
    each = count // lanes
    times = np.cumsum(rng.integers(1, 1000, (lanes, 2 * each)), axis=1)
    lane = np.repeat(np.arange(lanes), each)
    places = [TrackPlace(f"sip0.cube0.pe{number // 5}", f"block{number}: stage{number}") for number in range(lanes)]
    start, end = times[:, ::2].reshape(-1), times[:, 1::2].reshape(-1)
    return Slices(
        places, lane, start, end, lane % BLOCKS if lanes != LANES else lane, NAMES, {"op": np.arange(len(lane))}
    )


class TreeTimes(NamedTuple):
    """CPU seconds of the first view of a tree, of a level that is opened, and of a further window, and its bytes."""

    first_s: float
    opened_s: float
    window_s: float
    nbytes: int


def measure_tree(count: int) -> TreeTimes:
    """The times of the tree of 512 PEs with *count* slices."""
    slices = made_up(count, len(PES) * BLOCKS)
    words = [name.split() for name in NAMES]
    units = [pe for pe in PES for _ in range(BLOCKS)]
    began = process_time()
    table = LaneTable(slices, [stage for stage, _ in words], [line for _, line in words])
    kinds, folds = by_words(table, "stage"), FoldTable(table, units)
    cubes, pes = ([at for at, each in enumerate(folds.folds) if each.name.count(".") == dots] for dots in (1, 2))
    end = int(slices.end_ps.max())
    _, _ = folds.busy_ps, folds.last_rows  # of the list of lanes
    window_bytes(folds, kinds, [0, *cubes], (0, end, PIXELS * 2 // 3))
    first_s = process_time() - began
    began = process_time()
    window_bytes(folds, kinds, pes[:SCREEN], (0, end, PIXELS))
    opened_s = process_time() - began
    times, nbytes = [], 0
    for number in range(ROUNDS):
        began = process_time()
        nbytes = len(window_bytes(folds, kinds, cubes, (number * end // 100, end // 2, PIXELS * 2 // 3)))
        times.append(process_time() - began)
    return TreeTimes(first_s, opened_s, median(times), nbytes)


def measure(count: int) -> tuple[float, float, int]:
    """CPU seconds of the index with its first window, CPU seconds of a further window, and its bytes."""
    slices = made_up(count)
    words = [name.split() for name in NAMES]
    began = process_time()
    table = LaneTable(slices, [stage for stage, _ in words], [line for _, line in words])
    kinds = by_words(table, "stage")
    end = int(slices.end_ps.max())
    window_bytes(table, kinds, list(range(LANES)), (0, end, PIXELS))
    index_s = process_time() - began
    times, nbytes = [], 0
    for number in range(ROUNDS):
        began = process_time()
        nbytes = len(window_bytes(table, kinds, list(range(LANES)), (number * end // 100, end // 2, PIXELS)))
        times.append(process_time() - began)
    return index_s, median(times), nbytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the slices")
    counts = [100_000, 1_000_000] if parser.parse_args().quick else [1_000_000, 10_000_000]
    found = [measure(count) for count in counts]
    for count, (index_s, window_s, nbytes) in zip(counts, found, strict=True):
        window = f"window {window_s * 1e3:.1f} ms of CPU, {nbytes / 1e3:.0f} kB"
        print(f"{count:>12,} slices: index {index_s:.2f} s, {window}")
    for count in counts:
        tree = measure_tree(count)
        window = f"window {tree.window_s * 1e3:.1f} ms of CPU, {tree.nbytes / 1e3:.0f} kB"
        print(
            f"{count:>12,} slices on 512 PEs: first view {tree.first_s:.2f} s, opened {tree.opened_s:.2f} s, {window}"
        )
    print(f"ten times the slices: a window takes {found[1][1] / found[0][1]:.2f} times as long")


if __name__ == "__main__":
    main()
