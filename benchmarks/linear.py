"""Linear layer: Y[M, N] = activation(X[M, K] @ W[K, N] + bias), tile by tile with `tl.dot`, as in GPT-2's MLP.

GPT-2 small is `-p M=1024 -p N=3072 -p K=768`: a context of 1024 tokens through the first matrix of an MLP, with GELU.
Source: the configuration of the model `gpt2` (n_ctx 1024, n_embd 768, activation_function gelu_new).
"""

from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

import kernbench as kb

Size = Annotated[int, Meta(ge=1)]
Activation = Literal["none", "relu", "gelu", "silu"]


def kernel(tl, x, w, bias, y, block_m: int, block_n: int, block_k: int, activation: str) -> None:
    """Program (i, j) computes a block of Y. It loads the next tiles of X and W while it multiplies two of them."""
    rows = slice(tl.program_id(1) * block_m, (tl.program_id(1) + 1) * block_m)
    cols = slice(tl.program_id(0) * block_n, (tl.program_id(0) + 1) * block_n)
    steps = (slice(k, k + block_k) for k in range(0, x.shape[1], block_k))
    acc = 0
    for a, b in tl.ahead((tl.load_async(x[rows, step]), tl.load_async(w[step, cols])) for step in steps):
        acc = tl.dot(a, b, acc)
    result = activated(tl, acc + tl.load(bias[cols]).to("f32"), activation)
    tl.store(y[rows, cols], result.to(y.dtype))


def activated(tl, x, activation: str):
    """The activation of x, in f32. GELU is the approximation by tanh that GPT-2 uses. Source: arXiv 1606.08415."""
    if activation == "relu":
        return tl.maximum(x, 0.0)
    if activation == "gelu":
        return 0.5 * x * (1.0 + tl.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
    return x * tl.sigmoid(x) if activation == "silu" else x


def reference(x, w, bias, activation: str) -> np.ndarray:
    """The layer in float64."""
    z = x @ w + bias
    functions = {
        "none": z,
        "relu": np.maximum(z, 0),
        "gelu": 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))),
        "silu": z / (1 + np.exp(-z)),
    }
    return functions[activation]


def blocks(host: kb.Host, shape: tuple[int, int], nbytes: int, given: tuple[int | None, ...]) -> dict[str, Any]:
    """The block of a program, its step, and the grid. TCM holds three steps of X and W, and the sums and a result in
    f32; the register file holds the sums.
    """
    found = host.fitted(
        lambda block_m, block_n, block_k: 3 * (block_m + block_n) * block_k * nbytes + 8 * (block_m + 1) * block_n,
        lambda block_m, block_n, block_k: 4 * block_m * block_n,
        **dict(zip(("block_m", "block_n", "block_k"), zip(given, (256, 256, 128), strict=True), strict=True)),
    )
    return {**found, "grid": (-(-shape[1] // found["block_n"]), -(-shape[0] // found["block_m"]))}


@kb.benchmark(footprint=lambda p: p.dtype.nbytes * (p.M * p.K + p.K * p.N + p.N + p.M * p.N))
def linear(
    rng: np.random.Generator,
    M: Size = 256,
    N: Size = 512,
    K: Size = 256,
    block_m: Size | None = None,
    block_n: Size | None = None,
    block_k: Size | None = None,
    activation: Activation = "gelu",
    dtype: kb.DType = kb.DType.F16,
) -> kb.Call:
    """Sizes are in elements. A program computes `block_m` x `block_n` of Y, in steps of `block_k`, by default
    256 x 256 and 128, or as much as fits the chip.

    The elements of W have a standard deviation of 1 / sqrt(K), so the elements of Y are as large as those of X.
    """
    scale = {"x": ((M, K), 1.0), "w": ((K, N), K**-0.5), "bias": ((N,), 1.0)}
    x, w, bias = (kb.cast(s * rng.standard_normal(shape, np.float32), dtype) for shape, s in scale.values())
    return kb.call(
        kernel,
        x,
        w,
        bias,
        kb.empty((M, N), dtype),
        activation=activation,
        chosen=lambda host: blocks(host, (M, N), dtype.nbytes, (block_m, block_n, block_k)),
        reference=lambda x, w, bias: reference(x, w, bias, activation),
        flops=2 * M * N * K,
    )
