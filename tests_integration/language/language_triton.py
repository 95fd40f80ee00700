"""Random Triton kernels over grids, with and without templates: the logs and the arrays have to be the same.

So do the arrays and times of two launches on one device, the second on other numbers and with another table.

python tests_integration/language/language_triton.py 3000             # seeds 0 to 2999
python tests_integration/language/language_triton.py --seed N         # one seed
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
from language_progress import told

from kb_engine.launch.grid_launch import GridLaunch
from kb_topology import Topology, load_topology
from kb_triton.host import Device, using
from kb_triton.host.options import issuing

TOPOLOGIES = Path(__file__).parents[2] / "topologies"
BLOCK, COUNT, SLOTS = 16, 4096, 4
"""Elements of a block, of the inputs, and blocks that a program stores."""
PLAIN = "load", "load", "square", "math", "math", "assign", "store", "steer", "where", "inner", "cast"
MATH = "v + w", "v * 0.5 - w", "tl.maximum(v, w)", "tl.exp(-tl.abs(v))", "-w", "w + v", "v * v"
HEAD = """
import kb_triton as triton
import kb_triton.language as tl

FEW = tl.constexpr(3)


@triton.jit
def bent(x, number):
    return tl.where(x >= 0, x, x * number) + FEW


@triton.jit
def kernel(x, table, y, counts, n, BLOCK: tl.constexpr):
    i, j = tl.program_id(0), tl.program_id(1)
    number = i + j * tl.num_programs(0)
    at = tl.arange(0, BLOCK)
    square = at[:, None] * BLOCK + at[None, :]
    v = tl.load(x + number * BLOCK + at)
    w = tl.zeros((BLOCK,), dtype=tl.float32)
