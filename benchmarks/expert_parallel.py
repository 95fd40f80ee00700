"""Expert-parallel mixture: each PE has some tokens and some experts. Tokens go to their experts and back by messages.

Every token takes the MLPs of its best experts, as in Mixtral. Mixtral-8x7B is `-p experts=8 -p width=4096 -p
hidden=14336`. Sources: the configuration of `Mixtral-8x7B-v0.1` (num_local_experts, num_experts_per_tok, hidden_size,
intermediate_size); Lepikhin et al., "GShard", arXiv 2006.16668, for the two exchanges of all with all.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from kb_engine import Arrays, Benchmark, DType, Host, Tensor, cast

Size = Annotated[int, Meta(ge=1)]


def kernel(tl, x, order, starts, gates, w1, w3, w2, y, out, block_n: int, block_k: int) -> None:
    """PE p has part p of the tokens and part p of the experts.

    A pair is a token and one of its experts. *order* has the pairs by PE of the token and by expert, and row p of
    *starts* says where the pairs of PE p begin with each expert. All PEs load *starts*, so that each knows how many
    rows come from each other PE.
    """
    here, pes, chosen = tl.program_id(), tl.num_programs(), gates.shape[1]
    first = tl.load(starts[:, :]).data.tolist()
    mine = {pe: pairs(first[here], share(w1.shape[0], pe, pes)) for pe in range(pes)}
    coming = {pe: pairs(first[pe], share(w1.shape[0], here, pes)) for pe in range(pes)}
    rows = {pe: tl.load(x[tl.load(order[each]) // chosen, :]) for pe, each in mine.items() if each is not None}
    rows = exchanged(tl, rows, coming, "to an expert")
    rows = worked(tl, rows, first, share(w1.shape[0], here, pes), (w1, w3, w2), (block_n, block_k))
    for pe, each in exchanged(tl, rows, mine, "from an expert").items():
        tl.store(y[tl.load(order[mine[pe]]), :], each)
    combined(tl, y, gates, out, share(out.shape[0], here, pes))


def exchanged(tl, rows: dict, coming: dict, tag: str) -> dict:
    """Sends *rows* to the PE of each, and receives rows of the PEs in *coming*. PEs without rows exchange nothing."""
    here, pes = tl.program_id(), tl.num_programs()
    others = [(here + turn) % pes for turn in range(1, pes)]
    for pe in others:
        if pe in rows:
            tl.send(rows[pe], pe, tag)
    found = {here: rows[here]} if here in rows else {}
    return found | {pe: tl.recv(pe, tag) for pe in others[::-1] if coming[pe] is not None}


def worked(tl, rows: dict, first: list, experts: slice, weights: tuple, blocks: tuple[int, int]) -> dict:
    """The results of this PE's *experts* for the *rows* of each PE, which come in the order of the experts."""
    results: dict = {}
    for expert in range(experts.start, experts.stop):
        spans = {
            pe: pairs([at - first[pe][experts.start] for at in first[pe]], slice(expert, expert + 1)) for pe in rows
        }
        spans = {pe: span for pe, span in spans.items() if span is not None}
        if not spans:
            continue
        done, at = mlp(tl, joined(tl, [rows[pe][span, :] for pe, span in spans.items()]), weights, expert, *blocks), 0
        for pe, span in spans.items():
            part = done[at : at + span.stop - span.start, :]
            results[pe] = part if pe not in results else tl.cat(results[pe], part)
            at += span.stop - span.start
    return results


def combined(tl, y, gates, out, tokens: slice) -> None:
    """Adds up, for each of *tokens*, the results of its experts, each times its gate."""
    chosen = gates.shape[1]
    for token in range(tokens.start, tokens.stop):
        weights = tl.load(gates[token : token + 1, :]).T
        results = tl.load(y[token * chosen : (token + 1) * chosen, :]).to("f32")
        tl.store(out[token : token + 1, :], tl.sum(results * weights, axis=0).to(out.dtype))


def mlp(tl, x, weights: tuple, expert: int, block_n: int, block_k: int):
    """The MLP of *expert* for the rows of *x*, which lie in TCM."""
    w1, w3, w2 = weights
    hidden, width, held = w1.shape[2], x.shape[1], []
    for cols in steps(hidden, block_n):
        gate, up = 0, 0
        for k in steps(width, block_k):
            part = x[:, k]
            gate, up = tl.dot(part, tl.load(w1[expert, k, cols]), gate), tl.dot(part, tl.load(w3[expert, k, cols]), up)
        held.append((cols, (gate * tl.sigmoid(gate) * up).to(x.dtype)))
    blocks = []
    for cols in steps(width, block_n):
        total = 0
        for rows, h in held:
            total = tl.dot(tl.load(w2[expert, rows, cols]).T, h.T, total)
        blocks.append(total.to(x.dtype))
    return joined(tl, blocks).T


def joined(tl, values: list):
    """*values*, one after the other along their first axis."""
    found = values[0]
    for each in values[1:]:
        found = tl.cat(found, each)
    return found


