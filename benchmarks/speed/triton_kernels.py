"""The simulator's cost of Triton kernels: a row softmax and a product, on `one_cube`, with the op log.

    python benchmarks/speed/triton_kernels.py                       # softmax of 4096 x 4096, product of 4096^3: 15 s
    python benchmarks/speed/triton_kernels.py --issue scoreboard    # as PE_CPUs issue under `kb exec`
    python benchmarks/speed/triton_kernels.py --quick               # of 256 x 256 and 256^3: seconds
    python benchmarks/speed/triton_kernels.py --json
    python benchmarks/speed/triton_kernels.py --against ../other    # the product, in turns with another checkout

A program of the softmax takes a row. The product is of f16 in blocks of 128 x 128 x 64, and its row also
has the latency of benchmarks/gemm.py, one composite a PE. Seconds are wall time: pass 1 from the launch to the closed
log, pass 2 from there to the computed data. The script refuses to measure wrong numbers.

With `--against`, seconds are CPU time of the product: of pass 1 without a log, with one on disk, and with one in memory
whose rows are made at the end; and of reading the log on disk. They are medians of rounds, and so are the gains, of
which each round has one. A run is a process of its own. The script refuses other latencies or digests.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, NamedTuple

import numpy as np

import kb_triton as triton
import kb_triton.language as tl
from kb_dataexec import FolderLogWriter, MemoryLogWriter, read_log
from kb_engine import Engine, Host
from kb_topology import load_topology
from kb_triton.host import Device, Options, topology_of, use
from kb_triton.host.launches import PreparedLaunch

CHECKOUT = Path(__file__).parents[2]
CHIP = CHECKOUT / "topologies/one_cube.yaml"
ROWS, COLUMNS, DEEP = 128, 128, 64


class Row(NamedTuple):
    """One kernel. `native_us` is the latency of the composite, if there is one."""

    kernel: str
    size: int
    programs: int
    records: int
    pass_1_s: float
    pass_2_s: float
    latency_us: float
    native_us: float | None


@triton.jit
def softmax_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=-float("inf"))
    powers = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * n + at, powers / tl.sum(powers, axis=0), mask=at < n)


@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEEP: tl.constexpr):
    columns = tl.cdiv(n, COLUMNS)
    row = tl.program_id(0) // columns * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) % columns * COLUMNS + tl.arange(0, COLUMNS)
    k = tl.arange(0, DEEP)
    a, b = a_ptr + row[:, None] * n + k[None, :], b_ptr + k[:, None] * n + column[None, :]
    sums = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, n, DEEP):
        inside = k < n - start
        left = tl.load(a, mask=(row < n)[:, None] & inside[None, :], other=0.0)
        right = tl.load(b, mask=inside[:, None] & (column < n)[None, :], other=0.0)
        sums = tl.dot(left, right, sums)
        a += DEEP
        b += DEEP * n
    where = row[:, None] * n + column[None, :]
    tl.store(c_ptr + where, sums.to(tl.float16), mask=(row < n)[:, None] & (column < n)[None, :])


def measured(name: str, size: int, launched: Any, native_us: float | None = None) -> Row:
    """The row of a launch."""
    latency_us = (launched.result.end_ps - launched.result.start_ps) / 1e6
    seconds = launched.timing_s, launched.data_s
    return Row(name, size, launched.grid[0], len(launched.log.ops), *seconds, latency_us, native_us)


def device(issue: str, on_launch: Callable[[Any], None]) -> Device:
    """`one_cube` with PE_CPUs that issue by *issue*."""
    return Device(topology_of(Options(topology=str(CHIP), issue=issue)), on_launch=on_launch)


def softmax(size: int, issue: str = "blocking") -> Row:
    x = np.random.default_rng(0).standard_normal((size, size), np.float32)
    y, found = np.empty_like(x), list[Any]()
    use(device(issue, found.append))
    softmax_kernel[(size,)](x, y, size, BLOCK=1 << (size - 1).bit_length())
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-8)
    return measured("softmax", size, found[0])


def product(size: int, issue: str = "blocking") -> Row:
    a, b = np.random.default_rng(0).standard_normal((2, size, size), np.float32).astype(np.float16)
    c, found = np.empty_like(a), list[Any]()
    use(device(issue, found.append))
    product_kernel[(-(-size // ROWS) * -(-size // COLUMNS),)](a, b, c, size, ROWS=ROWS, COLUMNS=COLUMNS, DEEP=DEEP)
    some = np.random.default_rng(1).integers(0, size, 16)
    expected = a[some].astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c[some], expected, rtol=2e-3, atol=2e-3 * size**0.5)
    return measured("product", size, found[0], native_us(size))


def native_us(size: int) -> float:
    """The latency of benchmarks/gemm.py for the same product, in the tiles that the scheduler chooses."""
    spec = spec_from_file_location("gemm", CHECKOUT / "benchmarks/gemm.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    gemm = module.Gemm()
    host = Host(Engine(load_topology(CHIP)), CHECKOUT / "benchmarks")
    params = gemm.Params(M=size, N=size, K=size)
    gemm.launch(host, params, gemm.inputs(params, np.random.default_rng(0)))
    return (host.launches[0].end_ps - host.launches[0].start_ps) / 1e6


def simulated(size: int, issue: str) -> dict[str, Any]:
    """CPU seconds of each step of the product with the packages of this interpreter, and its latency and digest."""
    a, b, c = (np.zeros((size, size), np.float16) for _ in range(3))
    given = {"a_ptr": a, "b_ptr": b, "c_ptr": c, "n": size, "ROWS": ROWS, "COLUMNS": COLUMNS, "DEEP": DEEP}
    grid = (-(-size // ROWS) * -(-size // COLUMNS), 1, 1)
    topology = topology_of(Options(topology=str(CHIP), issue=issue))
    seconds: dict[str, float] = {}
    came_to = set[tuple[int, str]]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        writers = {"no log": None, "log on disk": FolderLogWriter(path), "log in memory": MemoryLogWriter()}
        for name, writer in writers.items():
            host = Host(Engine(topology, writer), CHECKOUT)
            call = PreparedLaunch(product_kernel, grid, given, "dynamic", False, host)
            gc.collect()
            began = process_time()
            end_ps = call.run().end_ps
            log = host.engine.close_log()
            if name == "log in memory":
                assert log is not None
                assert log.n_ops
            seconds[name] = process_time() - began
            if name == "log on disk":
                gc.collect()
                began = process_time()
                log = read_log(path)
                seconds["reading it"] = process_time() - began
            came_to.add((end_ps, "" if log is None else log.digest))
    return {"seconds": seconds, "came_to": sorted(came_to)}


def against(other: Path, size: int, issue: str, rounds: int) -> str:
    """The seconds of the checkout *other* and of this one, in turns."""
    found = []
    for _ in range(rounds):
        pair = []
        for python in (str(other / ".venv/bin/python"), sys.executable):
            command = [python, __file__, "--child", str(size), "--issue", issue]
            pair.append(json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout))
        if pair[0]["came_to"] != pair[1]["came_to"]:
            raise SystemExit(f"the checkouts differ: {pair[0]['came_to']}, {pair[1]['came_to']}")
        found.append([each["seconds"] for each in pair])
    lines = [f"{'product':>16}{'other':>10}{'this':>10}{'gain':>8}"]
    for name in found[0][0]:
        before, after = ([pair[side][name] for pair in found] for side in (0, 1))
        gain = median(one / two for one, two in zip(before, after, strict=True))
        lines.append(f"{name:>16}{median(before):>8.2f} s{median(after):>8.2f} s{gain:>8.2f}")
    return "\n".join(lines)


def text(rows: list[Row]) -> str:
    titles = {"size": 6, "programs": 10, "records": 9, "pass 1": 10, "pass 2": 10, "latency": 13, "native": 9}
    lines = [f"{'kernel':10}" + "".join(f"{title:>{width}}" for title, width in titles.items())]
    for row in rows:
        share = "-" if row.native_us is None else f"{row.native_us / row.latency_us:.0%}"
        counts = f"{row.kernel:10}{row.size:>6}{row.programs:>10}{row.records:>9}"
        lines.append(f"{counts}{row.pass_1_s:>8.2f} s{row.pass_2_s:>8.2f} s{row.latency_us:>10.1f} us{share:>9}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    issues = ("blocking", "scoreboard", "decoupled")
    parser.add_argument("--issue", choices=issues, default="blocking", help="how PE_CPUs issue")
    parser.add_argument("--quick", action="store_true", help="small matrices")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--against", type=Path, help="another checkout, with its packages in .venv")
    parser.add_argument("--rounds", type=int, default=3, help="with --against")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    size = 256 if given.quick else 4096
    if given.child is not None:
        print(json.dumps(simulated(given.child, given.issue)))
        return
    if given.against is not None:
        print(against(given.against.resolve(), size, given.issue, given.rounds))
        return
    rows = [softmax(size, given.issue), product(size, given.issue)]
    print(json.dumps([row._asdict() for row in rows], indent=2) if given.json else text(rows))


if __name__ == "__main__":
    main()
