"""Products on the PEs of `one_cube` whose launches can repeat each other, and what they leave behind."""

from pathlib import Path
from typing import Any

import numpy as np
from closed_cases import counts_of

from kb_dataexec import MemoryLogWriter
from kb_engine import DType, Engine, Host, Language, Tensor, TensorRef, TileShape
from kb_topology import load_topology

ROOT = Path(__file__).parents[2]
Triples = list[list[Tensor]]
N_PES = 4
TILE = TileShape(32, 32, 32)
K = 64


def product(tl: Language, tensors: list[list[TensorRef]]) -> None:
    a, b, c = tensors[tl.program_id()]
    tl.wait(tl.composite("gemm", a[:, :K], b, out=c, tile=TILE))


def half_product(tl: Language, tensors: list[list[TensorRef]], k: int) -> None:
    a, b, c = tensors[tl.program_id()]
    tl.wait(tl.composite("gemm", a[:, :k], b[:k, :], out=c, tile=TILE))


def built(exact: Any = "closed", log: bool = True, **options: Any) -> tuple[Engine, Host]:
    topology = load_topology(ROOT / "topologies" / "one_cube.yaml")
    engine = Engine(topology, MemoryLogWriter() if log else None, exact=exact, least_closed_stages=1, **options)
    return engine, Host(engine, ROOT)


def triples(host: Host, of: str = "") -> Triples:
    """For each PE, matrices a of 64 x 64, b of 64 x 96 and c of 64 x 96 in its memory. Names end with *of*."""
    shapes = {"a": (64, 64), "b": (64, 96), "c": (64, 96)}
    return [
        [host.tensor(name + of, np.zeros(shape, np.float16), DType.F16, slices=[pe]) for name, shape in shapes.items()]
        for pe in range(N_PES)
    ]


def found(engine: Engine, launches: list[Any]) -> tuple[Any, ...]:
    log = engine.close_log()
    return None if log is None else str(log.digest), counts_of(engine), launches


def repeated(engine: Engine) -> int:
    assert engine.repeats is not None
    return engine.repeats.n_repeated