def steps(n: int, size: int) -> list[slice]:
    """The parts of *n* elements in steps of *size*."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def pairs(first: list[int], experts: slice) -> slice | None:
    """The places of the pairs of *experts*, which begin at *first* of each; None for no pair."""
    start, stop = first[experts.start], first[experts.stop]
    return slice(start, stop) if stop > start else None


def share(n: int, part: int, parts: int) -> slice:
    """Part *part* of *n* things in *parts* parts."""
    return slice(part * n // parts, (part + 1) * n // parts)


class ExpertParallelParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Each of `tokens` tokens goes through `chosen` of `experts` MLPs, from `width` to `hidden` elements and back.

    Tokens and experts are spread over `pes` PEs, by default over all. A step computes `block_n` columns, in steps of
    `block_k`, by default 128 and 256, or as many as fit the chip. The rows that PEs exchange lie in TCM, so tokens and
    width have a limit, which the error of a full TCM states.
    """

    tokens: Size = 32
    experts: Size = 8
    chosen: Size = 2
    width: Size = 128
    hidden: Size = 128
    pes: Size | None = None
    block_n: Size | None = None
    block_k: Size | None = None
    dtype: DType = DType.F16

    def __post_init__(self) -> None:
        if self.chosen > self.experts:
            raise ValueError(f"chosen={self.chosen} of experts={self.experts}: needs as many experts at least")


class ExpertParallel(Benchmark[ExpertParallelParams]):
    """A matrix of weights for each expert. The router's choices are inputs: experts and a gate for each."""

    Params = ExpertParallelParams
    name = "expert_parallel"

    def inputs(self, p: ExpertParallelParams, rng: np.random.Generator) -> Arrays:
        """Normal numbers in `dtype`, with weights that keep their size; gates are a softmax over the chosen experts."""
        shapes = {"w1": (p.width, p.hidden), "w3": (p.width, p.hidden), "w2": (p.hidden, p.width)}
        arrays = {"x": cast(rng.standard_normal((p.tokens, p.width), np.float32), p.dtype)}
        for name, (k, n) in shapes.items():
            arrays[name] = cast(rng.standard_normal((p.experts, k, n), np.float32) * np.float32(k**-0.5), p.dtype)
        logits = rng.standard_normal((p.tokens, p.experts))
        experts = np.argsort(-logits, axis=1)[:, : p.chosen]
        powers = np.exp(np.take_along_axis(logits, experts, axis=1))
        gates = powers / powers.sum(axis=1, keepdims=True)
        return arrays | {"experts": experts.astype(np.int32), "gates": gates.astype(np.float32)}

    def launch(self, host: Host, p: ExpertParallelParams, tensors: Arrays) -> dict[str, Tensor]:
        """A program for each PE."""
        pes = host.num_pes if p.pes is None else p.pes
        x, w1, w3, w2 = (
            host.tensor(name, tensors[name], p.dtype, host.spread(tensors[name].shape, p.dtype))
            for name in ("x", "w1", "w3", "w2")
        )
        table, first = routing(tensors["experts"], p.experts, pes)
        order, starts = host.tensor("order", table, "i32"), host.tensor("starts", first, "i32")
        gates = host.tensor("gates", tensors["gates"], "f32")
        y, out = host.empty("y", (p.tokens * p.chosen, p.width), p.dtype), host.empty("out", x.shape, p.dtype)
        most, nbytes = int(np.bincount(tensors["experts"].ravel()).max()), p.dtype.nbytes
        fitted = host.fitted(
            lambda block_n, block_k: (
                nbytes * (most * (p.hidden + 4 * p.width) + 3 * (most + 2 * block_n) * block_k) + 16 * most * block_n
            ),
            lambda block_n, block_k: 8 * most * block_n,
            block_n=(p.block_n, 128),
            block_k=(p.block_k, 256),
        )
        sizes = fitted["block_n"], fitted["block_k"]
        host.launch(kernel, x, order, starts, gates, w1, w3, w2, y, out, *sizes, pes=list(range(pes)))
        return {"out": out}

    def reference(self, p: ExpertParallelParams, inputs: Arrays) -> Arrays:
        """The weighted sum of the experts' MLPs, in float64."""
        return {"out": mixture(**inputs)}

    def flops(self, p: ExpertParallelParams) -> int:
        """The three products of each pair."""
        return 6 * p.tokens * p.chosen * p.width * p.hidden

    def footprint(self, p: ExpertParallelParams) -> int:
        """The weights, and the tokens before and after."""
        return p.dtype.nbytes * p.width * (3 * p.experts * p.hidden + 2 * p.tokens)


def routing(experts: np.ndarray, n_experts: int, pes: int) -> tuple[np.ndarray, np.ndarray]:
    """The pairs, by PE of the token and by expert; and for each PE the place of the first pair of each expert."""
    tokens, chosen = experts.shape
    of = np.repeat(
        np.searchsorted([share(tokens, pe, pes).stop for pe in range(pes)], np.arange(tokens), "right"), chosen
    )
    order = np.lexsort((experts.ravel(), of)).astype(np.int32)
    keys = (of * n_experts + experts.ravel())[order]
    first = np.searchsorted(keys, np.arange(pes)[:, None] * n_experts + np.arange(n_experts + 1))
    return order, first.astype(np.int32)


def mixture(
    x: np.ndarray, experts: np.ndarray, gates: np.ndarray, w1: np.ndarray, w3: np.ndarray, w2: np.ndarray
) -> np.ndarray:
    """The weighted sums of the experts' MLPs, in float64."""
    x, gates, w1, w3, w2 = (each.astype(np.float64) for each in (x, gates, w1, w3, w2))
    found = np.zeros(x.shape)
    for expert in range(len(w1)):
        token, choice = np.nonzero(experts == expert)
        gate = x[token] @ w1[expert]
        y = (gate / (1 + np.exp(-gate)) * (x[token] @ w3[expert])) @ w2[expert]
        np.add.at(found, token, gates[token, choice, None] * y)
    return found
