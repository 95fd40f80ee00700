"""Measures GEMMs, ops of Llama blocks, and steps of whole models, on the GPU of this machine, as rows for validation.

    python benchmarks/validation/measure_gpu.py FILE.csv [--device h200_sxm]

Needs torch with CUDA, and nothing of kernbench. FILE gets the columns device, test, params, value, unit, source,
licence: `block_op` rows, which blocks.py compares with a chip, `gemm` rows, which gemm.py compares, and `model_step`
rows. The value of a call is the median, in us, of the durations of its kernels, as CUPTI reports them. The operands of
calls take turns, so that the weights of a call are not in the L2 cache from the call before. The value of a step is the
median of replays of a CUDA graph, between events: a step of one token for each sequence, or all tokens of new
sequences, with random weights, from the embedding to the arg-max.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

CONFIGS = Path(__file__).parents[2] / "packages/kb-models/src/kb_models/configs"
MODELS, DEGREES = ("llama3-8b", "llama3-70b"), (1, 2, 4, 8)
TOKENS = (1, 8, 32, 64, 128, 256, 512, 1024, 2048, 4096)
GEMMS = [(m, n, k) for m in (64, 256, 1024, 4096) for n in (256, 1024, 4096) for k in (256, 1024, 4096)]
GEMMS += [(8192, 8192, 8192), (300, 1000, 700), (1, 4096, 4096), (16, 14336, 4096), (4096, 28672, 4096)]
STEPS = {"decode": [(1, 512), (1, 4096), (8, 512), (8, 4096), (32, 4096)], "prefill": [(1, 128), (1, 512), (1, 2048)]}
"""Sequences, and the keys or the tokens of each."""
TURNED_NBYTES = 1 << 28
"""The bytes of the operands that take turns: five times the L2 cache of an H200."""
CALLS, WARM_UP = 30, 5

Call = Callable[[int], Any]


def kernel_us(call: Call, count: int) -> float:
    """The median of the time of the kernels of `call(i)`, where i goes through `count` sets of operands."""
    for number in range(WARM_UP):
        call(number % count)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for number in range(CALLS):
            call(number % count)
        torch.cuda.synchronize()
    found = [event for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    found = sorted((event for event in found if "Mem" not in event.name), key=lambda event: event.time_range.start)
    assert len(found) % CALLS == 0, f"{len(found)} kernels of {CALLS} calls"
    each = len(found) // CALLS
    return statistics.median(
        sum(event.time_range.elapsed_us() for event in found[at : at + each]) for at in range(0, len(found), each)
    )


def tensors(count: int, *shape: int) -> list[torch.Tensor]:
    """*count* random f16 tensors of *shape*."""
    return [torch.randn(shape, dtype=torch.float16, device="cuda") * 0.05 for _ in range(count)]


def turns(nbytes: int) -> int:
    """How many sets of *nbytes* of operands take turns."""
    return max(2, -(-TURNED_NBYTES // nbytes))


def product(rows: int, n: int, k: int) -> float:
    """The time of X W of (rows, k) and (k, n)."""
    count = min(turns(n * k * 2), 64)
    x, w = tensors(2, rows, k), tensors(count, n, k)
    return kernel_us(lambda i: functional.linear(x[i % 2], w[i]), count)


def swiglu(x: torch.Tensor) -> torch.Tensor:
    """silu(a) * b of both halves of the columns."""
    a, b = x.chunk(2, dim=-1)
    return functional.silu(a) * b


def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """The rotation of *x* of (tokens, heads, dim), whose pairs are halves of a head."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def other_ops(tokens: int, hidden: int, mlp: int, heads: int, dim: int) -> Iterator[tuple[str, float]]:
    """The name and the time of each op but the products, fused by torch.compile."""
    gate, normed, turned = (torch.compile(each, dynamic=True) for each in (swiglu, functional.rms_norm, rope))
    count = min(turns(tokens * 2 * mlp * 2), 64)
    x = tensors(count, tokens, 2 * mlp)
    yield "swiglu", kernel_us(lambda i: gate(x[i]), count)
    count = min(turns(tokens * hidden * 2), 64)
    a, b, weight = tensors(count, tokens, hidden), tensors(count, tokens, hidden), tensors(1, hidden)[0]
    yield "rms_norm", kernel_us(lambda i: normed(a[i], (hidden,), weight, 1e-5), count)
    yield "add", kernel_us(lambda i: a[i] + b[i], count)
    q, cos, sin = tensors(count, tokens, heads, dim), *tensors(2, tokens, 1, dim // 2)
    yield "rope", kernel_us(lambda i: turned(q[i], cos, sin), count)


def gemm_rows() -> Iterator[tuple[str, float]]:
    """The params and the time of each GEMM."""
    yield from ((f"M={m} N={n} K={k} dtype=f16", product(m, n, k)) for m, n, k in GEMMS)


def block_rows() -> Iterator[tuple[str, float]]:
    """The params and the time of each op of a block."""
    for model in MODELS:
        config = json.loads((CONFIGS / f"{model}.json").read_text(encoding="utf-8"))
        hidden, dim = config["hidden_size"], config["hidden_size"] // config["num_attention_heads"]
        for tp in DEGREES:
            heads, kv = config["num_attention_heads"] // tp, config["num_key_value_heads"] // tp
            mlp = config["intermediate_size"] // tp
            sides = {
                "qkv": ((heads + 2 * kv) * dim, hidden),
                "o": (hidden, heads * dim),
                "gate_up": (2 * mlp, hidden),
                "down": (hidden, mlp),
            }
            for tokens in TOKENS:
                found = [(op, product(tokens, n, k)) for op, (n, k) in sides.items()]
                found += other_ops(tokens, hidden, mlp, heads + kv, dim)
                yield from ((f"model={model} op={op} tokens={tokens} tp={tp} dtype=f16", took) for op, took in found)


class Llama:
    """A Llama of *config* with random weights, for *batch* sequences of at most *context* keys."""

    def __init__(self, config: dict[str, Any], batch: int, context: int) -> None:
        self.heads, self.kv = config["num_attention_heads"], config["num_key_value_heads"]
        self.hidden, self.layers = config["hidden_size"], config["num_hidden_layers"]
        self.dim, mlp, vocab = self.hidden // self.heads, config["intermediate_size"], config["vocab_size"]
        columns = (self.heads + 2 * self.kv) * self.dim
        shapes = [
            (columns, self.hidden),
            (self.hidden, self.heads * self.dim),
            (2 * mlp, self.hidden),
            (self.hidden, mlp),
        ]
        self.weights = [[tensors(1, *shape)[0] for shape in shapes] for _ in range(self.layers)]
        self.embedding, self.head = tensors(2, vocab, self.hidden)
        self.scale = tensors(1, self.hidden)[0]
        self.cache = [tensors(2, batch, self.kv, context, self.dim) for _ in range(self.layers)]
        self.swiglu, self.rope = (torch.compile(each, dynamic=True) for each in (swiglu, rope))
        self.norm = torch.compile(functional.rms_norm, dynamic=True)

    def step(self, ids: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, at: int) -> torch.Tensor:
        """The next token after *ids*, of (batch, tokens), whose first token is number *at* of its sequence."""
        batch, tokens = ids.shape
        x = self.embedding[ids]
        for (qkv, out, up, down), (keys, values) in zip(self.weights, self.cache, strict=True):
            made = functional.linear(self.norm(x, (self.hidden,), self.scale, 1e-5), qkv)
            q, k, v = made.view(batch, tokens, -1, self.dim).split([self.heads, self.kv, self.kv], dim=2)
            q, k = self.rope(q, cos, sin), self.rope(k, cos, sin)
            keys[:, :, at : at + tokens], values[:, :, at : at + tokens] = k.transpose(1, 2), v.transpose(1, 2)
            seen = keys[:, :, : at + tokens], values[:, :, : at + tokens]
            y = functional.scaled_dot_product_attention(q.transpose(1, 2), *seen, is_causal=tokens > 1, enable_gqa=True)
            x = x + functional.linear(y.transpose(1, 2).reshape(batch, tokens, -1), out)
            made = functional.linear(self.norm(x, (self.hidden,), self.scale, 1e-5), up)
            x = x + functional.linear(self.swiglu(made), down)
        last = self.norm(x[:, -1], (self.hidden,), self.scale, 1e-5)
        return functional.linear(last, self.head).argmax(dim=-1)


def step_us(config: dict[str, Any], batch: int, tokens: int, context: int) -> float:
    """The time of a step of *tokens* tokens for each of *batch* sequences, which have *context* keys behind it."""
    model, at = Llama(config, batch, context), context - tokens
    ids = torch.randint(config["vocab_size"], (batch, tokens), device="cuda")
    cos, sin = tensors(2, tokens, 1, model.dim // 2)
    for _ in range(3):
        model.step(ids, cos, sin, at)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model.step(ids, cos, sin, at)
    took = list[float]()
    for _ in range(20):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        graph.replay()
        after.record()
        torch.cuda.synchronize()
        took.append(before.elapsed_time(after) * 1000)
    return statistics.median(took)


def step_rows() -> Iterator[tuple[str, float]]:
    """The params and the time of each step of a whole model."""
    for model, name in [("llama3-8b", "decode"), ("llama3-8b", "prefill")]:
        config = json.loads((CONFIGS / f"{model}.json").read_text(encoding="utf-8"))
        for batch, many in STEPS[name]:
            tokens = 1 if name == "decode" else many
            size = f"context={many}" if name == "decode" else f"tokens={many}"
            yield f"model={model} phase={name} batch={batch} {size} dtype=f16", step_us(config, batch, tokens, many)
            torch.cuda.empty_cache()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tests", default="gemm,model_step,block_op", help="some of the tests")
    parser.add_argument("--device", default="h200_sxm", help="the name of the device in the rows")
    options = parser.parse_args()
    source = f"measure_gpu.py: {torch.cuda.get_device_name()}, torch {torch.__version__}"
    tests: dict[str, Callable[[], Iterator[tuple[str, float]]]]
    tests = {"gemm": gemm_rows, "model_step": step_rows, "block_op": block_rows}
    with options.out.open("w", newline="", encoding="utf-8") as file, torch.inference_mode():
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("device", "test", "params", "value", "unit", "source", "licence"))
        for test in options.tests.split(","):
            for params, took in tests[test]():
                writer.writerow((options.device, test, params, f"{took:.3f}", "us", source, ""))
                file.flush()


if __name__ == "__main__":
    main()
