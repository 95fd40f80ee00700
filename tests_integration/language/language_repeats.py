"""Random programs of a grid, with and without templates: all that a run shows has to be the same.

python tests_integration/language/language_repeats.py 3000             # seeds 0 to 2999, each with every way of issue
python tests_integration/language/language_repeats.py --seed N         # one seed
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from math import prod
from multiprocessing import Pool
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from language_kernel import Kernel, Rows
from language_programs import Case, draw, inputs_of
from language_progress import told
from language_runs import ISSUES, TcmWatch, chip_of, counted
from language_steps import SIDE, Step

from kb_dataexec import MemoryLogWriter
from kb_engine import Engine, Host
from kb_messages import DType
from kb_topology import loads_topology

GRIDS = ((14, 1, 1), (7, 2, 1), (2, 3, 2), (5, 1, 1))
UNREPEATED = ("look", "atomic", "count", "capture", "free", "convert")
ROUNDS = 8


class Floats(Kernel):
    """Steps of floats. Nobody knows what is computed of them, only what is loaded."""

    def __init__(self, tl: Any, memory: dict[str, Any]) -> None:
        super().__init__(tl, {**memory, "n": memory["f"], "z": memory["y"]})

    def _listed(self, rows: tuple[int, ...]) -> Any:
        return self.tl.arange(len(rows)) + rows[0] if rows[0] else np.array(rows)


def kernel(
    tl: Any, f: Any, n: Any, ids: Any, y: Any, z: Any, counts: Any, steps: tuple[Step, ...], early: int, wrong: Any
) -> None:
    """The steps of one program. Some programs leave *early*. The numbers of steps that fail go to *wrong*, if given."""
    number = tl.program_id(0) + tl.num_programs(0) * (tl.program_id(1) + tl.num_programs(1) * tl.program_id(2))
    parts = {name: Rows(each, number * SIDE) for name, each in (("f", f), ("n", n), ("y", y), ("z", z))}
    kind = Kernel if wrong is None else Floats
    player = kind(tl, {**parts, "ids": ids, "counts": counts})
    for at, step in enumerate(steps):
        if at > early and number % 4 == 3:
            break
        try:
            player.play(step)
        except Exception:
            if wrong is None:
                raise
            wrong.add(at)
    rows, columns = (number * 5 + tl.arange(5))[:, None], tl.arange(8)[None, :]
    mask = (rows < 5 * 14 - 3) & (columns < 7)
    value = tl.load(f[rows, columns], mask=mask, other=1.0)
    tl.store(y[rows, columns + 16], (value * 2).to(y.dtype), mask=mask)


class Shown(NamedTuple):
    """All that a run shows."""

    digest: str
    tables: dict[str, bytes]
    result: str
    error: str
    held: list[int]
    pending: list[str]
    bytes: list[tuple[bytes, bytes]]
    free: list[str]


def steps_of(case: Case, chip: dict[str, Any]) -> tuple[tuple[Step, ...], bool]:
    """The steps to play, and whether they are of floats alone: in every fourth case they are as they were drawn."""
    if case.seed % 4 == 0:
        return case.steps, False
    steps = tuple(step for step in case.steps if step[0] not in UNREPEATED)
    for _ in range(ROUNDS):
        wrong: set[int] = set()
        shown(case, chip, steps, wrong, False)
        if not wrong:
            break
        steps = tuple(step for at, step in enumerate(steps) if at not in wrong)
    return steps, True


def shown(case: Case, chip: dict[str, Any], steps: tuple[Step, ...], wrong: set[int] | None, repeated: bool) -> Shown:
    """Run *steps* on *chip*, with templates if they are to be *repeated*."""
    rng = random.Random(case.seed + 1)
    grid = rng.choice(GRIDS)
    arrays = inputs_of(random.Random(case.seed), case.float_dtype, case.int_dtype, prod(grid))
    watch = TcmWatch()
    topology = loads_topology(yaml.safe_dump(chip, sort_keys=False), "random.yaml")
    engine = Engine(topology, MemoryLogWriter(), observers=[watch], templates=repeated)
    host = Host(engine, Path(__file__).parent)
    floats, ints = dict.fromkeys("fy", case.float_dtype), dict.fromkeys("nz", case.int_dtype)
    types = {**floats, **ints, "ids": DType.I32, "counts": DType.I32}
    blocks = (rng.choice((1, 1, 2, 5)) if topology.spec.hbm_interleave_nbytes == 0 else 1, 1)
    cut = {name: blocks if name in "fnyz" else (1, 1) for name in arrays}
    tensors = {name: host.tensor(name, array, types[name], cut[name]) for name, array in arrays.items()}
    pes, how = range(rng.randint(1, min(4, host.num_pes))), rng.choice(("dynamic", "static"))
    early = rng.randrange(len(steps) or 1)
    result = error = ""
    try:
        result = str(host.launch(kernel, *tensors.values(), steps, early, wrong, pes=pes, grid=grid, schedule=how))
    except Exception as caught:  # noqa: BLE001 (steps as drawn may fail for other data, and have to fail alike)
        error = f"{type(caught).__name__}: {caught}"
    matrices = [matrix for each in tensors.values() for _, matrix in each.every_block()]
    pending = [str(engine.memory.pending.producer(row)) for each in matrices for row in rows_of(each)]
    memory = [engine.memory.store.held(*each.rectangle.in_memory) for each in matrices]
    known = [((data * is_valid).tobytes(), is_valid.tobytes()) for data, is_valid in memory]
    free = [f"{pe.tcm.free_nbytes} {pe.tcm.largest_nbytes()}" for pe in engine.pes.values()]
    log = engine.close_log()
    tables = {name: log.table(name).tobytes() for name in log.tables}  # type: ignore[union-attr]  # it is in memory
    return Shown(log.digest, tables, result, error, watch.held, pending, known, free)  # type: ignore[union-attr]


def rows_of(matrix: Any) -> list[Any]:
    return [matrix.part(row, 0, 1, matrix.cols) for row in range(matrix.rows)]


def check(seed: int, issue: str) -> int:
    """Raise AssertionError if templates change what a run shows. Returns how many programs were repeated."""
    case, repeats = draw(seed), list[int]()
    chip = chip_of(seed, issue)
    steps, of_floats = steps_of(case, chip)
    wrong: set[int] | None = set() if of_floats else None
    with counted(repeats):
        found = shown(case, chip, steps, wrong, True)
    wanted = shown(case, chip, steps, wrong, False)
    differ = [name for name, one, two in zip(Shown._fields, found, wanted, strict=True) if one != two]
    assert not differ, f"{issue}: {', '.join(differ)} differ: {found.error or found.result} | {wanted.error}"
    return len(repeats)


def failure(seed: int) -> tuple[int, str, int]:
    """What is wrong with *seed*, and how many of its programs were repeated."""
    repeats = 0
    try:
        for issue in ISSUES:
            repeats += check(seed, issue)
    except Exception as error:  # noqa: BLE001 (any error is a failure of the seed, which is what this looks for)
        return seed, f"{type(error).__name__}: {str(error).partition(chr(10))[0]}", repeats
    return seed, "", repeats


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=1000, help="how many seeds (default: 1000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--seed", type=int, help="repeat this seed alone")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    first, count = (options.first, options.count) if options.seed is None else (options.seed, 1)
    failed = repeats = 0
    with Pool(options.processes) as pool:
        for seed, said, repeated in told(pool.imap_unordered(failure, range(first, first + count)), count):
            repeats += repeated
            if said:
                failed += 1
                print(f"seed {seed}: {said}", flush=True)
    print(f"{count} seeds, {repeats} programs repeated, {failed} seeds failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
