"""Is the tile that the scheduler chooses near the best? Compares it with an exhaustive search on 104 shapes of models.

    python benchmarks/validation/tiles.py              # all 104 shapes: about half an hour on two slow cores
    python benchmarks/validation/tiles.py --every 13   # every 13th shape
    python benchmarks/validation/tiles.py --shapes FILE   # the shapes of a CSV file with columns M, N and K

Each tile is simulated on `one_pe`, without log and without data, in f16. The candidates of the search are all tiles
whose sides are a power of two from 32 to 1024, three times a power of two, the whole side, or its half, third, quarter
or fifth, if the tile fits the PE. A tile is left out when one of its channels alone is busy for longer than the best
tile takes: no order of events makes such a tile faster. Exit code 1: some tile takes 5 % longer than the best.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from kb_cli.sweep.axis import read_table
from kb_engine import DType, Engine, Host, Language, TensorRef, TileShape
from kb_messages import BenchmarkError, GemmCommand, Matrix
from kb_plans import Estimate, estimate, generate_gemm_plan, suggest_tile
from kb_topology import load_topology

ONE_PE = load_topology(Path(__file__).parents[2] / "topologies" / "one_pe.yaml")
LIMIT = 1.05
LARGEST_SIDE = 1024
PLACES = ("input buffers", "output buffers", "registers", "accumulators")
"""Resources that a limited number of tiles hold; the other resources of an estimate serve one stage at a time."""

MODELS: dict[str, tuple[tuple[int, ...], tuple[tuple[int, int], ...]]] = {
    "BERT-base": ((128, 384), ((768, 768), (3072, 768), (768, 3072))),
    "BERT-large": ((128, 384), ((1024, 1024), (4096, 1024), (1024, 4096))),
    "GPT-2": ((1, 256), ((2304, 768), (768, 768), (3072, 768), (768, 3072))),
    "GPT-2 XL": ((1, 100), ((4800, 1600), (1600, 1600), (6400, 1600), (1600, 6400))),
    "ViT-B/16": ((197,), ((2304, 768), (768, 768), (3072, 768), (768, 3072), (1000, 768))),
    "ViT-L/16": ((197,), ((3072, 1024), (1024, 1024), (4096, 1024), (1024, 4096))),
    "ViT-H/14": ((257,), ((1280, 1280), (5120, 1280), (1280, 5120))),
    "Swin-T": ((49, 3136), ((288, 96), (96, 96), (384, 96), (96, 384))),
    "Whisper base": ((1500,), ((512, 512), (2048, 512), (512, 2048))),
    "Llama 2 7B / 8": ((1, 128, 512), ((1536, 4096), (4096, 512), (2752, 4096), (4096, 1376))),
    "Llama 3 8B / 8": ((16, 256), ((768, 4096), (4096, 512), (3584, 4096), (4096, 1792))),
    "Llama 3 70B / 8": ((1, 128), ((1280, 8192), (8192, 1024), (7168, 8192), (8192, 3584))),
    "Mistral 7B / 8": ((64,), ((768, 4096), (4096, 512), (3584, 4096), (4096, 1792))),
    "Attention, 1 head": ((128, 1000), ((128, 64), (64, 128), (1000, 128), (128, 1000))),
}
"""Tokens, and N x K of the projections: QKV, output, up and down of each model's published configuration.

`/ 8` is a share of one of eight chips, which divide N of the first projections and K of the second ones; the up
projections of Llama and Mistral are gate and up together. Attention is scores and values of one head.
"""

ODD = ((1, 1, 1), (7, 11, 13), (1, 4096, 1), (4096, 1, 64), (97, 101, 103), (129, 129, 129), (255, 257, 511),
       (300, 500, 700), (513, 1025, 65), (999, 333, 111), (2048, 17, 2048), (31, 2047, 1023),
       (1023, 1023, 1023))  # fmt: skip
"""M, N and K that divide badly."""


class Product(NamedTuple):
    """A matrix product of M x K and K x N."""

    name: str
    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.name:18} {self.m:5} {self.n:5} {self.k:5}"


def products() -> list[Product]:
    """The 104 shapes."""
    named = [
        Product(name, tokens, n, k)
        for name, (all_tokens, sizes) in MODELS.items()
        for tokens in all_tokens
        for n, k in sizes
    ]
    return [*named, *(Product("odd", *sizes) for sizes in ODD)]


def products_of(path: Path) -> list[Product]:
    """The shapes of a CSV file, each once. Raises BenchmarkError for a file without shapes."""
    rows = read_table(path)
    if lacking := [side for side in "MNK" if side not in rows[0]]:
        raise BenchmarkError(str(path), f"no column {' and '.join(lacking)}", "columns M, N and K")
    for row in rows:
        for side in "MNK":
            if not row[side].isdecimal() or int(row[side]) < 1:
                raise BenchmarkError(f"{path}: {side}", repr(row[side]), "integers of at least 1")
    found = (Product(row.get("model", ""), *(int(row[side]) for side in "MNK")) for row in rows)
    return list({each[1:]: each for each in found}.values())


def kernel(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, tile: TileShape | None) -> None:
    """One product on one PE."""
    tl.wait(tl.composite("gemm", a, b, out=c, tile=tile))


def simulated_ps(shape: Product, tile: TileShape | None) -> int:
    """Picoseconds of *shape* in tiles of *tile*, or in tiles of the scheduler's choice."""
    host = Host(Engine(ONE_PE), Path(__file__).parent)
    sizes = {"a": (shape.m, shape.k), "b": (shape.k, shape.n), "c": (shape.m, shape.n)}
    return host.launch(kernel, *(host.empty(name, size, DType.F16) for name, size in sizes.items()), tile).end_ps


