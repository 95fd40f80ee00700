"""A small workload as a benchmark file: an element-wise op of two launches, a product that reads it, and a last op."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import Result

CHAIN = '''\
"""A chain of three ops: the layer stands `layers` times in the model, the head once."""

from typing import Literal

import numpy as np
from kb_engine import OutputPart, PlannedOp, PlannedValue, Workload, WorkloadOp, WorkloadOutput, WorkloadStep
from kb_engine import read_tensor
from kb_messages import DType, split_address
from msgspec import Struct


def scale(tl, x, y, factor):
    tl.store(y, tl.load(x) * factor)


def product(tl, a, b, c):
    tl.wait(tl.composite("gemm", a, b, out=c))


class Params(Struct):
    context: int = 16
    layers: int = 4
    phase: Literal["decode", "prefill", "pass"] = "decode"
    wrong: bool = False
    dtype: Literal["f32"] = "f32"


class Output(WorkloadOutput):
    def __init__(self, tensor, reference):
        self.name, self.shape, self.dtype, self.flops = tensor.name, tensor.shape, tensor.dtype, tensor.shape[0] ** 2
        self._tensor, self._reference = tensor, reference

    @property
    def parts(self):
        return [OutputPart(tuple((0, size) for size in self.shape), self._tensor)]

    def read(self, memory):
        return read_tensor(memory, self._tensor)

    def byte_of(self, index):
        return split_address(self._tensor.block(0, 0).address)

    def expected(self, memory):
        found = self._reference(memory)
        return found, np.full(found.shape, 1e-4)


class Chain(Workload[Params]):
    Params = Params

    def __init__(self):
        self._ops, self._outputs = [], []

    def prepare(self, p, topology, seed):
        self._seed = seed

    def run(self, host, p):
        n, width = p.context, 16
        rng = np.random.default_rng(self._seed)
        x = host.tensor("x", rng.standard_normal((n, width), dtype=np.float32), "f32")
        w = host.tensor("w", rng.standard_normal((width, width), dtype=np.float32), "f32")
        made = {name: host.empty(name, (n, width), "f32") for name in ("half", "scaled", "product", "head")}
        host.launch(scale, x, made["half"], 0.5, pes=[0])
        host.launch(scale, made["half"], made["scaled"], 6.0, pes=[0])
        host.launch(product, made["scaled"], w, made["product"], pes=[0])
        host.launch(scale, made["product"], made["head"], 3.0 if p.wrong else 2.0, pes=[0])

        def of(tensor):
            return lambda memory: read_tensor(memory, tensor).astype(np.float64)

        self._outputs = [
            Output(made["scaled"], lambda memory: 3 * of(x)(memory)),
            Output(made["product"], lambda memory: of(made["scaled"])(memory) @ of(w)(memory)),
            Output(made["head"], lambda memory: 2 * of(made["product"])(memory)),
        ]
        size, weights = 4 * n * width, 4 * width**2
        self._ops = [
            WorkloadOp(name="layer.scale", kind="scale", flops=2 * n * width, nbytes=2 * size, first_launch=0,
                       end_launch=2, repeats=p.layers),
            WorkloadOp(name="layer.product", kind="linear", flops=2 * n * width**2, nbytes=2 * size + weights,
                       first_launch=2, end_launch=3, repeats=p.layers, floor_nbytes=weights),
            WorkloadOp(name="head", kind="scale", flops=n * width, nbytes=2 * size, first_launch=3, end_launch=4),
        ]

    @property
    def ops(self):
        return self._ops

    @property
    def planned(self):
        value = PlannedValue(name="product", shape=(16, 16), dtype=DType.F32, layout="whole")
        sizes = {"flops": 8192, "nbytes": 3072, "repeats": 4}
        return [PlannedOp(name="layer.product", kind="linear", reads=(), writes=(value,), **sizes)]

    def outputs(self):
        return iter(self._outputs)

    def step(self, p):
        return WorkloadStep(phase=p.phase, items=5)

    def flops(self, p):
        return 3 * p.context * 16 + 2 * p.context * 16**2
'''


def write_chain(folder: Path) -> Path:
    """Writes the workload to *folder*, and returns its file."""
    file = folder / "chain.py"
    file.write_text(CHAIN, encoding="utf-8")
    return file


def run_chain(invoke: Callable[..., Result], folder: Path, *args: str) -> dict[str, Any]:
    """Runs the workload into *folder*, and returns its result."""
    done = invoke("run", write_chain(folder), "--topology", "one_pe", "--out", folder / "runs", *args, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found
