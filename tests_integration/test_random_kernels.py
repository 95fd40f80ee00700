"""Random kernels: both modes of pass 2 leave the bytes that numpy computes statement by statement, times agree with the
order of commands, and `tl.materialize` shows values while the kernel runs.

All values are whole numbers small enough for f32 to add and multiply without rounding, so that the order of additions
does not matter and equal means equal.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_dataexec import Executor, MemoryLogWriter, OpLog, sanitize
from kb_engine import Engine, Host, read_tensor
from kb_messages import DType
from kb_topology import loads_topology

ONE_CUBE = (Path(__file__).parents[1] / "topologies/one_cube.yaml").read_text(encoding="utf-8")
ISSUE = "builtin.pe_cpu, "
assert ISSUE in ONE_CUBE
DMA = "builtin.pe_dma, "
assert DMA in ONE_CUBE
TOPOLOGIES = {
    (issue, outstanding): loads_topology(
        ONE_CUBE.replace(ISSUE, f"{ISSUE}issue: {issue}, ").replace(DMA, f"{DMA}outstanding: {outstanding}, "),
        "one_cube.yaml",
    )
    for issue in ("blocking", "scoreboard", "decoupled")
    for outstanding in (1, 2, 3, 8)
}
Array = npt.NDArray[Any]
SIDE, TILE = 12, (4, 4, 4)
PROGRAMS = 2
EXACT = 2**24
"""Whole numbers below it are f32 values."""

UNARY: dict[str, Callable[[Array], Array]] = {"abs": np.abs, "neg": np.negative}
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
REDUCTIONS: dict[str, Callable[..., Array]] = {"sum": np.sum, "max": np.max, "min": np.min}

sizes = st.sampled_from([(4, 4), (4, 4), (2, 4), (4, 8), (1, 12)])
corners = st.tuples(st.integers(0, SIDE - 1), st.integers(0, SIDE - 1))
number = st.integers(0, 5)
load = st.tuples(st.just("load"), st.sampled_from("xy"), corners, sizes)
store = st.tuples(st.just("store"), corners, number)
unary = st.tuples(st.just("unary"), st.sampled_from(sorted(UNARY)), number)
binary = st.tuples(st.just("binary"), st.sampled_from(sorted(BINARY)), number, number)
reduction = st.tuples(st.just("reduction"), st.sampled_from(sorted(REDUCTIONS)), number, st.integers(0, 1))
dot = st.tuples(st.just("dot"), number, number)
sums = st.tuples(st.just("sums"), number, number, number, st.integers(1, 3))
ahead = st.tuples(st.just("ahead"), corners, sizes)
gemm = st.tuples(st.just("gemm"), corners, corners, corners, st.sampled_from([(4, 4, 4), (6, 5, 8), (8, 8, 12)]))
free = st.tuples(st.just("free"), number)
look = st.tuples(st.just("look"), number)
steps = st.lists(
    st.one_of(load, load, store, store, unary, binary, binary, reduction, dot, sums, sums, ahead, gemm, free, look),
    max_size=14,
)
programs = st.tuples(load, load, steps).map(lambda parts: [*parts[:2], *parts[2]])


def part(corner: tuple[int, int], size: tuple[int, int]) -> tuple[slice, slice]:
    """A slice of that size, moved inside the matrix."""
    starts = [min(at, SIDE - length) for at, length in zip(corner, size, strict=True)]
    return slice(starts[0], starts[0] + size[0]), slice(starts[1], starts[1] + size[1])


class Machine:
    """What a step does, by `tl` or by numpy; a step that does not fit the values at hand does nothing."""

    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y
        self.values: list[Any] = []
        self.seen: list[Array] = []

    def run(self, program: list[Any]) -> None:
        for name, *arguments in program:
            if name in ("load", "ahead", "gemm", "store") or self.values:
                getattr(self, name)(*arguments)

    def pick(self, number: int) -> Any:
        return self.values[number % len(self.values)]

    def keep(self, value: Any) -> None:
        self.values.append(value)


class Kernel(Machine):
    def __init__(self, tl: Any, x: Any, y: Any) -> None:
        super().__init__(x, y)
        self.tl = tl

    def load(self, tensor: str, corner: Any, size: Any) -> None:
        self.keep(self.tl.load(getattr(self, tensor)[part(corner, size)]))

    def store(self, corner: Any, number: int) -> None:
        if self.values:
            value = self.pick(number)
            self.tl.store(self.y[part(corner, value.shape)], value)

    def unary(self, op: str, number: int) -> None:
        x = self.pick(number)
        self.keep(-x if op == "neg" else getattr(self.tl, op)(x))

    def binary(self, op: str, first: int, second: int) -> None:
        x, y = self.pick(first), self.pick(second)
        if x.shape == y.shape:
            self.keep(self.tl.arithmetic(op, x, y))

    def reduction(self, op: str, number: int, axis: int) -> None:
        self.keep(getattr(self.tl, op)(self.pick(number), axis=axis))

    def dot(self, first: int, second: int) -> None:
        a, b = self.pick(first), self.pick(second)
        if a.shape[1] == b.shape[0]:
            self.keep(self.tl.dot(a, b))

    def sums(self, first: int, second: int, third: int, times: int) -> None:
        a, b, acc = self.pick(first), self.pick(second), self.pick(third)
        if a.shape[1] == b.shape[0]:
            acc = acc if acc.shape == (a.shape[0], b.shape[1]) else 0
            for _ in range(times):
                acc = self.tl.dot(a, b, acc)
            self.keep(acc)

    def ahead(self, corner: Any, size: Any) -> None:
        self.keep(self.tl.load_async(self.x[part(corner, size)]))

    def gemm(self, a: Any, b: Any, c: Any, size: Any) -> None:
        m, n, k = size
        out = self.y[part(c, (m, n))]
        self.tl.wait(self.tl.composite("gemm", self.x[part(a, (m, k))], self.x[part(b, (k, n))], out=out, tile=TILE))

    def look(self, number: int) -> None:
        self.seen.append(np.array(self.tl.materialize(self.pick(number))))

    def free(self, number: int) -> None:
        value = self.values.pop(number % len(self.values))
        self.tl.wait(value)
        self.tl.free(value)


class Numpy(Machine):
    def keep(self, value: Array) -> None:
        assume(np.abs(value).max() < EXACT)
        super().keep(value)

    def load(self, tensor: str, corner: Any, size: Any) -> None:
        self.keep(getattr(self, tensor)[part(corner, size)].copy())

    def store(self, corner: Any, number: int) -> None:
        if self.values:
            value = self.pick(number)
            self.y[part(corner, value.shape)] = value

    def unary(self, op: str, number: int) -> None:
        self.keep(UNARY[op](self.pick(number)))

    def binary(self, op: str, first: int, second: int) -> None:
        x, y = self.pick(first), self.pick(second)
        if x.shape == y.shape:
            self.keep(BINARY[op](x, y))

    def reduction(self, op: str, number: int, axis: int) -> None:
        self.keep(REDUCTIONS[op](self.pick(number), axis=axis, keepdims=True))

    def dot(self, first: int, second: int) -> None:
        a, b = self.pick(first), self.pick(second)
        if a.shape[1] == b.shape[0]:
            assume((np.abs(a) @ np.abs(b)).max() < EXACT)
            self.keep(a @ b)

    def sums(self, first: int, second: int, third: int, times: int) -> None:
        a, b, acc = self.pick(first), self.pick(second), self.pick(third)
        if a.shape[1] == b.shape[0]:
            before = acc if acc.shape == (a.shape[0], b.shape[1]) else np.zeros((a.shape[0], b.shape[1]))
            assume((np.abs(before) + times * (np.abs(a) @ np.abs(b))).max() < EXACT)
            self.keep(before + times * (a @ b))

    def ahead(self, corner: Any, size: Any) -> None:
        self.load("x", corner, size)

    def gemm(self, a: Any, b: Any, c: Any, size: Any) -> None:
        m, n, k = size
        self.y[part(c, (m, n))] = self.x[part(a, (m, k))] @ self.x[part(b, (k, n))]

    def look(self, number: int) -> None:
        self.seen.append(self.pick(number).copy())

    def free(self, number: int) -> None:
        self.values.pop(number % len(self.values))


def kernel(tl: Any, x: Any, ys: list[Any], program: list[Any], looks: dict[int, list[Array]]) -> None:
    machine = Kernel(tl, x, ys[tl.program_id()])
    machine.run(program)
    looks[tl.program_id()] = machine.seen


@pytest.mark.parametrize("issue", ["blocking", "scoreboard", "decoupled"])
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.filter_too_much])
@given(programs, st.sampled_from([1, 2, 3, 8]), st.integers(0, 9))
def test_both_modes_leave_the_bytes_that_numpy_computes(
    issue: str, program: list[Any], outstanding: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(-4, 5, (SIDE, SIDE)).astype(np.float64) for _ in range(2))
    direct = Numpy(x.copy(), y.copy())
    direct.run(program)

    host = Host(Engine(TOPOLOGIES[issue, outstanding], MemoryLogWriter()), Path(__file__).parent)
    shared = host.tensor("x", x.astype(np.float32), DType.F32)
    outputs = [host.tensor(f"y{number}", y.astype(np.float32), DType.F32) for number in range(PROGRAMS)]
    looks: dict[int, list[Array]] = {}
    host.launch(kernel, shared, outputs, program, looks, pes=range(PROGRAMS))
    for seen in looks.values():
        for got, expected in zip(seen, direct.seen, strict=True):
            np.testing.assert_array_equal(got, expected)
    log, memory = host.engine.close_log(), host.engine.initial_memory
    assert isinstance(log, OpLog)
    assert memory is not None
    assert sanitize(log) == []  # these kernels wait for all that they read
    same_arithmetic = not {"gemm", "dot", "sums"} & {step[0] for step in program}
    left: list[bytes] = []
    for mode in ("tile", "fused"):
        after = Executor(log, memory, mode, fuse_from=2).run()  # type: ignore[arg-type]
        for output in outputs:
            np.testing.assert_array_equal(read_tensor(after, output), direct.y)
        left.append(b"".join(read_tensor(after, output).tobytes() for output in outputs))
    assert not same_arithmetic or left[0] == left[1]
