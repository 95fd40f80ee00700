"""Kernels that lack a wait, race or leak, each with a mended twin: `-p kernel=NAME`, and `-p mended=true`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct

from kb_engine import Benchmark

SIDE, TILE, BAND = 256, (64, 64, 64), 64


def load_running_output(tl: Any, a: Any, b: Any, c: Any, d: Any, mended: bool) -> None:
    product = tl.composite("gemm", a, b, out=c, tile=TILE)
    if mended:
        tl.wait(product)
    band = tl.load(c[:BAND])
    tl.wait(product)
    tl.store(d[:BAND], band)


def store_running_result(tl: Any, a: Any, b: Any, c: Any, d: Any, mended: bool) -> None:
    product = tl.composite("gemm", a[:BAND], b, tile=TILE)
    if mended:
        tl.wait(product)
    tl.store(d[:BAND], product)


def chain_results(tl: Any, a: Any, b: Any, c: Any, d: Any, mended: bool) -> None:
    product = tl.composite("gemm", a[:BAND], b, tile=TILE)
    if mended:
        tl.wait(product)
    tl.wait(tl.composite("gemm", product, b, out=d[:BAND], tile=TILE))


def chain_outputs(tl: Any, a: Any, b: Any, c: Any, d: Any, mended: bool) -> None:
    product = tl.composite("gemm", a, b, out=c, tile=TILE)
    if mended:
        tl.wait(product)
    tl.wait(tl.composite("gemm", c, b, out=d, tile=TILE))


def overwrite_operand(tl: Any, a: Any, b: Any, c: Any, d: Any, mended: bool) -> None:
    band = tl.load(b[:BAND])
    product = tl.composite("gemm", a, b, out=c, tile=TILE)
    if mended:
        tl.wait(product)
    tl.store(a[-BAND:], band)
    tl.wait(product)


def overwrite_output(tl: Any, a: Any, b: Any, c: Any, d: Any, mended: bool) -> None:
    band = tl.load(b[:BAND])
    product = tl.composite("gemm", a, b, out=c, tile=TILE)
    if mended:
        tl.wait(product)
    tl.store(c[-BAND:], band)
    tl.wait(product)


def share_rows(tl: Any, a: Any, b: Any, c: Any, d: Any, mended: bool) -> None:
    band = tl.load(a[:BAND])
    first = tl.program_id() * (BAND if mended else BAND // 2)
    tl.store(c[first : first + BAND], band)


def read_of_another(tl: Any, a: Any, b: Any, c: Any, d: Any, mended: bool) -> None:
    if tl.program_id() == 0:
        tl.store(c[:BAND], tl.load(a[:BAND]))
    else:
        tl.load(b)
        tl.load((a if mended else c)[:BAND])


def overwrite_of_another(tl: Any, a: Any, b: Any, c: Any, d: Any, mended: bool) -> None:
    if tl.program_id() == 0:
        tl.load(c[:BAND])
    else:
        tl.load(b)
        tl.store((d if mended else c)[:BAND], tl.load(a[:BAND]))


def write_twice(tl: Any, a: Any, b: Any, c: Any, d: Any, mended: bool) -> None:
    for source in (a, b):
        band = tl.load(source[:BAND])
        tl.store(c[:BAND], band)


KEPT: list[Any] = []


def leak(tl: Any, a: Any, b: Any, c: Any, d: Any, mended: bool) -> None:
    for row in range(tl.program_id(), SIDE, SIDE // 4):
        loaded = tl.load(a[row : row + 1])
        tl.store(c[row : row + 1], loaded)
        if not mended:
            KEPT.append(loaded)


class Params(Struct, frozen=True, kw_only=True):
    kernel: str = "chain_results"
    mended: bool = False
    pes: int = 1


class Planted(Benchmark[Params]):
    Params = Params

    def inputs(self, p: Params, rng: np.random.Generator) -> dict[str, Any]:
        return {name: rng.standard_normal((SIDE, SIDE), dtype=np.float32) for name in "abcd"}

    def launch(self, host: Any, p: Params, tensors: dict[str, Any]) -> dict[str, Any]:
        placed = {name: host.tensor(name, data, "f32", slices=[0]) for name, data in tensors.items()}
        kernel: Callable[..., None] = globals()[p.kernel]
        host.launch(kernel, *placed.values(), p.mended, pes=range(p.pes))
        return {"b": placed["b"]}

    def reference(self, p: Params, inputs: dict[str, Any]) -> dict[str, Any]:
        return {"b": inputs["b"].astype(np.float64)}

    def flops(self, p: Params) -> int:
        return 1
