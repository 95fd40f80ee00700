"""The effect of choices of a Triton kernel on its simulated time on `one_cube`: blocks, ways to issue, schedules.

    python benchmarks/speed/triton_choices.py            # a product of 2048^3, attention of 2048 rows: a minute
    python benchmarks/speed/triton_choices.py --quick    # of 512^3 and 512 rows: seconds
    python benchmarks/speed/triton_choices.py --json

The product is the one of triton_kernels.py, and its share is its speed over the speed of benchmarks/gemm.py, one
composite a PE. Attention is the one of benchmarks/triton, causal and not, of four heads of 64 columns, in blocks of 128
queries and 128 keys. The PE that is free first takes the next program (dynamic), or each PE has its own (static), and
the share is the time over the time of the static schedule. All elements are f16. Simulated times repeat exactly. The
script refuses to measure wrong numbers.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import kb_triton
from kb_topology import load_topology
from kb_triton.host import Device, using
from kb_triton.host.options import issuing

kb_triton.install()
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "triton")]

import attention  # noqa: E402 (the kernels import triton)
from triton_kernels import CHIP, native_us, product_kernel  # noqa: E402

ISSUES = "blocking", "scoreboard", "decoupled"
BLOCKS = (128, 128, 64), (256, 128, 128), (256, 256, 64), (256, 256, 128)
HEADS, COLUMNS, BLOCK = 4, 64, 128


class Row(NamedTuple):
    """One launch with a `choice`. `share` compares its time or speed; the column's title names the other one."""

    kernel: str
    choice: str
    issue: str
    latency_us: float
    share: float


def latency_us(call: Callable[[], object], issue: str, schedule: str = "dynamic") -> float:
    """The latency of the only launch in *call*."""
    found = list[Any]()
    with using(Device(issuing(load_topology(CHIP), issue), schedule=schedule, on_launch=found.append)):
        call()
    (only,) = found
    return float(only.result.end_ps - only.result.start_ps) / 1e6


def products(size: int) -> Iterator[Row]:
    """A product in each of BLOCKS, issued in each of ISSUES; the share is its speed over the composite's."""
    a, b = np.random.default_rng(0).standard_normal((2, size, size), np.float32).astype(np.float16)
    expected = a[::97].astype(np.float64) @ b.astype(np.float64)
    composite_us = native_us(size)
    for rows, columns, deep in BLOCKS:
        for issue in ISSUES:
            c, launch = np.empty_like(a), product_kernel[-(-size // rows) * -(-size // columns),]
            us = latency_us(partial(launch, a, b, c, size, ROWS=rows, COLUMNS=columns, DEEP=deep), issue)
            np.testing.assert_allclose(c[::97], expected, rtol=2e-3, atol=2e-3 * size**0.5)
            yield Row("product", f"{rows} x {columns} x {deep}", issue, us, composite_us / us)


def attentions(size: int) -> Iterator[Row]:
    """Attention with each schedule; the share is its time over the time of the static schedule."""
    q, k, v = np.random.default_rng(0).standard_normal((3, HEADS, size, COLUMNS), np.float32).astype(np.float16)
    for causal in (False, True):
        expected, name = _attended(q[1], k[1], v[1], causal), "attention, causal" if causal else "attention"
        for issue in ISSUES:
            static_us = 0.0
            for schedule in ("static", "dynamic"):
                out, level = np.empty_like(q), np.empty((HEADS, size), np.float32)
                launch = attention.forward_kernel[-(-size // BLOCK), HEADS]
                blocks = {"ROWS": BLOCK, "COLUMNS": BLOCK, "D": COLUMNS, "CAUSAL": causal}
                us = latency_us(partial(launch, q, k, v, out, level, size, COLUMNS**-0.5, **blocks), issue, schedule)
                np.testing.assert_allclose(out[1], expected, rtol=4e-3, atol=4e-3)
                static_us = static_us or us
                yield Row(name, schedule, issue, us, us / static_us)


def _attended(q: Any, k: Any, v: Any, causal: bool) -> Any:
    """softmax(q kᵀ / sqrt(columns)) v in float64, of one head."""
    wide = [each.astype(np.float64) for each in (q, k, v)]
    scores = wide[0] @ wide[1].T * COLUMNS**-0.5
    if causal:
        scores[np.triu_indices(len(q), 1)] = -np.inf
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True) @ wide[2]


def text(rows: list[Row]) -> str:
    lines = [f"{'kernel':20}{'choice':18}{'issue':12}{'latency':>13}{'share':>8}"]
    lines += [
        f"{row.kernel:20}{row.choice:18}{row.issue:12}{row.latency_us:>10.1f} us{row.share:>8.0%}" for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small matrices")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    rows = [*products(512 if given.quick else 2048), *attentions(512 if given.quick else 2048)]
    print(json.dumps([row._asdict() for row in rows], indent=2) if given.json else text(rows))


if __name__ == "__main__":
    main()
