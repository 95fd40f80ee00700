"""Mixture of experts: each token takes the MLPs of its best experts, chosen by loaded indices, as in Mixtral.

Mixtral-8x7B is `-p experts=8 -p chosen=2 -p width=4096 -p hidden=14336`; `hidden=896` is the part of one of 16 devices.
Source: the configuration of `Mixtral-8x7B-v0.1` (num_local_experts, num_experts_per_tok, hidden_size,
intermediate_size).
"""

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from kb_engine import Arrays, Benchmark, DType, Host, Tensor, cast

Size = Annotated[int, Meta(ge=1)]


def gate_up(tl, x, pairs, work, w1, w3, h, chosen: int, block_n: int, block_k: int) -> None:
    """Program (j, i) computes columns j of silu(X W1) * (X W3) for the pairs of block i, which all have one expert."""
    expert, first, last = tl.load(work[tl.program_id(1)])
    tokens = tl.load(pairs[first:last]) // chosen
    cols = slice(tl.program_id(0) * block_n, (tl.program_id(0) + 1) * block_n)
    parts = ((x[tokens, step], w1[expert, step, cols], w3[expert, step, cols]) for step in steps(x.shape[1], block_k))
    gate, up = 0, 0
    for a, b, c in tl.ahead([tl.load_async(each) for each in part] for part in parts):
        gate, up = tl.dot(a, b, gate), tl.dot(a, c, up)
    tl.store(h[first:last, cols], (gate * tl.sigmoid(gate) * up).to(h.dtype))


def down(tl, h, pairs, work, w2, y, block_n: int, block_k: int) -> None:
    """Program (j, i) computes columns j of H W2 for the pairs of block i, and stores each at the number of its pair."""
    expert, first, last = tl.load(work[tl.program_id(1)])
    cols = slice(tl.program_id(0) * block_n, (tl.program_id(0) + 1) * block_n)
    parts = ((h[first:last, step], w2[expert, step, cols]) for step in steps(h.shape[1], block_k))
    acc = 0
    for a, b in tl.ahead([tl.load_async(each) for each in part] for part in parts):
        acc = tl.dot(a, b, acc)
    tl.store(y[tl.load(pairs[first:last]), cols], acc.to(y.dtype))


def combine(tl, y, gates, out, chosen: int, block: int) -> None:
    """Program p adds up, for *block* tokens, the results of their experts, each times its gate."""
    tokens = slice(tl.program_id() * block, min((tl.program_id() + 1) * block, out.shape[0]))
    total = 0.0
    for choice in range(chosen):
        given = tl.load(y[tokens.start * chosen + choice : tokens.stop * chosen : chosen, :]).to("f32")
        total = given * tl.load(gates[tokens, choice : choice + 1]) + total
    tl.store(out[tokens, :], total.to(out.dtype))


def steps(n: int, size: int) -> list[slice]:
    """The parts of *n* elements in steps of *size*."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


class MixtureParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every token goes through `chosen` of `experts` MLPs, from `width` to `hidden` elements and back.

    A pair is a token and one of its experts. Pairs are sorted by expert, in blocks of at most `block_m` with one
    expert. A program computes `block_n` columns of such a block, in steps of `block_k`. The last kernel takes `block`
    tokens. By default these are 64, 128, 128 and 8, or as much as fits the chip.
    """

    tokens: Size = 64
    experts: Size = 8
    chosen: Size = 2
    width: Size = 512
    hidden: Size = 256
    block_m: Size | None = None
    block_n: Size | None = None
    block_k: Size | None = None
    block: Size | None = None
    dtype: DType = DType.F16

    def __post_init__(self) -> None:
        if self.chosen > self.experts:
            raise ValueError(f"chosen={self.chosen} of experts={self.experts}: needs as many experts at least")


