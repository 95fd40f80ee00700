"""Kernels whose logs are mutated: small, ragged, and with data on which every element counts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_dataexec import MemoryLogWriter, MemoryStore, OpLog, cast
from kb_engine import Engine, Host, Tensor, read_tensor
from kb_messages import DType, Rectangle
from kb_topology import loads_topology

TOPOLOGIES = Path(__file__).parents[2] / "topologies"
Array = npt.NDArray[Any]


UNIFORM = np.array(
    [0.090805745, 0.813920784, 0.012150257, 0.780398117, 0.579857229, 0.677225896, 0.394589235, 0.5412937, 0.025389444]
)
"""`tl.rand(7, tl.arange(9))`: the first words of Philox4x32-10 by Python's integers, as numbers of 0 to 1."""


class Case(NamedTuple):
    """A log, the memory before it, the output, what it must be (float64) and how far it may be from that.

    `shift_free` says that the output does not depend on what its rows are reduced by, as a softmax.
    """

    log: OpLog
    memory: MemoryStore
    output: Tensor
    expected: Array
    tolerance: Array
    shift_free: bool = False

    def result(self, after: MemoryStore) -> Array:
        return np.array(read_tensor(after, self.output))

    def rectangles(self) -> list[Rectangle]:
        return [block.rectangle for _, block in self.output.blocks()]


def _host(topology: str, registers: str = "") -> Host:
    text = (TOPOLOGIES / f"{topology}.yaml").read_text(encoding="utf-8")
    if registers:
        text = text.replace("memory: {space: reg, size: 512 KiB}", f"memory: {{space: reg, size: {registers}}}")
    return Host(Engine(loads_topology(text, f"{topology}.yaml"), MemoryLogWriter()), Path(__file__).parent)


def _case(host: Host, output: Tensor, expected: Array, tolerance: Array) -> Case:
    log = host.engine.close_log()
    assert isinstance(log, OpLog)
    assert host.engine.initial_memory is not None
    return Case(log, host.engine.initial_memory, output, expected, tolerance)


def _random(*shape: int, seed: int, scale: float = 1.0) -> Array:
    return cast(scale * np.random.default_rng(seed).standard_normal(shape, dtype=np.float32), DType.F16)


def _rounded(expected: Array, size: Array, k: int) -> Array:
    """A rounding to f16, and sums of k terms in f32 whose absolute values add up to *size*."""
    return 2.0**-10 * np.abs(expected) + np.sqrt(k) * 2.0**-24 * size + 2.0**-24


def gemm_kernel(tl: Any, a: Any, b: Any, c: Any) -> None:
    tl.wait(tl.composite("gemm", a, b, out=c, tile=(8, 8, 8)))


def epilogue_kernel(tl: Any, a: Any, b: Any, row: Any, c: Any) -> None:
    ops = (tl.scale(0.75), tl.bias(row), tl.silu())
    tl.wait(tl.composite("gemm", a, b, out=c, epilogue=ops, tile=(8, 8, 8)))


def softmax_kernel(tl: Any, x: Any, y: Any) -> None:
    for row in range(x.shape[0]):
        loaded = tl.load(x[row : row + 1, :])
        wide = loaded.to("f32")
        largest = tl.max(wide, axis=1)
        powers = tl.exp(wide - largest)
        tl.store(y[row : row + 1, :], (powers / tl.sum(powers, axis=1)).to("f16"))


def overlapping_kernel(tl: Any, x: Any, y: Any) -> None:
    first, second = tl.load(x[0:6, :]), tl.load(x[2:8, :])
    tl.store(y[0:6, :], tl.exp(first * 0.25 - second))
    third, fourth = tl.load(y[2:6, :]), tl.load(x[1:5, :])
    tl.store(y[4:8, :], tl.maximum(third, fourth) * third)


