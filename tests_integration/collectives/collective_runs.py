"""Runs of collectives on bundled chips, with the data that numpy expects."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from kb_dataexec import Executor, MemoryLogWriter, OpLog, numpy_dtype
from kb_dataexec.analysis import search
from kb_engine import Engine, Host, LaunchResult, Tensor, collectives, read_tensor
from kb_messages import DType
from kb_topology import Topology, load_topology

TOPOLOGIES = Path(__file__).parents[2] / "topologies"
REDUCTIONS = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}


@cache
def chip(name: str) -> Topology:
    return load_topology(TOPOLOGIES / f"{name}.yaml")


def bounds(n: int, ranks: int, rank: int) -> tuple[int, int]:
    """Chunk *rank* of *n* elements, as `reduce_scatter` documents it."""
    size = -(-n // ranks)
    return min(n, rank * size), min(n, rank * size + size)


def expected(call: str, op: str, parts: Sequence[np.ndarray], rank: int, root: int = 0) -> np.ndarray:
    """The result of *rank* in float64."""
    total = REDUCTIONS[op](parts, axis=0)
    start, stop = bounds(parts[0].size, len(parts), rank)
    return {
        "all_reduce": lambda: total,
        "reduce_scatter": lambda: total[start:stop],
        "all_gather": lambda: np.concatenate(parts),
        "broadcast": lambda: parts[root],
        "all_to_all": lambda: np.concatenate([part[start:stop] for part in parts]),
    }[call]()


class Run:
    """One collective on *pes*, with whole numbers whose sums every dtype holds, from tensors or from values."""

    def __init__(
        self, topology: Topology, pes: Sequence[int], n: int, call: str, algorithm: str, *, dtype: str = "f32",
        op: str = "sum", root: int = 0, in_tcm: bool = False, exact: Any = "isolated", seed: int = 0,
    ) -> None:  # fmt: skip
        self.call, self.op, self.root, self.pes = call, op, root, list(pes)
        self.engine = Engine(topology, MemoryLogWriter(), exact=exact)
        host = self.host = Host(self.engine)
        self.group = host.group(pes)
        rng = np.random.default_rng(seed)
        homes = [[host.hbm_slice_of(pe)] for pe in pes]
        low = 0 if dtype.startswith("u") else -4
        raw = [rng.integers(low, 5, n).astype(numpy_dtype(DType(dtype))) for _ in pes]
        self.parts = [each.astype(np.float64) for each in raw]
        xs = [host.tensor(f"x{r}", each, dtype, slices=homes[r]) for r, each in enumerate(raw)]
        sizes = [max(1, expected(call, op, self.parts, r, root).size) for r in range(len(homes))]
        self.outs: list[Tensor] = [host.empty(f"y{r}", (sizes[r],), dtype, slices=homes[r]) for r in range(len(homes))]
        options: dict[str, Any] = {"algorithm": algorithm}
        if call in ("all_reduce", "reduce_scatter"):
            options["op"] = op
        if call == "broadcast":
            options["root"] = root
        function = getattr(collectives, call)

        def kernel(tl, group, xs, ys) -> None:
            rank = group.rank(tl)
            if not in_tcm:
                function(tl, group, xs[rank], ys[rank], **options)
                return
            found = function(tl, group, tl.load(xs[rank]), **options)
            if found is not None:
                tl.store(ys[rank], found.ravel())

        self.result: LaunchResult = host.launch(kernel, self.group, xs, self.outs, pes=list(pes))
        self.log: OpLog = self.engine.close_log()

    def check(self) -> None:
        """Compares every rank's result with numpy: equal, because the numbers are whole and small.

        The sanitizer is silent.
        """
        memory = Executor(self.log, self.engine.initial_memory).run()
        for rank, out in enumerate(self.outs):
            want = expected(self.call, self.op, self.parts, rank, self.root)
            if want.size:
                found = np.asarray(read_tensor(memory, out)).astype(np.float64)
                np.testing.assert_array_equal(found, want, f"rank {rank}")
        assert search(self.log).findings == []
