"""What a launch of a Triton kernel costs that repeats an earlier one, with its data, beside one that is simulated.

    python benchmarks/speed/triton_again.py                      # kernels of benchmarks/triton on one_cube: a minute
    python benchmarks/speed/triton_again.py --chip one_sip       # five minutes
    python benchmarks/speed/triton_again.py --quick              # small arrays: seconds
    python benchmarks/speed/triton_again.py --json

Milliseconds are CPU time of whole launches, medians, in turns: a device that tells somebody of its launches simulates
each, and a device that tells nobody repeats. PE_CPUs issue as under `kb exec`. The script refuses to measure launches
whose results or times differ, and those that are not repeated.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from kb_triton import install
from kb_triton.host import Device, Options, topology_of, using

CHECKOUT = Path(__file__).parents[2]
ROUNDS = 5

Launch = Callable[[], Any]


class Row(NamedTuple):
    """One kernel: CPU milliseconds of its launches."""

    kernel: str
    records: int
    first_ms: float
    simulated_ms: float
    repeated_ms: float


def kernels(quick: bool) -> dict[str, Launch]:
    """Launches of kernels on arrays that stay, each of which gives the result."""
    rng, n = np.random.default_rng(0), 64 if quick else 1024
    few = max(n // 2, 64)

    def normal(*shape: int, kind: Any = np.float32) -> Any:
        return rng.standard_normal(shape, np.float32).astype(kind)

    sys.path.insert(0, str(CHECKOUT / "benchmarks/triton"))
    install()
    add, softmax, norm, attention, gemm = map(
        import_module, ("vector_add", "row_softmax", "layer_norm", "attention", "gemm_activation")
    )
    left, right, x, weight, bias = normal(n * n), normal(n * n), normal(n, n), normal(n), normal(n)
    heads = [normal(8, few, 64, kind=np.float16) for _ in range(3)]
    a, b = normal(few, few, kind=np.float16), normal(few, few, kind=np.float16)

    def layer_norm() -> Any:
        y, mean, scale = np.empty_like(x), np.empty(n, np.float32), np.empty(n, np.float32)
        norm.forward_kernel[(n,)](x, weight, bias, y, mean, scale, n, norm.EPS, BLOCK=n)
        return y

    return {
        "vector add": lambda: add.vector_add(left, right),
        "row softmax": lambda: softmax.row_softmax(x),
        "layer norm": layer_norm,
        "attention": lambda: attention.forward(*heads, True, 64, 64)[0],
        "gemm": lambda: gemm.gemm(a, b, "leaky", (64, 64, 32)),
    }


def timed(device: Device, launch: Launch) -> tuple[float, Any, int]:
    """CPU milliseconds of *launch* on *device*, its result, and the simulated picoseconds."""
    with using(device):
        before, began = device.elapsed_ps, process_time()
        found = launch()
        return (process_time() - began) * 1e3, found, device.elapsed_ps - before


def measured(name: str, launch: Launch, chip: str) -> Row:
    """The row of a kernel."""
    topology = topology_of(Options(topology=str(CHECKOUT / f"topologies/{chip}.yaml")))
    records = list[int]()
    simulating = Device(topology, on_launch=lambda each: records.append(len(each.log.ops)))
    repeating = Device(topology)
    first = timed(repeating, launch)
    timed(simulating, launch)
    simulated, repeated = list[float](), list[float]()
    for _ in range(ROUNDS):
        for device, found in ((simulating, simulated), (repeating, repeated)):
            ms, result, ps = timed(device, launch)
            np.testing.assert_array_equal(result, first[1])
            assert ps == first[2], f"{name}: {ps} ps after {first[2]} ps"
            found.append(ms)
    assert repeating.n_repeated == ROUNDS, f"{name}: {repeating.n_repeated} of {ROUNDS} launches were repeated"
    return Row(name, records[0], first[0], median(simulated), median(repeated))


def text(rows: list[Row]) -> str:
    lines = [f"{'kernel':12}{'records':>9}{'first':>12}{'simulated':>13}{'repeated':>13}{'ratio':>7}"]
    for row in rows:
        times = f"{row.first_ms:>9.1f} ms{row.simulated_ms:>10.1f} ms{row.repeated_ms:>10.1f} ms"
        lines.append(f"{row.kernel:12}{row.records:>9}{times}{row.simulated_ms / row.repeated_ms:>7.1f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chip", default="one_cube", help="a bundled chip (default: one_cube)")
    parser.add_argument("--quick", action="store_true", help="small arrays")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    rows = [measured(name, launch, given.chip) for name, launch in kernels(given.quick).items()]
    print(json.dumps([row._asdict() for row in rows], indent=2) if given.json else text(rows))


if __name__ == "__main__":
    main()
