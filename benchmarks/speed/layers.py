"""The products of layers of Llama-3-70B on 512 PEs: their cost when equal commands are simulated once.

    python benchmarks/speed/layers.py              # a layer of 2048 and of 32 tokens, with and without a log: minutes
    python benchmarks/speed/layers.py --quick      # a layer of 32 tokens without a log
    python benchmarks/speed/layers.py --layers 80  # eighty layers without a log, with progress
    python benchmarks/speed/layers.py --against ../other    # in turns with the code of another checkout
    python benchmarks/speed/layers.py --starts              # the cost of a start of a program; with --against in turns

A layer has seven products, which are a launch each on all 512 PEs of `topologies/four_sip.yaml`. Every PE reads its
rows of A and columns of B from its own HBM slice, as `benchmarks/gemm.py` does with `operands=replicated`. Attention,
norms and activations are not part of it. The operands are empty, all layers use the same ones, and only pass 1 runs.

Without `--layers`, a layer is simulated as usual and with `Engine(exact="events")`, each in a process of its own, in
turns. With `--against`, the other side is the code of another checkout as it simulates by default, on its own files.
Seconds are CPU time from the first launch to the closed log, which is in memory and not read; a figure is the
median of the rounds. A `first` layer is on a chip that has simulated nothing, a `next` one follows it. The script
refuses sides that end at different picoseconds.

With `--starts`, a start of a program is the CPU time of a launch over its 512 programs. The launch may be the first one
on the chip (q), the first one of its sizes (the mean of k, gate and down), one of equal sizes on other tensors
(v, o and up), or one of the next layer (all seven). Closing the log is not part of it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from runpy import run_path
from statistics import mean, median
from typing import Any, Final, NamedTuple

CHECKOUT: Final = Path(__file__).parents[2]
CHIP: Final = "four_sip"
N_PES: Final = 512
TILE: Final = 128
TOKENS: Final = (2048, 32)


class Model(NamedTuple):
    """Sizes of a decoder layer, in elements."""

    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int


LLAMA_3_70B: Final = Model(hidden=8192, intermediate=28672, heads=64, kv_heads=8, head_dim=128)
"""Source: the published configuration of the model."""


class Product(NamedTuple):
    """A product of a layer: N and K. M is the number of tokens."""

    name: str
    n: int
    k: int


class Side(NamedTuple):
    """One run: CPU seconds of launches by layer and of closing the log, the last picosecond, stages, peak memory."""

    launches_s: list[list[float]]
    close_s: float
    end_ps: int
    stages: int
    peak_gib: float

    @property
    def layers_s(self) -> list[float]:
        """CPU seconds of each layer."""
        return [sum(each) for each in self.launches_s]


def products(model: Model) -> list[Product]:
    """The products of one layer of *model*."""
    heads, kv_heads = model.heads * model.head_dim, model.kv_heads * model.head_dim
    return [
        Product("q", heads, model.hidden),
        Product("k", kv_heads, model.hidden),
        Product("v", kv_heads, model.hidden),
        Product("o", model.hidden, heads),
        Product("gate", model.intermediate, model.hidden),
        Product("up", model.intermediate, model.hidden),
        Product("down", model.hidden, model.intermediate),
    ]


def simulate(tokens: int, log: bool, exact: Any, n_layers: int, tells: bool = False, checkout: Path = CHECKOUT) -> Side:
    """Simulate *n_layers* layers of *tokens* tokens on the chip of *checkout*. With *tells*, print a line for each.

    *exact* is the option of Engine, or None for an engine that may not know it.
    """
    from kb_dataexec import MemoryLogWriter
    from kb_engine import Engine, Host
    from kb_topology import load_topology

    topology, options = load_topology(checkout / f"topologies/{CHIP}.yaml"), {} if exact is None else {"exact": exact}
    engine = Engine(topology, MemoryLogWriter() if log else None, **options)
    host = Host(engine, checkout / "benchmarks")
    launches = [prepared(host, product, tokens, checkout) for product in products(LLAMA_3_70B)]
    launches_s = []
    for number in range(n_layers):
        launches_s.append([cpu_s(launch) for launch in launches])
        if tells:
            times = f"{engine.clock.now_ps / 1e9:9.3f} ms simulated, {sum(map(sum, launches_s)):6.1f} s of CPU time"
            print(f"layer {number + 1:3} of {n_layers}: {times}", flush=True)
    began = time.process_time()
    kept = engine.close_log()
    close_s = time.process_time() - began
    stages = sum(server.served for server in engine.servers)
    assert (kept is not None) == log
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return Side(launches_s, close_s, engine.clock.now_ps, stages, peak_gib)


def cpu_s(call: Any) -> float:
    """CPU seconds of *call*."""
    began = time.process_time()
    call()
    return time.process_time() - began


@cache
def bundled_gemm(checkout: Path) -> dict[str, Any]:
    """The names of the bundled benchmark of *checkout*.

    An import would find `benchmarks/validation/gemm.py` where that is in use.
    """
    return run_path(str(checkout / "benchmarks" / "gemm.py"))


def prepared(host: Any, product: Product, tokens: int, checkout: Path) -> Any:
    """A function that launches *product*, whose tensors are allocated now, and which ends when the product is done."""
    from kb_engine import DType, TileShape

    kernel, pe_grid = (bundled_gemm(checkout)[name] for name in ("kernel", "pe_grid"))
    grid_m, grid_n = pe_grid(tokens, product.n, host.num_pes)
    home = [[host.hbm_slice_of(i * grid_n + j) for j in range(grid_n)] for i in range(grid_m)]

    def tensor(name: str, shape: tuple[int, int], blocks: tuple[int, int], slices: list[int]) -> Any:
        return host.empty(name, shape, DType.F16, blocks=blocks, slices=slices)

    a = [tensor("a", (tokens, product.k), (grid_m, 1), [row[j] for row in home]) for j in range(grid_n)]
    b = [tensor("b", (product.k, product.n), (1, grid_n), row) for row in home]
    c = tensor("c", (tokens, product.n), (grid_m, grid_n), [each for row in home for each in row])
    tile = TileShape(min(TILE, tokens), TILE, TILE)
    arguments = a, b, c, grid_m, grid_n, tile, "mnk"
    return lambda: host.launch(kernel, *arguments, pes=range(grid_m * grid_n))


def alone(checkout: Path, *arguments: Any) -> Side:
    """`simulate` with the code of *checkout*, in a process of its own."""
    python = sys.executable if checkout == CHECKOUT else str(checkout / ".venv/bin/python")
    command = [python, __file__, "--child", json.dumps([str(checkout), *arguments])]
    return Side(*json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))


def compare(tokens: int, log: bool, other: tuple[Path, str | None], rounds: int) -> str:
    """A line of the table. *other* is the checkout and the exactness of the other side.

    Raises RuntimeError when the sides end at different picoseconds.
    """
    found = []
    for _ in range(rounds):
        before, two = alone(other[0], tokens, log, other[1], 1), alone(CHECKOUT, tokens, log, "isolated", 2)
        one = alone(CHECKOUT, tokens, log, "isolated", 1)
        if before.end_ps != one.end_ps:
            raise RuntimeError(f"{tokens} tokens: got the ends {before.end_ps} and {one.end_ps}, needs equal ones")
        before_s = before.layers_s[0] + before.close_s
        first_s, next_s = one.layers_s[0] + one.close_s, two.layers_s[1]
        found.append((before_s, first_s, before_s / first_s, next_s, before_s / next_s))
    before_s, first_s, first, next_s, next_gain = map(median, zip(*found, strict=True))
    gains = f"{first_s:8.2f} {first:7.1f} {next_s:8.2f} {next_gain:7.1f}"
    return f"{tokens:6} {'yes' if log else 'no':>4} {one.stages:10} {before_s:9.2f} {gains} {two.peak_gib:9.1f}"


def of_new_sizes(layer: list[Product]) -> list[bool]:
    """Of each product of *layer*, whether none before it has its N and K."""
    sizes = [(each.n, each.k) for each in layer]
    return [each not in sizes[:number] for number, each in enumerate(sizes)]


def starts(tokens: int, log: bool, checkout: Path, rounds: int) -> str:
    """A line of the table of starts: CPU milliseconds a program of each kind of launch, medians of the rounds."""
    layer = products(LLAMA_3_70B)
    found = []
    for _ in range(rounds):
        first_s, next_s = alone(checkout, tokens, log, "isolated", 2).launches_s
        new_s = [each for each, is_new in zip(first_s, of_new_sizes(layer), strict=True) if is_new]
        repeated_s = [each for each, is_new in zip(first_s, of_new_sizes(layer), strict=True) if not is_new]
        found.append((new_s[0], mean(new_s[1:]), mean(repeated_s), mean(next_s)))
    medians = [median(each) * 1e3 / N_PES for each in zip(*found, strict=True)]
    return f"{tokens:6} {'yes' if log else 'no':>4} " + " ".join(f"{each:9.3f}" for each in medians)


def print_starts(checkouts: list[Path], rounds: int) -> None:
    """Print the table of starts, with lines for all *checkouts*."""
    print(f"{'tokens':>6} {'log':>4} {'of a chip':>9} {'first':>9} {'repeated':>9} {'next':>9}  ms a start")
    for log in (False, True):
        for checkout in checkouts:
            print(starts(TOKENS[1], log, checkout, rounds), checkout, flush=True)


def main() -> None:
    """Print the table, or the progress of many layers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a layer of 32 tokens without a log")
    parser.add_argument("--layers", type=int, help="simulate so many layers without a log, and compare with nothing")
    parser.add_argument("--tokens", type=int, default=TOKENS[0], help="tokens of --layers")
    parser.add_argument("--against", type=Path, help="another checkout, with its packages in .venv")
    parser.add_argument("--starts", action="store_true", help="the cost of a start of a program")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        checkout, *arguments = json.loads(options.child)
        print(json.dumps(simulate(*arguments, checkout=Path(checkout))))
        return
    if options.layers is not None:
        if options.layers < 1 or options.tokens < 1:
            parser.error(f"got {options.layers} layers of {options.tokens} tokens, needs one or more of each")
        began = time.perf_counter()
        side = simulate(options.tokens, False, "isolated", options.layers, tells=True)
        wall_s = time.perf_counter() - began
        print(f"{side.stages} stages, {wall_s:.1f} s with the chip and the tensors, {side.peak_gib:.1f} GiB at most")
        return
    if options.starts:
        print_starts([CHECKOUT] if options.against is None else [options.against.resolve(), CHECKOUT], options.rounds)
        return
    other = (CHECKOUT, "events") if options.against is None else (options.against.resolve(), None)
    print(f"{'tokens':>6} {'log':>4} {'stages':>10} {'before s':>9} {'first s':>8} {'gain':>7} "
          f"{'next s':>8} {'gain':>7} {'peak GiB':>9}")  # fmt: skip
    for tokens in TOKENS[1:] if options.quick else TOKENS:
        for log in (False,) if options.quick else (False, True):
            print(compare(tokens, log, other, options.rounds), flush=True)


if __name__ == "__main__":
    main()
