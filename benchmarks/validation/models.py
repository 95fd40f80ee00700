"""Runs ops of models at published sizes on a chip, and compares each with float64.

    python benchmarks/validation/models.py           # all cases
    python benchmarks/validation/models.py up8 head8 # some of them
    python benchmarks/validation/models.py --list

Prints, for each op of each case, whether it is right, its time, the shares of the bandwidth of HBM and of the peak of
the GEMM arrays, the seconds that the case took, and the most memory so far. Exits with 1 when an op is wrong.

The sizes are those of Llama-3-8B, and 8 experts of Mixtral-8x7B, which have the same widths. Sources: the
configurations of `Meta-Llama-3-8B` and `Mixtral-8x7B-v0.1`. Convolutions are those of ResNet-50, for 1 and 8 images.
Cases of attention say their heads.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct

from kb_dataexec import Executor, MemoryLogWriter
from kb_engine import Engine, Host
from kb_messages import DType
from kb_models import OpsWorkload
from kb_models.layout import Mesh, Value, parse_map
from kb_models.models.builder import Builder
from kb_models.models.rotation import Rotation
from kb_models.ops import Heads, Op, Window, normal
from kb_topology import Topology, load_topology

TOPOLOGIES: Final = Path(__file__).parents[2] / "topologies"
HBM_GBS, PEAK_TFLOPS = 16 * 819.2, 128 * 8.192
"""The bandwidth of HBM and the peak in f16 of one_sip."""
HIDDEN, MLP, VOCAB = 4096, 14336, 128256
HEADS: Final = Heads(heads=32, kv_heads=8, head_dim=128)
Build = Callable[[Builder], object]


class Case(NamedTuple):
    """Ops that `build` makes, in f16 on one_sip, with `layout`."""

    build: Build
    layout: str = "heads=cube,kv_heads=cube,mlp=cube,experts=cube,vocab=cube"


def x(m: Builder, rows: int, width: int, axis: str = "") -> Value:
    """An activation."""
    return m.input("x", (rows, width), ("batch", axis))


def qkv(rows: int) -> Build:
    """The projections of 32 heads and 8 key heads of 128."""
    heads = [("q", 4096, "heads", 128), ("k", 1024, "kv_heads", 128), ("v", 1024, "kv_heads", 128)]
    return lambda m: m.projections("qkv", x(m, rows, HIDDEN), heads)


def linear_cases(rows: int) -> dict[str, Case]:
    """The linear ops of a block for *rows* tokens."""
    return {
        f"qkv{rows}": Case(qkv(rows)),
        f"o{rows}": Case(lambda m: m.linear("o", x(m, rows, HIDDEN, "heads"), HIDDEN, "")),
        f"gate_up{rows}": Case(lambda m: m.gated("gate_up", x(m, rows, HIDDEN), MLP, "mlp")),
        f"up{rows}": Case(lambda m: m.linear("up", x(m, rows, HIDDEN), MLP, "mlp")),
        f"down{rows}": Case(lambda m: m.linear("down", x(m, rows, MLP, "mlp"), HIDDEN, "")),
        **{
            f"up{rows}_{kind}": Case(lambda m, kind=kind: m.linear("up", x(m, rows, HIDDEN), MLP, "mlp", weights=kind))
            for kind in ("int8", "fp8", "int4")
        },
    }


def cube_cases(rows: int) -> dict[str, Case]:
    """Norms and gathers of *rows* tokens, and the experts of Mixtral-8x7B over cubes by expert and by column."""

    def experts(m: Builder) -> object:
        return m.experts("experts", x(m, rows, HIDDEN), 8, 2, MLP)

    return {
        f"norm{rows}": Case(lambda m: m.rms_norm("norm", x(m, rows, HIDDEN), 1e-5)),
        f"gather{rows}": Case(lambda m: m.gather("gather", x(m, rows, HIDDEN, "mlp"))),
        f"experts{rows}": Case(experts),
        f"experts{rows}_by_column": Case(experts, "mlp=cube"),
    }


WINDOWS: Final = {
    "stem": (224, 3, 64, 7, 2),
    "stage1": (56, 64, 64, 3, 1),
    "stage2": (28, 128, 128, 3, 1),
    "stage3": (14, 256, 256, 3, 1),
    "stage4": (7, 512, 512, 3, 1),
    "halves": (56, 256, 512, 1, 2),
    "expands": (7, 512, 2048, 1, 1),
}
"""Convolutions of ResNet-50: the side of the image, channels, filters, and the side and stride of the window. Source:
He et al., arXiv 1512.03385, table 1."""


def image_cases(images: int) -> dict[str, Case]:
    """Convolutions of ResNet-50 over so many *images*."""

    def case(side: int, channels: int, n: int, taps: int, stride: int) -> Case:
        window = Window.of(taps, stride, taps // 2)
        return Case(
            lambda m: m.convolution("conv", m.images("x", images, side, side, channels), n, window), "pixels=cube"
        )

    return {f"{name}_of_{images}": case(*sizes) for name, sizes in WINDOWS.items()}


def attention_inputs(m: Builder, rows: int, heads: Heads, axis: str = "batch") -> tuple[Value, Value, Value]:
    """Queries, keys and values as projections leave them, with whole heads in each cube."""
    found = []
    for name, count, columns in (("q", heads.heads, "heads"), ("k", heads.kv_heads, "kv_heads")):
        shape, axes = (rows, count * heads.head_dim), (axis, columns)
        parts = m.mesh.parts(shape, axes, (1, heads.head_dim))
        content = normal(shape, 1.0, m.dtype)
        for each in (name, "v")[: 1 + (name == "k")]:
            value = Value(name=each, shape=shape, dtype=m.dtype, parts=parts, axes=axes, content=content)
            found.append(value)
    return found[0], found[1], found[2]


def decode(batch: int, context: int, heads: Heads = HEADS, page: int = 0) -> Case:
    """A new token for each of *batch* sequences of *context* keys."""
    return Case(
        lambda m: m.decode_attention(
            "decode", attention_inputs(m, batch, heads), heads, context, rotation=Rotation(), page=page
        )
    )


def prefill(sequences: int, tokens: int, heads: Heads = HEADS, causal: bool = True) -> Case:
    """All tokens of *sequences* sequences; causal ones have rotary positions."""
    rotation = Rotation() if causal else None
    return Case(
        lambda m: m.prefill_attention(
            "prefill",
            attention_inputs(m, sequences * tokens, heads),
            heads,
            sequences,
            causal=causal,
            rotation=rotation,
        )
    )


ATTENTION_CASES: Final[dict[str, Case]] = {
    "decode1": decode(1, 4096),
    "decode8": decode(8, 4096),
    "decode8_paged": decode(8, 4096, page=16),
    "decode64": decode(64, 1024),
    "decode8_one_key_head": decode(8, 4096, Heads(heads=32, kv_heads=1, head_dim=128)),
    "decode8_all_key_heads": decode(8, 1024, Heads(heads=32, kv_heads=32, head_dim=128)),
    "prefill512": prefill(1, 512),
    "prefill1500": prefill(1, 1500),
    "prefill_bert": prefill(2, 512, Heads(heads=16, kv_heads=16, head_dim=64), causal=False),
    "prefill_vit": prefill(8, 257, Heads(heads=16, kv_heads=16, head_dim=80), causal=False),
    "prefill_gemma": prefill(1, 1500, Heads(heads=16, kv_heads=1, head_dim=256)),
}
"""Sequences and tokens of Llama-3-8B, one key head and as many as query heads, and heads of 64, 80 and 256 elements."""


CASES: Final[dict[str, Case]] = {
    **linear_cases(8),
    **linear_cases(512),
    "words8": Case(lambda m: m.embedding("words", 8, VOCAB, HIDDEN)),
    "words512": Case(lambda m: m.embedding("words", 512, VOCAB, HIDDEN)),
    "head8": Case(lambda m: m.head("head", x(m, 8, HIDDEN), VOCAB)),
    **cube_cases(8),
    **cube_cases(512),
    **image_cases(1),
    **image_cases(8),
    **ATTENTION_CASES,
}


class CaseWorkload(OpsWorkload):
    """The ops of a case."""

    name = "case"
    Params = Struct

    def __init__(self, case: Case) -> None:
        super().__init__()
        self._case = case

    def made(self, p: Any, topology: Topology) -> tuple[Mesh, list[Op]]:
        """The ops that the case builds."""
        mesh = Mesh.of(topology, parse_map(self._case.layout))
        builder = Builder(mesh, DType.F16)
        self._case.build(builder)
        return mesh, builder.ops


def run(name: str, case: Case) -> bool:
    """Prints a line for each op of *case*. Returns whether all are right."""
    began = time.perf_counter()
    topology = load_topology(TOPOLOGIES / "one_sip.yaml")
    engine, workload = Engine(topology, MemoryLogWriter()), CaseWorkload(case)
    host = Host(engine)
    workload.prepare(None, topology, 0)
    workload.run(host, None)
    memory = Executor(engine.close_log(), engine.initial_memory).run()
    wrong = {
        output.name
        for output in workload.outputs()
        for expected, allowed in [output.expected(memory)]
        if not (np.abs(output.read(memory).astype(np.float64) - expected) <= allowed).all()
    }
    took, gib = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    for op in workload.ops:
        ns = sum(each.end_ps - each.start_ps for each in host.launches[op.first_launch : op.end_launch]) / 1000
        shares = f"{op.nbytes / ns / HBM_GBS:7.1%} HBM {op.flops / ns / 1000 / PEAK_TFLOPS:7.1%} peak"
        right = "wrong" if op.name in wrong else "ok"
        print(
            f"{name:14} {op.name:16} {right:6} {ns / 1000:10.3f} us {shares} {took:6.1f} s {gib:5.1f} GiB",
            flush=True,
        )
    return not wrong


def main(arguments: list[str]) -> int:
    """Runs the cases that *arguments* name, or all."""
    unknown = set(arguments) - set(CASES) - {"--list"}
    if "--list" in arguments or unknown:
        print(f"cases: {', '.join(CASES)}")
        return 2 if unknown else 0
    right = [run(name, CASES[name]) for name in arguments or CASES]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