def sums_kernel(tl: Any, a: Any, b: Any, c: Any) -> None:
    """Two sums that stay in registers; the value of one of them half way is needed later."""
    left, right = 0, tl.dot(tl.load(a[:, 0:8]), tl.load(b[0:8, 0:4]))
    for k in range(0, 24, 8):
        x = tl.load(a[:, k : k + 8])
        left = tl.dot(x, tl.load(b[k : k + 8, :]), left)
        if k == 8:
            half = left
    for k in range(8, 24, 8):
        right = tl.dot(tl.load(a[:, k : k + 8]), tl.load(b[k : k + 8, 0:4]), right)
    tl.store(c[:, 0:6], (left + half * 2.0).to("f16"))
    tl.store(c[:, 6:10], right.to("f16"))


def atomics_kernel(tl: Any, x: Any, y: Any) -> None:
    for row in range(3):
        tl.atomic_add(y[0:1, :], tl.load(x[row : row + 1, :]))
    tl.store(y[1:2, :], tl.atomic_max(y[0:1, :], tl.load(x[3:4, :])) * 0.5)
    tl.atomic_xchg(y[2:3, 0:4], tl.load(x[4:5, 0:4]))


def sharded_kernel(tl: Any, a: Any, b: Any, c: Any) -> None:
    rows = c.shape[0] // tl.num_programs()
    mine = slice(tl.program_id() * rows, (tl.program_id() + 1) * rows)
    tl.wait(tl.composite("gemm", a[mine, :], b, out=c[mine, :], tile=(8, 8, 8)))


def masked_kernel(tl: Any, x: Any, y: Any) -> None:
    for start in range(0, 14, 8):
        rows, columns = start + tl.arange(8) < 11, tl.arange(12) < 9
        mask = rows[:, None] & columns[None, :]
        part = tl.load(x[start : start + 8, 0:12], mask=mask, other=-1.5)
        tl.store(y[start : start + 8, 0:12], part * 0.25 + tl.sum(part, axis=1), mask=mask)


def pieces_kernel(tl: Any, x: Any, y: Any) -> None:
    rows, number = np.array([4, 1, 0, 3, 5, 2]), tl.arange(0, 6)
    part = tl.load(x[rows, ::2], number[:, None] >= number[None, :], -1.5)
    tl.store(y[rows], part * 0.25 + tl.sum(part, axis=1))


def vector_kernel(tl: Any, x: Any, y: Any) -> None:
    """Programs of several ops, in which a value leaves two ways, and a product whose sum goes on in the next one."""
    number = tl.arange(0, 8)
    part = tl.load_async(x[0:8, 0:8])
    wide = part.to("f32") + (number * 2 - 3)
    along, down = tl.cumsum(wide, 1, reverse=True), tl.sum(wide, axis=0)
    tl.store(y[0:8, 0:8], (along - down).to("f16"))
    total = tl.dot(part, tl.load(x[8:16, 0:8]), 0)
    total = tl.dot(tl.load(x[8:16, 0:8]), part, total)
    chosen = tl.where(number[:, None] >= number[None, :], total * 0.25, along)
    tl.store(y[np.array([9, 14, 8, 11, 15, 10, 13, 12]), 0:8], chosen.to("f16"))


def axes_kernel(tl: Any, x: Any, y: Any) -> None:
    """Rows in pieces that carry their results, an axis in the middle, and atomics of elements anywhere."""
    wide = tl.load(x[0:2, :]).to("f32")
    tl.store(y[0:2, :], (wide + tl.sum(wide, axis=1) * 0.125).to("f16"))
    cube = tl.reshape(tl.load(x[2:4, :]), 2, 4, 16)
    tl.store(y[2:4, :], (cube * 2.0 - tl.sum(cube, axis=1)).reshape(2, 64))
    at = tl.arange(0, 8) * 3
    tl.atomic_add(y[0, at], tl.load(x[2, at]), at < 16)


