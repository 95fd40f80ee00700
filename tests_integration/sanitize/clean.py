"""Kernels that wait for all they read: what composites can do, over several launches and a host write in between."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from kb_engine import Benchmark

ROWS = 64
TILES = {"gemm": (32, 32, 32), "flat": (32, 32)}


def composites(tl: Any, x: Any, w: Any, row: Any, column: Any, y: Any, z: Any, fancy: bool, stream: bool) -> None:
    """Several composites at once, which the kernel waits for before anything reads what they wrote."""
    first = tl.program_id() * ROWS
    mine = slice(first, first + ROWS)
    bias, tile = tl.load(row), TILES["gemm"]
    epilogue = (tl.bias(row), tl.relu(), tl.scale(column[mine], scope="k_tile"), tl.residual(x[mine]))
    if fancy:
        handles = [
            tl.composite("gemm", x[mine], w.T, out=y[mine], tile=tile, b_stream=stream),
            tl.composite("gemm", x[mine], w, out=z[mine], tile=tile, epilogue=epilogue),
        ]
    else:
        handles = [
            tl.composite(
                "gemm", x[mine], w.T, out=y[mine], tile=tile, epilogue=(tl.bias(bias),), loop_order="weight_stationary"
            ),
            tl.composite("gemm", x[mine], w, tile=tile, b_stream=stream, loop_order="input_stationary"),
        ]
    for handle in handles:
        tl.wait(handle)
    if not fancy:
        tl.store(z[mine], handles[1])
    tl.wait(tl.composite("add", y[mine], z[mine], out=y[mine], tile=TILES["flat"]))


def elementwise(tl: Any, x: Any, y: Any) -> None:
    """A loop that frees what it allocates, and products of values in TCM."""
    first = tl.program_id() * ROWS
    for at in range(first, first + ROWS, 16):
        loaded = tl.load(y[at : at + 16])
        powers = tl.exp(loaded)
        total = tl.sum(powers, axis=1)
        share = powers / total
        gram = tl.dot(share, share.T)
        tl.store(x[at : at + 16, :16], gram)
        for value in (loaded, powers, total, share, gram):
            tl.free(value)


class Params(Struct, frozen=True, kw_only=True):
    pes: int = 2
    stream: bool = False


class Clean(Benchmark[Params]):
    Params = Params

    def inputs(self, p: Params, rng: np.random.Generator) -> dict[str, Any]:
        shapes = {"x": (p.pes * ROWS, 96), "w": (96, 96), "row": (1, 96), "column": (p.pes * ROWS, 1)}
        return {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}

    def launch(self, host: Any, p: Params, tensors: dict[str, Any]) -> dict[str, Any]:
        x, w, row, column = (host.tensor(name, data, "f32") for name, data in tensors.items())
        y, z = (host.empty(name, x.shape, "f32") for name in "yz")
        for fancy in (False, True):
            host.launch(composites, x, w, row, column, y, z, fancy, p.stream, pes=range(p.pes))
            host.launch(elementwise, x, y, pes=range(p.pes))
            host.write(x, tensors["x"])
        return {"x": x}

    def reference(self, p: Params, inputs: dict[str, Any]) -> dict[str, Any]:
        return {"x": inputs["x"].astype(np.float64)}

    def flops(self, p: Params) -> int:
        return 1