"""


class Author:
    """Writes the statements of a kernel. `i`, `j`, `number` and `n` are integers, and `v` and `w` blocks."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._names = ["i", "j", "number"]

    def integer(self, depth: int = 2) -> str:
        """An integer of at least 0, of a few thousand at most."""
        rng = self.rng
        if not depth or rng.random() < 0.3:
            return rng.choice([*self._names, "n", str(rng.randint(0, 9))])
        one, two, few = self.integer(depth - 1), self.integer(depth - 1), rng.randint(1, 7)
        return rng.choice([
            f"({one} + {two})", f"({one}) * {few}", f"({one}) // {few}", f"({one}) % {few}", f"(({one}) >> 1)",
            f"(({one}) % 64 << 2)", f"tl.minimum({one}, {two})", f"max({one}, {few})", f"tl.cdiv({one}, {few})",
            f"(({one}) ^ ({two}))", f"tl.where({one} < {two}, {one}, {few})", f"(({one}) & {few})",
            f"(i + {one}).to(tl.int64)",
        ])  # fmt: skip

    def condition(self) -> str:
        """A scalar truth."""
        one, two = self.integer(1), self.few()
        sign = self.rng.choice(["<", "<=", "==", "!=", ">"])
        return self.rng.choice([f"{one} {sign} {two}", f"({one} {sign} {two}) and number % 2 == 0"])

    def places(self) -> str:
        """Offsets into the inputs for a block."""
        at = self.rng.choice(["at", "at * 2", "(at + 3) % BLOCK", "at // 2", "BLOCK - 1 - at"])
        return f"({self.integer()}) % 2048 + {at}"

    def mask(self) -> str:
        """A mask of a block, or None."""
        one, two = self.few(), self.few()
        return self.rng.choice([f"at < {one}", f"(at < {one}) & (at != {two})", "None"])

    def few(self) -> str:
        """An integer that programs of a grid often have in common."""
        return self.integer(1) if self.rng.random() < 0.2 else str(self.rng.randint(0, 20))

    def statement(self, depth: int) -> Iterator[str]:
        """The lines of a statement."""
        nested = ("loop", "branch", "dot") * (depth > 0)
        rare = ("table", "count") * (self.rng.random() < 0.1)
        kind = self.rng.choice((*PLAIN, *nested, *rare))
        return getattr(self, f"_{kind}")(self.rng.choice("vw"), depth)  # type: ignore[no-any-return]

    def _load(self, name: str, _: int) -> Iterator[str]:
        mask = self.mask()
        other = "" if mask == "None" else f", other={self.rng.choice(('0.0', '2.5', 'float(1)'))}"
        yield f"{name} = tl.load(x + {self.places()}, mask={mask}{other})"

    def _square(self, name: str, _: int) -> Iterator[str]:
        yield f"{name} = tl.sum(tl.load(x + ({self.integer()}) % 2048 + square), axis={self.rng.randint(0, 1)})"

    def _math(self, name: str, _: int) -> Iterator[str]:
        yield f"{name} = {self.rng.choice(MATH)}"

    def _assign(self, *_: object) -> Iterator[str]:
        found = self.integer()
        self._names.append(f"s{len(self._names)}")
        yield f"{self._names[-1]} = {found} + 0 * i"

    def _store(self, name: str, _: int) -> Iterator[str]:
        place = f"(number * {SLOTS} + {self.rng.randrange(SLOTS)}) * BLOCK + at"
        yield f"tl.store(y + {place}, {name}, mask={self.mask()})"

    def _steer(self, name: str, _: int) -> Iterator[str]:
        yield f"{name} = {name} * ({self.integer()})"

    def _where(self, name: str, _: int) -> Iterator[str]:
        yield f"{name} = tl.where({self.rng.choice((self.condition(), f'at < {self.few()}'))}, v, w)"

    def _inner(self, name: str, _: int) -> Iterator[str]:
        yield f"{name} = bent({name}, {self.rng.choice(('0.5', '2', self.integer(1)))})"

    def _cast(self, name: str, _: int) -> Iterator[str]:
        yield f"{name} = {name} + (i + {self.integer()}).to(tl.float32) + at"

    def _dot(self, name: str, _: int) -> Iterator[str]:
        yield f"grid = tl.load(x + ({self.integer()}) % 2048 + square)"
        yield "sums = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)"
        yield f"for k in range({self.few()} % 3 + 1):"
        yield f"    sums = tl.dot(grid, tl.load(x + k * 256 + ({self.integer()}) % 1024 + square), sums)"
        yield f"{name} = tl.max(sums, axis=1)"

    def _loop(self, _: str, depth: int) -> Iterator[str]:
        one, two = (f"({self.few()})" for _ in range(2))
        ends = f"{one} % 9, {two} % 9, 2", f"{one} % 5, {two} % 5, -2"
        bounds = f"{one} % 3", f"{one} % 4, {one} % 4 + {two} % 3", *ends, "number, number + 2", "i * 3, i * 3 + 5, 2"
        yield f"for k in range({self.rng.choice(bounds)}):"
        yield "    w = w + k"
        yield from self._inside(depth)

    def _branch(self, _: str, depth: int) -> Iterator[str]:
        yield f"if {self.condition()}:"
        yield from self._inside(depth)
        if self.rng.random() < 0.5:
            yield "else:"
            yield from self._inside(depth)

    def _table(self, name: str, _: int) -> Iterator[str]:
        yield f"{name} = tl.load(x + tl.load(table + ({self.integer(1)}) % 16) + at)"

    def _count(self, *_: object) -> Iterator[str]:
        yield f"tl.atomic_add(counts + ({self.integer(1)}) % 4, 1)"

    def _inside(self, depth: int) -> Iterator[str]:
        names = list(self._names)
        for _ in range(self.rng.randint(1, 3)):
            yield from (f"    {line}" for line in self.statement(depth - 1))
        self._names = names

    def kernel(self) -> str:
        """The source of a module."""
        lines = [line for _ in range(self.rng.randint(2, 9)) for line in self.statement(2)]
        lines.append("tl.store(y + number * SLOTS * BLOCK + at, v + w)".replace("SLOTS", str(SLOTS)))
        return HEAD + "".join(f"    {line}\n" for line in lines)


