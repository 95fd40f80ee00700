"""Random kernels on random chips: loads, stores, masks, math, and GEMMs with epilogues, transposes and streams."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from kb_dataexec import MemoryLogWriter, OpLog
from kb_engine import DType, Engine, Host, Language, LaunchResult, Tensor, TensorRef, TileShape
from kb_topology import Topology, loads_topology

TOPOLOGIES = Path(__file__).parents[2] / "topologies"
CHIPS = ("one_cube", "one_cube", "one_pe", "one_cube_banked", "one_sip")
SIZES = ((8, 8), (8, 8), (4, 16), (16, 8), (16, 16))
TILES = (None, TileShape(m=16, n=16, k=16), TileShape(m=8, n=24, k=32), TileShape(m=32, n=32, k=8))
STEPS = ("load", "load", "masked", "store", "unary", "binary", "reduction", "dot", "gemm", "gemm", "free")
LARGEST_LOAD = 16


@dataclass(frozen=True)
class Case:
    """A chip, the number of programs, the side of the square matrices, and the steps of every program."""

    chip: str
    issue: str
    compute_slots: str
    programs: int
    side: int
    steps: list[tuple[Any, ...]]


def draw(seed: int) -> Case:
    """The case of *seed*."""
    rng = random.Random(seed)
    chip, side = rng.choice(CHIPS), rng.choice((40, 64, 96))
    steps = [_step(rng, side) for _ in range(rng.randint(2, 14))]
    programs = 1 if chip == "one_pe" else rng.randint(1, 4)
    issue, slots = rng.choice(("blocking", "scoreboard")), rng.choice(("shared", "shared", "independent"))
    return Case(chip, issue, slots, programs, side, steps)


def _step(rng: random.Random, side: int) -> tuple[Any, ...]:
    corner = (rng.randrange(side - LARGEST_LOAD), rng.randrange(side - LARGEST_LOAD))
    first, second = rng.randrange(9), rng.randrange(9)
    match rng.choice(STEPS):
        case "load":
            return "load", corner, rng.choice(SIZES)
        case "masked":
            return "masked", (rng.randrange(side - 1), rng.randrange(side - 1))
        case "store":
            return "store", first, corner
        case "unary":
            return "unary", rng.choice(("exp", "abs", "sqrt")), first
        case "binary":
            return "binary", rng.choice(("add", "mul", "maximum")), first, second
        case "reduction":
            return "reduction", rng.choice(("sum", "max")), first, rng.randrange(2)
        case "gemm":
            size = tuple(rng.randint(1, side) for _ in "mnk")
            return (
                "gemm",
                size,
                rng.choice(TILES),
                rng.randrange(3),
                *(rng.random() < share for share in (0.3, 0.6, 0.2)),
            )
        case other:
            return other, first, second


def kernel(
    tl: Language, x: TensorRef, weights: TensorRef, bias: TensorRef, outputs: list[TensorRef], case: Case
) -> None:
    """Every program takes the steps of *case*. A step whose operands do not fit each other does nothing."""
    program = _Program(tl, x, weights, bias, outputs[tl.program_id()])
    for name, *arguments in case.steps:
        getattr(program, name)(*arguments)


class _Program:
    def __init__(self, tl: Language, x: TensorRef, weights: TensorRef, bias: TensorRef, y: TensorRef) -> None:
        self.tl, self.x, self.weights, self.bias, self.y = tl, x, weights, bias, y
        self.values: list[Any] = [tl.load(x[0:8, 0:8])]

    def pick(self, number: int) -> Any:
        return self.values[number % len(self.values)]

    def load(self, corner: tuple[int, int], size: tuple[int, int]) -> None:
        (row, col), (rows, cols) = corner, size
        self.values.append(self.tl.load(self.x[row : row + rows, col : col + cols]))

    def masked(self, corner: tuple[int, int]) -> None:
        row, col = corner
        rows, cols = row + self.tl.arange(0, LARGEST_LOAD), col + self.tl.arange(0, LARGEST_LOAD)
        mask = (rows < self.x.shape[0])[:, None] & (cols < self.x.shape[1])[None, :]
        part = self.x[row : row + LARGEST_LOAD, col : col + LARGEST_LOAD]
        self.values.append(self.tl.load(part, mask=mask, other=1.0))

    def store(self, number: int, corner: tuple[int, int]) -> None:
        value, (row, col) = self.pick(number), corner
        self.tl.store(self.y[row : row + value.shape[0], col : col + value.shape[1]], value)

    def unary(self, op: str, number: int) -> None:
        self.values.append(getattr(self.tl, op)(self.pick(number)))

    def binary(self, op: str, first: int, second: int) -> None:
        a, b = self.pick(first), self.pick(second)
        if a.shape == b.shape:
            self.values.append(self.tl.arithmetic(op, a, b))

    def reduction(self, op: str, number: int, axis: int) -> None:
        self.values.append(getattr(self.tl, op)(self.pick(number), axis=axis))

    def dot(self, first: int, second: int) -> None:
        a, b = self.pick(first), self.pick(second)
        if a.shape[1] == b.shape[0]:
            self.values.append(self.tl.dot(a, b))

    def gemm(
        self, size: tuple[int, int, int], tile: Any, ops: int, streams: bool, waits: bool, transposed: bool
    ) -> None:
        m, n, k = size
        bias, scale = self.tl.bias(self.bias[0:1, 0:n]), self.tl.scale(0.5, scope="k_tile")
        epilogue = ((), (self.tl.relu(),), (bias, scale))[ops]
        a = self.x[0:k, 0:m].T if transposed else self.x[0:m, 0:k]
        out, b = self.y[0:m, 0:n], self.weights[0:k, 0:n]
        done = self.tl.composite("gemm", a, b, out=out, tile=tile, epilogue=epilogue, b_stream=streams)
        if waits:
            self.tl.wait(done)

    def free(self, number: int, _: int) -> None:
        if len(self.values) > 1:
            self.values.pop(number % len(self.values))


def in_place(host: Host, name: str, data: np.ndarray) -> Tensor:
    """A tensor of f32 that is spread over the HBM slices."""
    return host.tensor(name, data, DType.F32)


Place = Callable[[Host, str, np.ndarray], Tensor]


@cache
def topology_of(chip: str, issue: str, compute_slots: str) -> Topology:
    """The bundled topology *chip* with other options of its PE_CPUs and PE_SCHEDULERs."""
    text = (TOPOLOGIES / f"{chip}.yaml").read_text(encoding="utf-8")
    for impl, option in (("pe_cpu", f"issue: {issue}"), ("pe_scheduler", f"compute_slots: {compute_slots}")):
        assert f"builtin.{impl}" in text
        text = text.replace(f"builtin.{impl}", f"builtin.{impl}, {option}")
    return loads_topology(text, f"{chip}.yaml")


def run(seed: int) -> OpLog:
    """The op log of the case of *seed*."""
    case = draw(seed)
    return simulate(case, topology_of(case.chip, case.issue, case.compute_slots), seed)


def simulate(case: Case, topology: Topology, seed: int, place: Place = in_place) -> OpLog:
    """The op log of *case* on *topology*. *seed* makes the inputs; *place* makes each tensor from its data."""
    engine = Engine(topology, MemoryLogWriter())
    launched(case, engine, seed, place)
    log = engine.close_log()
    assert isinstance(log, OpLog)
    return log


def launched(case: Case, engine: Engine, seed: int, place: Place = in_place) -> LaunchResult:
    """The times of *case* on the chip of *engine*. *seed* makes the inputs; *place* makes each tensor from its data."""
    host = Host(engine, Path(__file__).parent)
    rng = np.random.default_rng(seed)

    def matrix(name: str, rows: int) -> Tensor:
        return place(host, name, rng.uniform(0.5, 1, (rows, case.side)).astype(np.float32))

    x, weights, bias = matrix("x", case.side), matrix("weights", case.side), matrix("bias", 1)
    outputs = [matrix(f"y{number}", case.side) for number in range(case.programs)]
    return host.launch(kernel, x, weights, bias, outputs, case, pes=range(case.programs))
