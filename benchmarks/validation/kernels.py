"""Are the bundled kernels right at the shapes of published models, in every type, on a cube and on 16?

    python benchmarks/validation/kernels.py                        # every kernel, shape, type and chip: some minutes
    python benchmarks/validation/kernels.py attention rope --json  # some kernels

Every kernel runs at a shape of the model that its file names, or of GPT-2 or Llama-3-8B, and at one that no block
divides. The exit code is 1 when a result is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import kernbench as kb

BENCHMARKS = Path(__file__).parents[1]
CHIPS = ("one_cube", "one_sip")
DTYPES = ("f32", "f16", "bf16")
Params = dict[str, Any]

REAL: dict[str, tuple[Params, ...]] = {
    "all_reduce": ({"rows": 512, "width": 4096, "ranks": 8},),
    "attention": (
        {"tokens": 1024, "heads": 4, "kv_heads": 1, "head_dim": 128, "block": 64},
        {"tokens": 1024, "heads": 4, "kv_heads": 1, "head_dim": 128, "block": 64, "causal": False},
        {"tokens": 1024, "heads": 4, "kv_heads": 1, "head_dim": 128, "kernels": "three"},
    ),
    "cross_entropy": ({"tokens": 64, "vocabulary": 128256},),
    "decode_attention": ({"batch": 2, "context": 2048, "heads": 32, "kv_heads": 8, "head_dim": 128},),
    "embedding": ({"tokens": 1024, "vocabulary": 50257, "width": 768},),
    "expert_parallel": ({"tokens": 16, "width": 512, "hidden": 896},),
    "gemm": ({"M": 512, "N": 4096, "K": 4096}, {"M": 512, "N": 3072, "K": 768, "operands": "one_slice"}),
    "decode_gemv": ({"N": 4096, "K": 4096},),
    "int8_gemm": ({"M": 256, "N": 4096, "K": 4096},),
    "layer_norm": ({"rows": 1024, "width": 768}, {"rows": 256, "width": 1600}),
    "linear": ({"M": 512, "N": 3072, "K": 768},),
    "mixture_of_experts": ({"tokens": 32, "width": 4096, "hidden": 448, "block_m": 16},),
    "power_iteration": ({"N": 512},),
    "rms_norm": ({"rows": 256, "width": 4096}, {"rows": 128, "width": 8192, "block": 4}),
    "rope": ({"positions": 256, "heads": 32, "head_dim": 128},),
    "softmax": ({"M": 2048, "N": 2048},),
    "split_k_gemm": ({"M": 16, "N": 16, "K": 14336}, {"M": 16, "N": 16, "K": 14336, "merge": "messages"}),
    "stencil": ({"rows": 512, "width": 512, "steps": 8},),
    "tensor_parallel_mlp": ({"tokens": 8, "width": 512, "hidden": 896},),
    "vector_add": ({"N": 1024 * 768},),
}
"""Shapes of models: one layer, and as many tokens or heads as end in some seconds. No model has a power iteration."""

RAGGED: dict[str, tuple[Params, ...]] = {
    "all_reduce": ({"rows": 13, "width": 37, "ranks": 5},),
    "attention": (
        {"tokens": 61, "heads": 4, "kv_heads": 2, "head_dim": 20, "block": 24, "block_k": 40},
        {"tokens": 61, "heads": 2, "kv_heads": 2, "head_dim": 20, "block": 24, "block_k": 40, "causal": False},
        {"tokens": 61, "heads": 4, "kv_heads": 2, "head_dim": 20, "block": 24, "rows": 7, "kernels": "three"},
    ),
    "cross_entropy": ({"tokens": 13, "vocabulary": 331, "words": 100},),
    "decode_attention": (
        {"batch": 3, "context": 61, "heads": 6, "kv_heads": 3, "head_dim": 20, "splits": 2, "block": 24},
        {"batch": 1, "context": 13, "heads": 2, "kv_heads": 1, "head_dim": 7, "splits": 7, "block": 2},
    ),
    "embedding": ({"tokens": 41, "vocabulary": 97, "width": 19, "block": 6},),
    "expert_parallel": (
        {"tokens": 9, "experts": 5, "chosen": 3, "width": 67, "hidden": 45, "block_n": 40, "block_k": 32},
    ),
    "gemm": ({"M": 45, "N": 83, "K": 131}, {"M": 45, "N": 83, "K": 131, "operands": "one_slice", "tile": "30x50x40"}),
    "decode_gemv": ({"N": 83, "K": 131, "block_n": 30, "block_k": 50},),
    "int8_gemm": ({"M": 45, "N": 83, "K": 131, "block_m": 30, "block_n": 50, "block_k": 40},),
    "layer_norm": ({"rows": 29, "width": 131, "block": 6},),
    "linear": ({"M": 45, "N": 83, "K": 131, "block_m": 30, "block_n": 50, "block_k": 40, "activation": "silu"},),
    "mixture_of_experts": (
        {"tokens": 9, "experts": 4, "chosen": 3, "width": 67, "hidden": 45, "block_m": 6, "block_n": 40, "block_k": 32},
    ),
    "power_iteration": ({"N": 61},),
    "rms_norm": ({"rows": 29, "width": 131},),
    "rope": ({"positions": 29, "heads": 3, "head_dim": 22, "block": 8},),
    "softmax": ({"M": 29, "N": 131, "rows": 3},),
    "split_k_gemm": (
        {"M": 7, "N": 83, "K": 331, "splits": 3, "block_n": 50, "block_k": 40},
        {"M": 7, "N": 83, "K": 331, "splits": 3, "block_n": 50, "block_k": 40, "merge": "messages"},
    ),
    "stencil": ({"rows": 29, "width": 13, "steps": 3},),
    "tensor_parallel_mlp": ({"tokens": 5, "width": 67, "hidden": 83, "block_n": 40, "block_k": 32},),
    "vector_add": ({"N": 3001, "block": 100},),
}
"""Small shapes that no block divides."""


class KernelCase(NamedTuple):
    """A bundled kernel with parameters, on a bundled chip."""

    kernel: str
    chip: str
    params: Params

    def __str__(self) -> str:
        return f"{self.kernel} {' '.join(f'{key}={value}' for key, value in self.params.items())} on {self.chip}"


class KernelResult(NamedTuple):
    """The outcome of a case: simulated time, the time that it took, and the mistake, "" for a right result."""

    case: str
    latency_ns: float
    seconds: float
    wrong: str


def cases(shapes: dict[str, tuple[Params, ...]], kernels: tuple[str, ...] = ()) -> Iterator[KernelCase]:
    """Every shape of the *kernels* named, by default of all, in all types and on all chips."""
    for kernel in kernels or tuple(shapes):
        dtype_name = "out_dtype" if kernel == "int8_gemm" else "dtype"
        for params in shapes[kernel]:
            for dtype in DTYPES:
                yield from (KernelCase(kernel, chip, {**params, dtype_name: dtype}) for chip in CHIPS)


def shape_of(case: KernelCase) -> str:
    """The kernel of a case and its parameters without the type, as a text."""
    shape = {key: value for key, value in case.params.items() if not key.endswith("dtype")}
    return str(case._replace(chip="any chip", params=shape))


def run(case: KernelCase) -> KernelResult:
    """Simulates a case and compares its results with the reference. A refused case is wrong too, with a time of 0."""
    began = time.perf_counter()
    latency_ns, wrong = 0.0, ""
    try:
        done = kb.run(str(BENCHMARKS / f"{case.kernel}.py"), chip=case.chip, **case.params)
        latency_ns = done.latency_ns
        done.check()
    except (kb.WrongResult, kb.KbError) as error:
        wrong = str(error)
    return KernelResult(str(case), latency_ns, time.perf_counter() - began, wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", choices=[[], *REAL], metavar="KERNEL", help="kernels (default: all)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    results = []
    for shapes in (RAGGED, REAL):
        for case in cases(shapes, tuple(options.kernels)):
            found = run(case)
            results.append(found)
            print(f"{found.case}: {found.latency_ns:.0f} ns, {found.wrong or 'ok'}", file=sys.stderr)
    wrong = [each for each in results if each.wrong]
    longest = max(each.seconds for each in results)
    if options.json:
        print(json.dumps([each._asdict() for each in results], indent=2))
    else:
        print(f"{len(results)} runs, {len(wrong)} wrong, the longest took {longest:.1f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