@cache
def chips() -> list[Topology]:
    """Chips with one PE and with eight, of each way to issue."""
    return [
        issuing(load_topology(TOPOLOGIES / f"{name}.yaml"), issue)
        for name in ("one_pe", "one_cube")
        for issue in ("blocking", "scoreboard", "decoupled")
    ]


def shown(seed: int, kernel: Any, grid: tuple[int, ...], chip: Topology, templates: bool) -> list[object]:
    """All that a launch of *kernel* shows: its log, its times, its error, and what it leaves in memory."""
    found = list[object]()
    x, table = np.random.default_rng(seed).standard_normal(COUNT, np.float32), np.arange(16, dtype=np.int32) * 5
    y, counts = np.zeros(64 * SLOTS * BLOCK, np.float32), np.zeros(4, np.int32)
    device = Device(chip, templates=templates, on_launch=lambda each: found.append((each.log.digest, each.result)))
    try:
        with using(device):
            kernel[grid](x, table, y, counts, 1000, BLOCK=BLOCK)
    except Exception as error:  # noqa: BLE001 (the same one has to come)
        found.append(f"{type(error).__name__}: {error}")
    return [*found, y.tobytes(), counts.tobytes()]


def launched_again(seed: int, kernel: Any, grid: tuple[int, ...], chip: Topology, templates: bool) -> list[object]:
    """The arrays, times and errors of two launches of *kernel* on one device."""
    device, found, rng = Device(chip, templates=templates), list[object](), np.random.default_rng(seed)
    x, table = np.empty(COUNT, np.float32), np.arange(16, dtype=np.int32) * 5
    y, counts = np.zeros(64 * SLOTS * BLOCK, np.float32), np.zeros(4, np.int32)
    for number in range(2):
        x[:] = rng.standard_normal(COUNT, np.float32)
        if number:
            table[:] = table[::-1].copy()
        try:
            with using(device):
                kernel[grid](x, table, y, counts, 1000, BLOCK=BLOCK)
        except Exception as error:  # noqa: BLE001 (the same one has to come)
            found.append(f"{type(error).__name__}: {error}")
        found += device.elapsed_ps, y.tobytes(), counts.tobytes()
    return found


def check(seed: int, folder: Path) -> int:
    """Raise AssertionError if templates change the log, the times or the arrays of the kernel of *seed*.

    Returns how many programs ran no kernel, because they repeat another one's steps or are in a skipped period.
    """
    from kb_engine.fastforward.replay import template

    author, chip = Author(seed), chips()[seed % len(chips())]
    source, grid = author.kernel(), author.rng.choice([(9,), (24,), (5, 4), (40,), (3, 9)])
    path = folder / f"kernel_{seed}.py"
    path.write_text(source, encoding="utf-8")
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    repeated, repeat, skip = list[object](), template.Template.repeat, GridLaunch.skip
    with (
        patch.object(template.Template, "repeat", lambda *given: (repeated.append(given), repeat(*given))),
        patch.object(GridLaunch, "skip", lambda launch, ran: (repeated.extend(ran), skip(launch, ran))),
    ):
        found = shown(seed, module.kernel, grid, chip, True)
    wanted = shown(seed, module.kernel, grid, chip, False)
    assert found == wanted, f"seed {seed}: templates change what a run shows\n{source}"
    again, wanted = (launched_again(seed, module.kernel, grid, chip, templates) for templates in (True, False))
    assert again == wanted, f"seed {seed}: templates change what a second launch leaves\n{source}"
    return len(repeated)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=1000, help="how many seeds (default: 1000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--seed", type=int, help="repeat this seed alone")
    options = parser.parse_args()
    first, count = (options.first, options.count) if options.seed is None else (options.seed, 1)
    failed = repeated = 0
    with TemporaryDirectory() as folder:
        for seed in told(range(first, first + count), count):
            try:
                repeated += check(seed, Path(folder))
            except AssertionError as error:
                failed += 1
                print(error, flush=True)
    print(f"{count} seeds, {repeated} programs repeated, {failed} seeds failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