def layouts_kernel(tl: Any, x: Any, y: Any) -> None:
    """Elements in other orders, chosen, counted and as bits, and random numbers. One index is none of its row."""
    part = tl.load(x[0:4, 0:8])
    tl.store(y[0:4, 0:8], tl.sort(part * 2.0, descending=True))
    even, odd = tl.split(tl.load(x[4:8, 0:8]).reshape(4, 4, 2))
    tl.store(y[4:8, 0:8], tl.interleave(odd, even * 0.25))
    order = (tl.full((1, 9), -3.0, "f32") + ((tl.arange(0, 9) * 2 + 1) % 9 + 3)).to("i32")
    numbers = tl.rand(7, tl.arange(0, 9))
    whole = (part * 4.0).to("i32")
    tl.store(y[8:12, :], (tl.gather(whole, tl.broadcast_to(order, (4, 9)), 1) + numbers).to("f16"))
    turned = tl.load(x[8:16, 0:8])
    tl.store(y[16:24, 0:8], turned.T - turned * 0.5)
    tl.store(y[12:15, 0:8], tl.bitcast(tl.bitcast(tl.load(x[1:4, 0:8]) * 0.5, "i16") & 0x7FFF, "f16"))
    whole = (tl.load(x[4:8, 0:8]) * 4.0).to("i32")
    tl.store(y[15:16, 0:8], tl.histogram(whole, 8).to("f16"))


def blocks_kernel(tl: Any, x: Any, y: Any) -> None:
    """Values that do not fit the registers beside their results: in blocks of other orders, some in their own bytes."""
    part = tl.load(x[0:12, :])
    tl.store(y[0:12, :], tl.sort(part.reshape(1, 96)).reshape(12, 8))
    tl.store(y[12:24, :], tl.cumsum(part.reshape(1, 96), axis=1, reverse=True).reshape(12, 8))
    turned = -tl.permute(part.reshape(4, 3, 8), (1, 0, 2))
    tl.store(y[24:36, :], turned.reshape(12, 8))
    tl.store(y[36:60, :], tl.cat(part, part * 0.5))


def gemm() -> Case:
    a, b = _random(12, 20, seed=1), _random(20, 10, seed=2)
    host = _host("one_pe")
    c = host.empty("c", (12, 10), DType.F16)
    host.launch(gemm_kernel, host.tensor("a", a, DType.F16), host.tensor("b", b, DType.F16), c)
    wide = a.astype(np.float64), b.astype(np.float64)
    expected = wide[0] @ wide[1]
    return _case(host, c, expected, _rounded(expected, np.abs(wide[0]) @ np.abs(wide[1]), 20))


def gemm_with_epilogue() -> Case:
    a, b, row = _random(10, 12, seed=3), _random(12, 12, seed=4), _random(1, 12, seed=5)
    host = _host("one_pe")
    c = host.empty("c", (10, 12), DType.F16)
    given = [host.tensor(name, each, DType.F16) for name, each in (("a", a), ("b", b), ("row", row))]
    host.launch(epilogue_kernel, *given, c)
    wide = a.astype(np.float64), b.astype(np.float64)
    x = wide[0] @ wide[1] * 0.75 + row.astype(np.float64)
    expected = x / (1 + np.exp(-x))
    size = np.abs(wide[0]) @ np.abs(wide[1]) + np.abs(row.astype(np.float64)) + 4
    return _case(host, c, expected, _rounded(expected, 4 * size, 12))


def softmax() -> Case:
    """Values so far apart that no power is finite where the largest value is not taken off; rows of unlike results."""
    x = _random(3, 12, seed=6, scale=120.0)
    below = np.float32([[1.0, 0.5, 1.5], [0.5, 1.5, 2.0], [2.0, 1.0, 0.5]])
    x[:, 3:6] = x.max(axis=1, keepdims=True) - cast(below, DType.F16)
    host = _host("one_pe")
    y = host.empty("y", x.shape, DType.F16)
    host.launch(softmax_kernel, host.tensor("x", x, DType.F16), y)
    wide = x.astype(np.float64)
    powers = np.exp(wide - wide.max(axis=1, keepdims=True))
    expected = powers / powers.sum(axis=1, keepdims=True)
    return _case(host, y, expected, _rounded(expected, 512 * expected, 12))._replace(shift_free=True)


