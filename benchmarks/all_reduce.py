"""All-reduce: every rank gets the sum of what all ranks have, directly through memory or by messages.

Llama-3-8B is `-p rows=512 -p width=4096 -p ranks=8`: partial sums of 512 tokens behind a layer that 8 ranks share.
Source: the configuration of `Meta-Llama-3-8B` (hidden_size); such layers are those of Shoeybi et al., "Megatron-LM",
arXiv 1909.08053.
"""

from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct

from kb_engine import Arrays, Benchmark, DType, Host, Tensor, cast
from kb_engine.collectives import Sizes, all_reduce

Size = Annotated[int, Meta(ge=1)]


def direct(tl, parts, sums, block: int) -> None:
    """Rank r of R has the blocks of rows r, r + R, and so on. It adds them up in f32, and writes them to all *sums*.

    No rank waits for another one: inputs are there before the launch, and no two ranks write the same rows.
    """
    for start in range(tl.program_id() * block, parts[0].shape[0], tl.num_programs() * block):
        rows = slice(start, start + block)
        total = 0.0
        for part in tl.ahead(tl.load_async(each[rows, :]) for each in parts):
            total = part.to("f32") + total
        result = total.to(parts[0].dtype)
        for each in sums:
            tl.store(each[rows, :], result)


def by_messages(tl, group, parts, sums, algorithm: str) -> None:
    """Rank r sums its part with the others, and has the result in its own sum."""
    rank = group.rank(tl)
    all_reduce(tl, group, parts[rank], out=sums[rank], algorithm=algorithm)


class AllReduceParams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Each of `ranks` PEs, spread over the chip, has `rows` rows of `width` elements.

    With `algorithm=direct`, a rank sums a part of the rows, read from the memories of all ranks, and writes it to all;
    a step takes `block` rows, by default 4 or as many as fit TCM. The other algorithms are those of
    `kb_engine.collectives`, and need a PE for each rank. `auto` takes the fastest of them, and `direct` on a chip with
    fewer PEs or without message queues.
    """

    ranks: Size = 8
    rows: Size = 128
    width: Size = 512
    block: Size | None = None
    dtype: DType = DType.F16
    algorithm: Literal["direct", "auto", "ring", "tree", "two_level"] = "direct"


class AllReduce(Benchmark[AllReduceParams]):
    """The numbers and the sums of a rank lie in the HBM slice near its PE."""

    Params = AllReduceParams
    name = "all_reduce"

    def inputs(self, p: AllReduceParams, rng: np.random.Generator) -> Arrays:
        """Standard normal numbers, for each rank others."""
        return {f"part{r}": cast(rng.standard_normal((p.rows, p.width), np.float32), p.dtype) for r in range(p.ranks)}

    def launch(self, host: Host, p: AllReduceParams, tensors: Arrays) -> dict[str, Tensor]:
        """A program for each rank, on its PE. On a chip with fewer PEs, a PE has several ranks of `direct`."""
        pes = [rank * host.num_pes // p.ranks for rank in range(p.ranks)]
        homes = [[host.hbm_slice_of(pe)] for pe in pes]
        parts = [
            host.tensor(name, tensors[name], p.dtype, slices=home) for name, home in zip(tensors, homes, strict=True)
        ]
        sums = [host.empty(f"sum{rank}", (p.rows, p.width), p.dtype, slices=home) for rank, home in enumerate(homes)]
        algorithm = self._algorithm(host, p, pes)
        if algorithm != "direct":
            host.launch(by_messages, host.group(pes), parts, sums, algorithm, pes=pes)
            return {tensor.name: tensor for tensor in sums}
        # TCM holds the parts of two steps, because a sum is computed when all parts of a step are there, and two sums.
        nbytes = 2 * p.width * ((p.ranks + 1) * p.dtype.nbytes + 4)
        fitted = host.fitted(lambda block: block * nbytes, block=(p.block, 4))
        host.launch(direct, parts, sums, fitted["block"], grid=p.ranks, schedule="static", pes=sorted(set(pes)))
        return {tensor.name: tensor for tensor in sums}

    def _algorithm(self, host: Host, p: AllReduceParams, pes: list[int]) -> str:
        """The algorithm; for `auto` the one that it takes, which the report shows."""
        if p.algorithm != "auto":
            return p.algorithm
        can_send = p.ranks <= host.num_pes and host.has_message_queues
        sizes = Sizes(p.rows * p.width, p.dtype, "sum")
        found = host.group(pes).chosen("all_reduce", sizes, (False, False)) if can_send else "direct"
        host.chose(algorithm=found)
        return found

    def reference(self, p: AllReduceParams, inputs: Arrays) -> Arrays:
        """The sum, in float64."""
        total = sum(each.astype(np.float64) for each in inputs.values())
        return {f"sum{rank}": total for rank in range(p.ranks)}

    def flops(self, p: AllReduceParams) -> int:
        """An addition for each element of each rank after the first."""
        return (p.ranks - 1) * p.rows * p.width

    def footprint(self, p: AllReduceParams) -> int:
        """The numbers and the sums of all ranks."""
        return 2 * p.ranks * p.rows * p.width * p.dtype.nbytes

    def tolerance(self, p: AllReduceParams, inputs: Arrays, expected: Arrays) -> Arrays:
        """Rounding of each sum to f32, relative to the sizes that it adds, and of the result to its dtype."""
        info = p.dtype.info
        sizes = sum(np.abs(each.astype(np.float64)) for each in inputs.values())
        return {
            name: 2 * info.unit_roundoff * np.abs(each) + p.ranks * 2.0**-24 * sizes + info.smallest_subnormal
            for name, each in expected.items()
        }