class MixtureOfExperts(Benchmark[MixtureParams]):
    """A matrix of weights for each expert. The router's choices are inputs: pairs, and a gate for each."""

    Params = MixtureParams
    name = "mixture_of_experts"

    def inputs(self, p: MixtureParams, rng: np.random.Generator) -> Arrays:
        """Normal numbers in `dtype`, with weights that keep their size; gates are a softmax over the chosen experts."""
        shapes = {"w1": (p.width, p.hidden), "w3": (p.width, p.hidden), "w2": (p.hidden, p.width)}
        arrays = {"x": cast(rng.standard_normal((p.tokens, p.width), np.float32), p.dtype)}
        for name, (k, n) in shapes.items():
            weights = rng.standard_normal((p.experts, k, n), np.float32)
            arrays[name] = cast(weights * np.float32(k**-0.5), p.dtype)
        logits = rng.standard_normal((p.tokens, p.experts))
        experts = np.argsort(-logits, axis=1)[:, : p.chosen]
        powers = np.exp(np.take_along_axis(logits, experts, axis=1))
        gates = powers / powers.sum(axis=1, keepdims=True)
        return arrays | {"experts": experts.astype(np.int32), "gates": gates.astype(np.float32)}

    def launch(self, host: Host, p: MixtureParams, tensors: Arrays) -> dict[str, Tensor]:
        """A program for each block of pairs and of columns, twice; then one for each block of tokens."""
        x, w1, w3, w2 = (
            host.tensor(name, tensors[name], p.dtype, host.spread(tensors[name].shape, p.dtype))
            for name in ("x", "w1", "w3", "w2")
        )
        chosen = tensors["experts"].reshape(-1)
        order = np.argsort(chosen, kind="stable").astype(np.int32)
        block_m, block_n, block_k, block = fitted_blocks(host, p)
        table = np.array(blocks_of(chosen[order], block_m), np.int32)
        pairs, work = host.tensor("pairs", order, "i32"), host.tensor("work", table, "i32")
        gates = host.tensor("gates", tensors["gates"], "f32")
        shapes = {"h": (p.tokens * p.chosen, p.hidden), "y": (p.tokens * p.chosen, p.width), "out": (p.tokens, p.width)}
        h, y, out = (host.empty(name, shape, p.dtype, host.spread(shape, p.dtype)) for name, shape in shapes.items())
        columns = [-(-n // block_n) for n in (p.hidden, p.width)]
        host.launch(gate_up, x, pairs, work, w1, w3, h, p.chosen, block_n, block_k, grid=(columns[0], len(table)))
        host.launch(down, h, pairs, work, w2, y, block_n, block_k, grid=(columns[1], len(table)))
        host.launch(combine, y, gates, out, p.chosen, block, grid=-(-p.tokens // block))
        return {"out": out}

    def reference(self, p: MixtureParams, inputs: Arrays) -> Arrays:
        """The weighted sum of the experts' MLPs, in float64."""
        return {"out": mixture(p, inputs)[0]}

    def flops(self, p: MixtureParams) -> int:
        """The three products of each pair."""
        return 6 * p.tokens * p.chosen * p.width * p.hidden

    def footprint(self, p: MixtureParams) -> int:
        """The weights, and the tokens before and after."""
        return p.dtype.nbytes * p.width * (3 * p.experts * p.hidden + 2 * p.tokens)

    def tolerance(self, p: MixtureParams, inputs: Arrays, expected: Arrays) -> Arrays:
        """Rounding of H, of each pair's result and of the sum to `dtype`, and of sums in f32, by the sizes of terms.

        An error of the gate's or the other product is passed on by silu with a slope of at most 1.1.
        """
        info, (_, products, terms) = p.dtype.info, mixture(p, inputs)
        in_f32 = (3 * np.sqrt(p.width) + np.sqrt(p.hidden) + 16) * 2.0**-24
        stored = 2 * info.unit_roundoff * (products + np.abs(expected["out"]))
        return {"out": stored + in_f32 * terms + info.smallest_subnormal}


def fitted_blocks(host: Host, p: MixtureParams) -> tuple[int, int, int, int]:
    """`block_m`, `block_n`, `block_k` and `block`. TCM holds three steps of tokens and of both weights, and the two
    sums, their product and a function of it in f32; in the last kernel two choices of a token, also in f32, and the
    sum.
    """
    nbytes = p.dtype.nbytes
    products = host.fitted(
        lambda block_m, block_n, block_k: (
            3 * (block_m + 2 * block_n) * block_k * nbytes + 16 * block_m * block_n + 16 * block_m
        ),
        lambda block_m, block_n, block_k: 8 * block_m * block_n,
        block_m=(p.block_m, 64),
        block_n=(p.block_n, 128),
        block_k=(p.block_k, 128),
    )
    last = host.fitted(lambda block: block * (p.width * (2 * nbytes + 12) + 64), block=(p.block, 8))
    return products["block_m"], products["block_n"], products["block_k"], last["block"]


def blocks_of(experts: np.ndarray, size: int) -> list[tuple[int, int, int]]:
    """(expert, first pair, end) of blocks of at most *size* pairs with one expert; *experts* is sorted."""
    found = []
    for expert, first, n in zip(*np.unique(experts, return_index=True, return_counts=True), strict=True):
        found += [(expert, first + each.start, first + each.stop) for each in steps(n, size)]
    return found


def mixture(p: MixtureParams, inputs: Arrays) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mixture in float64; the same of the sizes of the last products; and of the sizes of all terms."""
    found = np.zeros((3, p.tokens, p.width))
    for expert in range(p.experts):
        token, choice = np.nonzero(inputs["experts"] == expert)
        x, w1, w3, w2 = inputs["x"][token], *(inputs[name][expert] for name in ("w1", "w3", "w2"))
        x, w1, w3, w2 = (each.astype(np.float64) for each in (x, w1, w3, w2))
        gate, up = x @ w1, x @ w3
        h = gate / (1 + np.exp(-gate)) * up
        most = (np.abs(x) @ np.abs(w1)) * (np.abs(x) @ np.abs(w3))
        shares = inputs["gates"][token, choice, None]
        for total, rows, weights in zip(found, (h, np.abs(h), most), (w2, np.abs(w2), np.abs(w2)), strict=True):
            np.add.at(total, token, shares * (rows @ weights))
    return found[0], found[1], found[2]