def overlapping() -> Case:
    x = _random(8, 6, seed=7)
    host = _host("one_pe")
    y = host.empty("y", x.shape, DType.F16)
    host.launch(overlapping_kernel, host.tensor("x", x, DType.F16), y)

    def f16(values: Array) -> Array:
        return values.astype(np.float32).astype(np.float16).astype(np.float64)

    wide = x.astype(np.float64)
    expected = np.empty_like(wide)
    expected[0:6] = f16(np.exp(f16(f16(wide[0:6] * 0.25) - wide[2:8])))
    third = expected[2:6].copy()
    expected[4:8] = f16(np.maximum(third, wide[1:5]) * third)
    return _case(host, y, expected, 2.0**-9 * np.abs(expected) + 2.0**-24)


def masked() -> Case:
    x = _random(11, 9, seed=10)
    host = _host("one_pe")
    y = host.empty("y", x.shape, DType.F16)
    host.launch(masked_kernel, host.tensor("x", x, DType.F16), y)
    wide = x.astype(np.float64)
    expected = wide * 0.25 + wide.sum(axis=1, keepdims=True) - 3 * 1.5
    size = np.abs(wide).sum(axis=1, keepdims=True) + np.abs(wide) + 4.5
    return _case(host, y, expected, _rounded(expected, 64 * size, 12) + 2.0**-10 * size)


def sums() -> Case:
    a, b = _random(10, 24, seed=11), _random(24, 6, seed=12)
    host = _host("one_pe")
    c = host.empty("c", (10, 10), DType.F16)
    host.launch(sums_kernel, host.tensor("a", a, DType.F16), host.tensor("b", b, DType.F16), c)
    x, y = a.astype(np.float64), b.astype(np.float64)
    expected = np.hstack([x @ y + 2 * (x[:, :16] @ y[:16]), x @ y[:, :4]])
    size = np.abs(x) @ np.abs(y)
    return _case(host, c, expected, _rounded(expected, np.hstack([3 * size, size[:, :4]]), 24))


def pieces() -> Case:
    x = _random(6, 12, seed=11)
    host = _host("one_pe")
    y = host.empty("y", (6, 6), DType.F16)
    host.launch(pieces_kernel, host.tensor("x", x, DType.F16), y)
    rows = [4, 1, 0, 3, 5, 2]
    wide = np.where(np.tri(6, dtype=bool), x[rows, ::2].astype(np.float64), -1.5)
    expected = np.empty((6, 6))
    expected[rows] = wide * 0.25 + wide.sum(axis=1, keepdims=True)
    size = np.abs(wide).sum(axis=1, keepdims=True) + np.abs(wide)
    tolerance = np.empty((6, 6))
    tolerance[rows] = 2.0**-9 * size
    return _case(host, y, expected, tolerance)


def atomics() -> Case:
    """The first element is a sum below 0, which is smaller than half of it and larger than what it is compared with."""
    x, y = _random(5, 10, seed=13), _random(3, 10, seed=14)
    y[0, 0], x[3, 0] = -8, -20
    host = _host("one_pe")
    out = host.tensor("y", y, DType.F16)
    host.launch(atomics_kernel, host.tensor("x", x, DType.F16), out)
    wide, expected = x.astype(np.float64), y.astype(np.float64)
    total = expected[0] + wide[:3].sum(axis=0)
    expected[0], expected[1] = np.maximum(total, wide[3]), total * 0.5
    expected[2, :4] = wide[4, :4]
    return _case(
        host, out, expected, 2.0**-9 * (np.abs(wide).sum(axis=0) + np.abs(y[:1].astype(np.float64))) + 2.0**-24
    )


def vector() -> Case:
    x = _random(16, 8, seed=13)
    host = _host("one_pe")
    y = host.empty("y", x.shape, DType.F16)
    host.launch(vector_kernel, host.tensor("x", x, DType.F16), y)
    part, other = x[:8].astype(np.float64), x[8:].astype(np.float64)
    wide = part + (np.arange(8) * 2 - 3)
    along = np.flip(np.cumsum(np.flip(wide, 1), 1), 1)
    total = (part @ other + other @ part) * 0.25
    expected = np.empty((16, 8))
    expected[:8] = along - wide.sum(axis=0)
    expected[[9, 14, 8, 11, 15, 10, 13, 12]] = np.where(np.tri(8, dtype=bool), total, along)
    size = np.abs(wide).sum() + np.abs(part) @ np.abs(other) + np.abs(other) @ np.abs(part)
    return _case(host, y, expected, _rounded(expected, np.vstack([size, size]), 16))


