"""Do runs that skip tiles equal runs of every event? Random commands of many tiles on random chips, both ways.

    python benchmarks/validation/folding.py                    # 3000 cases
    python benchmarks/validation/folding.py --cases 50 --first 7

The two runs have to agree in the digest of the op log (all times, waits, transfers, dispatches and texts, and so the
attribution), the result of the launch, the counters of all blocks, the counts of all links, and the busy times of the
queues. The exit code is 1 when a case differs.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple
from unittest import mock

import random_chips
from both_ways import Comparison, Outcome, compare_many, compared, state_of
from random_networks import with_network

from kb_dataexec import MemoryLogWriter
from kb_engine import DType, Engine, Host, Language, Tensor, TensorRef, TileShape
from kb_messages import KbError
from kb_topology import Topology

ORDERS = ("mnk", "mnk", "nmk", "weight_stationary", "input_stationary")
SIDES = (8, 12, 16, 24, 32)
_LIMITS = "kb_engine.fastforward.steady_state.tile_skipper"
"""The module of the limits that let searches pay. Cases are short, and are searched whatever it costs."""


class Product(NamedTuple):
    """One composite: its sizes, its tile, its loop order, the kind of its epilogue, and its switches."""

    sizes: tuple[int, int, int]
    tile: TileShape
    loop_order: str
    epilogue: int
    transposed: tuple[bool, bool]
    streams: bool
    waits: bool


class Case(NamedTuple):
    """A chip of one PE and the products of its kernel. `memory` holds the operands."""

    spec: random_chips.Spec
    products: tuple[Product, ...]
    dtype: DType
    memory: str


def draw(seed: int) -> Case:
    """The case of *seed*."""
    rng = random.Random(f"folding {seed}")
    chip = random_chips.draw(seed, 1)
    spec = (with_network(chip, buffers=False) if seed % 2 else chip).spec
    nodes = spec["cube"]["pe_template"]["nodes"]
    nodes["pe_dma"]["outstanding"] = rng.choice((1, 1, 1, 2, 4))
    if "sram" in spec["cube"]["nodes"]:
        spec["cube"]["nodes"]["sram"] |= {"ports": rng.choice(("shared", "separate")), "memory": _SRAM}
    memory = rng.choice(("hbm", "sram")) if "sram" in spec["cube"]["nodes"] else "hbm"
    products = tuple(_product(rng) for _ in range(rng.choice((1, 1, 1, 2, 3))))
    return Case(spec, products, rng.choice((DType.F16, DType.F16, DType.F32)), memory)


_SRAM = {"space": "sram", "size": "16 MiB"}


def _product(rng: random.Random) -> Product:
    tile = TileShape(*(rng.choice(SIDES) for _ in "mnk"))
    grid = [1, 1, 1]
    while grid[0] * grid[1] * grid[2] < rng.randint(110, 900):
        grid[rng.randrange(3)] *= rng.choice((2, 3, 5))
    whole = rng.random() < 0.3
    sides = tile.m, tile.n, tile.k
    m, n, k = (cuts * side - (0 if whole else rng.randrange(side)) for cuts, side in zip(grid, sides, strict=True))
    turned = rng.random() < 0.2, rng.random() < 0.2
    return Product(
        (m, n, k), tile, rng.choice(ORDERS), rng.randrange(5), turned, rng.random() < 0.2, rng.random() < 0.7
    )


def kernel(tl: Language, operands: Sequence[Sequence[TensorRef]], products: Sequence[Product]) -> None:
    """Issues *products* one after the other, and waits for some of them at once."""
    started = []
    for (a, b, bias, out), each in zip(operands, products, strict=True):
        relu, row, scaled = tl.relu(), tl.bias(bias), tl.scale(0.5, scope="k_tile")
        epilogue = ((), (relu,), (row,), (row, scaled), (tl.gelu(), row, relu))[each.epilogue]
        left, right = a.T if each.transposed[0] else a, b.T if each.transposed[1] else b
        done = tl.composite(
            "gemm",
            left,
            right,
            out=out,
            tile=each.tile,
            epilogue=epilogue,
            b_stream=each.streams,
            loop_order=each.loop_order,
        )
        started.append(done)
        if each.waits:
            tl.wait(done)
    for done in started:
        tl.wait(done)


def run(case: Case, topology: Topology, exact: Literal["isolated", "events"]) -> Outcome:
    """*case*, folded or event by event."""
    engine = Engine(topology, MemoryLogWriter(), exact=exact)
    host = Host(engine, Path(__file__).parent)
    operands = [_operands(host, case, number) for number in range(len(case.products))]
    try:
        with mock.patch(f"{_LIMITS}.LEAST_TILES", 100), mock.patch(f"{_LIMITS}._SHARE", 1e-6):
            result = host.launch(kernel, operands, case.products)
    except KbError as error:
        return Outcome({"refusal": str(error)}, 0)
    found = state_of(engine, result, engine.close_log())
    return Outcome(found, getattr(getattr(engine.fast_forward, "tiles", None), "skipped", 0))


def _operands(host: Host, case: Case, number: int) -> list[Tensor]:
    product = case.products[number]
    m, n, k = product.sizes
    turned_a, turned_b = product.transposed
    shapes = {"a": (k, m) if turned_a else (m, k), "b": (n, k) if turned_b else (k, n), "bias": (1, n), "out": (m, n)}
    return [
        host.empty(f"{name}{number}", shape, case.dtype, slices=[0], memory=case.memory)
        for name, shape in shapes.items()
    ]


def compare(seed: int) -> Comparison:
    """The case of *seed* both ways."""
    case = draw(seed)
    try:
        topology = random_chips.topology_of(case.spec)
    except KbError as error:
        return Comparison(seed, [], 0, str(error))
    folded, simulated = run(case, topology, "isolated"), run(case, topology, "events")
    return compared(seed, folded, simulated)


if __name__ == "__main__":
    sys.exit(compare_many(__doc__, compare, 3000, "tiles"))