def command_of(shape: Product) -> GemmCommand:
    """*shape* in the HBM of `one_pe`."""
    base = next(region.base for region in ONE_PE.address_map.regions if region.space == "hbm")
    a, b, out = (
        Matrix.packed(rows, cols, DType.F16, base)
        for rows, cols in ((shape.m, shape.k), (shape.k, shape.n), (shape.m, shape.n))
    )
    return GemmCommand(a=a, b=b, out=out)


def sides(total: int) -> list[int]:
    """The sides of candidates along a side of *total*."""
    powers = [factor << exponent for exponent in range(4, 11) for factor in (1, 3)]
    parts = [-(-total // count) for count in range(1, 6)]
    kept = {each for each in (*powers, *parts) if 32 <= each <= min(total, LARGEST_SIDE)}
    return sorted(kept or {total})


def scheduler_of_one_pe() -> Any:
    """The scheduler whose choice is compared."""
    return next(iter(Engine(ONE_PE).pes.values())).scheduler


def estimated(shape: Product, tile: TileShape) -> Estimate:
    """The estimate of *shape* in tiles of *tile*."""
    scheduler = scheduler_of_one_pe()
    plan = generate_gemm_plan(replace(command_of(shape), tile=tile), "")
    return estimate(plan, scheduler.tile_room, scheduler.tile_costs)


def candidates(shape: Product, scheduler: Any) -> Iterator[tuple[int, TileShape]]:
    """(least picoseconds, tile) of every tile that fits."""
    command = command_of(shape)
    for m, n, k in itertools.product(sides(shape.m), sides(shape.n), sides(shape.k)):
        tile = TileShape(m, n, k)
        plan = generate_gemm_plan(replace(command, tile=tile), "")
        if scheduler.tile_room.holds(plan.buffers, 1):
            busy = estimate(plan, scheduler.tile_room, scheduler.tile_costs).busy_ps
            yield max(busy_ps for name, busy_ps in busy.items() if name not in PLACES), tile


class Found(NamedTuple):
    """The tile of the scheduler and the best one, with their times, and how many tiles were simulated."""

    chosen: TileShape
    chosen_ps: int
    best: TileShape
    best_ps: int
    n_simulated: int
    n_candidates: int

    @property
    def ratio(self) -> float:
        return self.chosen_ps / self.best_ps


def search(shape: Product) -> Found:
    """Simulate the scheduler's tile, and every candidate that could be faster than the best one before it."""
    scheduler = scheduler_of_one_pe()
    chosen = suggest_tile(command_of(shape), scheduler.tile_room, scheduler.tile_costs)
    chosen_ps = simulated_ps(shape, None)
    best, best_ps, n_simulated = chosen, chosen_ps, 0
    ordered = sorted(candidates(shape, scheduler), key=lambda each: each[0])
    for least_ps, tile in ordered:
        if least_ps >= best_ps:
            break
        n_simulated += 1
        taken_ps = simulated_ps(shape, tile)
        if taken_ps < best_ps:
            best, best_ps = tile, taken_ps
    return Found(chosen, chosen_ps, best, best_ps, n_simulated, len(ordered))


def main() -> int:
    """Print a line for each shape, and the worst of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take every Nth shape")
    parser.add_argument("--from", dest="first", type=int, default=0, metavar="N", help="begin with shape N, from 0")
    parser.add_argument("--shapes", type=Path, metavar="FILE", help="other shapes: a CSV file with columns M, N and K")
    options = parser.parse_args()
    try:
        shapes = products() if options.shapes is None else products_of(options.shapes)
    except BenchmarkError as error:
        parser.error(str(error))
    chosen = shapes[options.first :: options.every]
    if not chosen:
        parser.error(f"--from: got {options.first}, needs less than {len(shapes)}, the number of shapes")
    ratios = []
    print(
        f"{'model':18} {'M':>5} {'N':>5} {'K':>5}   {'chosen':>13} {'us':>9}   {'best':>13} {'us':>9}  ratio  simulated"
    )
    for shape in chosen:
        found = search(shape)
        ratios.append(found.ratio)
        times = f"{found.chosen!s:>13} {found.chosen_ps / 1e6:9.2f}   {found.best!s:>13} {found.best_ps / 1e6:9.2f}"
        print(f"{shape}   {times}  {found.ratio:5.3f}  {found.n_simulated} of {found.n_candidates}", flush=True)
    print(f"{len(ratios)} shapes, the worst {max(ratios):.3f} times its best; at most {LIMIT} is asked")
    return int(max(ratios) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