def axes() -> Case:
    x = _random(4, 64, seed=16)
    host = _host("one_pe", registers="256 B")
    y = host.empty("y", x.shape, DType.F16)
    host.launch(axes_kernel, host.tensor("x", x, DType.F16), y)
    wide = x.astype(np.float64)
    expected = wide.copy()
    expected[:2] += wide[:2].sum(axis=1, keepdims=True) / 8
    cube = wide[2:].reshape(2, 4, 16)
    expected[2:] = (cube * 2 - cube.sum(axis=1, keepdims=True)).reshape(2, 64)
    at = np.arange(6) * 3
    expected[0, at] += wide[2, at]
    size = np.abs(expected) + np.repeat([[0], [2]], 2, axis=0) * np.abs(wide).max()
    return _case(host, y, expected, 2.0**-9 * size + 2.0**-12)


def layouts() -> Case:
    x = _random(16, 8, seed=15)
    host = _host("one_pe")
    y = host.tensor("y", np.zeros((24, 9), np.float16), DType.F16)
    host.launch(layouts_kernel, host.tensor("x", x, DType.F16), y)
    wide, expected = x.astype(np.float64), np.zeros((24, 9))
    pairs = wide[4:8].reshape(4, 4, 2)
    expected[:4, :8] = -np.sort(-2 * wide[:4])
    expected[4:8, :8] = np.stack([pairs[..., 1], pairs[..., 0] * 0.25], -1).reshape(4, 8)
    nothing_ninth = np.hstack([np.trunc(wide[:4] * 4), np.zeros((4, 1))])
    expected[8:12] = nothing_ninth[:, (np.arange(9) * 2 + 1) % 9] + UNIFORM
    expected[12:15, :8] = np.abs(wide[1:4] * 0.5)
    expected[15, :8] = [(np.trunc(wide[4:8] * 4) == each).sum() for each in range(8)]
    expected[16:, :8] = wide[8:].T - wide[8:] * 0.5
    size = np.abs(expected) + np.abs(wide).max()
    return _case(host, y, expected, 2.0**-10 * size)


def blocks() -> Case:
    x = _random(12, 8, seed=16)
    host = _host("one_pe", "320 B")
    y = host.tensor("y", np.zeros((60, 8), np.float16), DType.F16)
    host.launch(blocks_kernel, host.tensor("x", x, DType.F16), y)
    wide = x.astype(np.float64)
    sums = np.cumsum(wide.ravel()[::-1])[::-1].reshape(12, 8)
    parts = np.sort(wide.ravel()).reshape(12, 8), sums, -wide.reshape(4, 3, 8).transpose(1, 0, 2).reshape(12, 8), wide
    expected = np.vstack([*parts, wide * 0.5])
    rounding = np.zeros((60, 8))
    rounding[12:24] = 2.0**-10 * (np.abs(sums) + np.abs(wide).max())
    return _case(host, y, expected, rounding)


def sharded_gemm() -> Case:
    a, b = _random(16, 12, seed=8), _random(12, 8, seed=9)
    host = _host("one_cube")
    blocks = {"blocks": (2, 1), "slices": [0, 4]}
    c = host.empty("c", (16, 8), DType.F16, **blocks)
    given = host.tensor("a", a, DType.F16, **blocks), host.tensor("b", b, DType.F16)
    host.launch(sharded_kernel, *given, c, pes=range(2))
    wide = a.astype(np.float64), b.astype(np.float64)
    expected = wide[0] @ wide[1]
    return _case(host, c, expected, _rounded(expected, np.abs(wide[0]) @ np.abs(wide[1]), 12))


_MADE = (
    gemm,
    gemm_with_epilogue,
    softmax,
    overlapping,
    masked,
    sums,
    pieces,
    atomics,
    vector,
    layouts,
    blocks,
    axes,
    sharded_gemm,
)
CASES: dict[str, Callable[[], Case]] = {made.__name__: cache(made) for made in _MADE}
