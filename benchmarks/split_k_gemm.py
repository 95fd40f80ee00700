"""Split-K GEMM: a small C[M, N] = A[M, K] @ B[K, N] of deep sums. Parts of K meet by atomics or by messages.

An adapter of rank 16 at the last matrix of an MLP of Llama-3-8B is `-p M=16 -p N=16 -p K=14336`: 16 tokens. Source: the
configuration of `Meta-Llama-3-8B` (intermediate_size 14336); Hu et al., "LoRA", arXiv 2106.09685.
"""

from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

import kernbench as kb
from kb_messages import BenchmarkError

Size = Annotated[int, Meta(ge=1)]


def kernel(tl, a, b, c, depth: int, by_messages: bool, block_n: int, block_k: int) -> None:
    """Program (j, s) computes columns j of the product over part s of K, which is *depth* deep.

    It adds them to C by an atomic, or the parts are added up in a tree of messages, and part 0 stores the sum.
    """
    cols = slice(tl.program_id(0) * block_n, (tl.program_id(0) + 1) * block_n)
    first, last = tl.program_id(1) * depth, min((tl.program_id(1) + 1) * depth, a.shape[1])
    steps = (slice(k, min(k + block_k, last)) for k in range(first, last, block_k))
    acc = 0
    for x, y in tl.ahead((tl.load_async(a[:, step]), tl.load_async(b[step, cols])) for step in steps):
        acc = tl.dot(x, y, acc)
    if not by_messages:
        tl.atomic_add(c[:, cols], acc)
    elif (total := merged(tl, acc, tl.program_id(1))) is not None:
        tl.store(c[:, cols], total)


def merged(tl, total, part: int):
    """The sum of the *total* of all parts of K, for part 0, and None for the others.

    The parts are added up in a tree: a part sends its sum to the part that is a power of 2 before it.
    """
    step, columns = 1, tl.num_programs(0)
    while step < tl.num_programs(1):
        if part % (2 * step):
            tl.send(total, tl.program_id(0) + (part - step) * columns)
            return None
        if part + step < tl.num_programs(1):
            total = total + tl.recv(tl.program_id(0) + (part + step) * columns)
        step *= 2
    return total


def blocks(
    host: kb.Host, shape: tuple[int, int, int], nbytes: int, by_messages: bool, block_n: int | None, block_k: int | None
) -> dict[str, Any]:
    """The columns of a program, its step, and the grid, for M rows, N columns and parts of K.

    TCM holds three steps of A and B, and the sums twice; with messages four times more. Programs that exchange messages
    have a PE each.
    """
    m, n, parts = shape
    if by_messages:
        least = -(-n // max(1, host.num_pes // parts))
        if parts > host.num_pes:
            needs = f"at most {host.num_pes}, a PE for each part"
            raise BenchmarkError("split_k_gemm", f"splits={parts} that meet by messages", needs)
        block_n = max(least, min(n, 128)) if block_n is None else block_n
    found = host.fitted(
        lambda block_n, block_k: 3 * (m + block_n) * block_k * nbytes + (24 if by_messages else 8) * m * block_n,
        lambda block_n, block_k: 4 * m * block_n,
        block_n=(block_n, 128),
        block_k=(block_k, 256),
    )
    return {**found, "grid": (-(-n // found["block_n"]), parts)}


@kb.benchmark(footprint=lambda p: p.dtype.nbytes * p.K * (p.M + p.N) + 4 * p.M * p.N)
def split_k_gemm(
    rng: np.random.Generator,
    M: Size = 16,
    N: Size = 64,
    K: Size = 4096,
    splits: Size = 8,
    block_n: Size | None = None,
    block_k: Size | None = None,
    merge: Literal["atomics", "messages"] = "atomics",
    dtype: kb.DType = kb.DType.F16,
) -> kb.Call:
    """Sizes are in elements. K is cut into `splits` parts; a program computes `block_n` columns, in steps of `block_k`,
    by default 128 and 256, or as many as fit the chip.

    With `merge=messages`, each part has a PE, and nothing is added in memory. C is f32, because atomics add to it. The
    elements of B have a standard deviation of 1 / sqrt(K).
    """
    a = kb.cast(rng.standard_normal((M, K), np.float32), dtype)
    b = kb.cast(K**-0.5 * rng.standard_normal((K, N), np.float32), dtype)
    depth = -(-K // splits)
    return kb.call(
        kernel,
        a,
        b,
        kb.zeros((M, N), "f32"),
        depth,
        merge == "messages",
        chosen=lambda host: blocks(host, (M, N, -(-K // depth)), dtype.nbytes, merge == "messages", block_n, block_k),
        reference=lambda a, b, c: a @ b,
        flops=2 * M * N * K,
    )
