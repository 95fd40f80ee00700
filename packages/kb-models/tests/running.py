"""Runs ops of a builder on a chip and compares each with its reference, as `kb run` does with a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from kb_dataexec import Executor, MemoryLogWriter, MemoryStore
from kb_engine import Engine, Host
from kb_messages import DType
from kb_models.layout import Mesh, Value, parse_map
from kb_models.layout.value import Array
from kb_models.models.builder import Builder
from kb_models.ops import Op
from kb_models.workload import OpsWorkload
from kb_topology import Topology, YamlSource, load_topology, loads_topology, parse_path, with_values

TOPOLOGIES = Path(__file__).parents[3] / "topologies"


def chip(name: str, changes: Mapping[str, str] | None = None) -> Topology:
    """The bundled topology *name*, with other values: `{"$.sips": "2"}`."""
    path = TOPOLOGIES / f"{name}.yaml"
    if not changes:
        return load_topology(path)
    source = YamlSource(str(path), path.read_text(encoding="utf-8"))
    changed = with_values(source, {parse_path(key): value for key, value in changes.items()})
    return loads_topology(changed.text, str(path))


def two_sips() -> Topology:
    """`four_sip` with two SIPs of two cubes: 32 PEs."""
    path = TOPOLOGIES / "four_sip.yaml"
    text = path.read_text(encoding="utf-8")
    for before, after in {
        "sips: 4": "sips: 2",
        "cubes_per_sip: 16": "cubes_per_sip: 2",
        "rows: 4, cols: 4": "rows: 1, cols: 2",
        "cube[0:4].ucie": "cube[0:2].ucie",
        "sip[0:3].io": "sip[0:1].io",
        "sip[1:4].io": "sip[1:2].io",
        "sip[3].io": "sip[1].io",
    }.items():
        assert before in text, before
        text = text.replace(before, after)
    return loads_topology(text, str(path))


class Built(OpsWorkload):
    """The ops that *build* adds to a builder."""

    name = "built"
    Params = Struct

    def __init__(self, layout: str, build: Callable[[Builder], object], dtype: str) -> None:
        super().__init__()
        self._layout, self._build, self._dtype = layout, build, DType(dtype)

    def made(self, p: Any, topology: Topology) -> tuple[Mesh, list[Op]]:
        mesh = Mesh.of(topology, parse_map(self._layout))
        builder = Builder(mesh, self._dtype)
        self._build(builder)
        return mesh, builder.ops


class Ran:
    """Ops that ran on a chip: the time of each, and what is in the memories after them."""

    def __init__(self, topology: Topology, workload: OpsWorkload, seed: int, params: Any = None) -> None:
        engine = Engine(topology, MemoryLogWriter())
        host = Host(engine)
        workload.prepare(params, topology, seed)
        workload.run(host, params)
        self.workload = workload
        self.choices = dict(host.choices)
        self.latency_ps = {
            op.name: sum(each.end_ps - each.start_ps for each in host.launches[op.first_launch : op.end_launch])
            for op in workload.ops
        }
        log = engine.close_log()
        self.memory: MemoryStore = Executor(log, engine.initial_memory).run()

    @property
    def failures(self) -> list[str]:
        """A sentence for each result that is outside of its tolerance."""
        found = []
        for output in self.workload.outputs():
            actual = output.read(self.memory)
            expected, allowed = output.expected(self.memory)
            assert expected.shape == actual.shape == output.shape, output.name
            errors = np.abs(actual.astype(np.float64) - expected)
            if not (errors <= allowed).all():
                found.append(f"{output.name}: error {errors.max()}, allowed {allowed.flat[errors.argmax()]}")
        return found

    def read(self, value: Value) -> Array:
        """The content of *value* after the run."""
        assert self.workload._tensors is not None
        return self.workload._tensors.read(self.memory, value)


def run_ops(
    topology: Topology | str, layout: str, build: Callable[[Builder], object], dtype: str = "f16", seed: int = 0
) -> Ran:
    """Runs the ops that *build* adds to a builder for *layout* on *topology*, a chip or the name of a bundled one."""
    found = chip(topology) if isinstance(topology, str) else topology
    return Ran(found, Built(layout, build, dtype), seed)


def check_ops(
    topology: Topology | str, layout: str, build: Callable[[Builder], object], dtype: str = "f16", seed: int = 0
) -> Ran:
    """As `run_ops`, and every result of every op is within its tolerance."""
    found = run_ops(topology, layout, build, dtype, seed)
    assert not found.failures, found.failures
    return found
