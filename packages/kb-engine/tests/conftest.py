"""A chip of toy blocks (`engine_toys`, registered by hand-made entry points), and a way to run kernels on it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from kb_dataexec import LogWriter, MemoryLogWriter
from kb_engine.engine.engine import Engine
from kb_engine.engine.registry import GROUP, Registry
from kb_engine.host import Host
from kb_topology import Topology, loads_topology

sys.path.insert(0, str(Path(__file__).parent))  # entry points name a module that can be imported

TOY = """\
name: toy
wire_ps_per_mm: 0
cube:
  nodes:
    hbm: {kind: hbm, impl: toy.hbm, count: 1, memory: {space: hbm, size: 1 MiB}, ps_per_byte: 20, latency_ps: 30000}
    xbar: {kind: xbar, impl: toy.xbar, count: 1, overhead_ps: 1000}
  pe_layout: {count: 1}
  pe_template:
    nodes:
      pe_cpu: {kind: pe_cpu, impl: toy.cpu, issue_ps: 3000}
      pe_scheduler: {kind: pe_scheduler, impl: toy.scheduler}
      pe_dma: {kind: pe_dma, impl: toy.dma}
      pe_fetch_store: {kind: pe_fetch_store, impl: toy.mover, memory: {space: reg, size: 64 KiB}}
      pe_gemm: {kind: pe_gemm, impl: toy.gemm}
      pe_tcm: {kind: pe_tcm, impl: toy.tcm, memory: {space: tcm, size: 256 KiB}}
    wires:
      - pe_cpu -> pe_scheduler
      - pe_scheduler -> pe_dma
      - pe_dma -> pe_fetch_store
      - pe_fetch_store -> pe_gemm
      - pe_gemm -> pe_fetch_store
      - pe_fetch_store -> pe_dma
      - pe_fetch_store -> pe_tcm
  links:
    - {from: "pe[*].pe_dma", to: "xbar[0]", bw_gbs: 100, length_mm: 0}
    - {from: "xbar[0]", to: "hbm[*]", bw_gbs: 100, length_mm: 0}
"""


def points() -> list[EntryPoint]:
    import engine_toys

    return [EntryPoint(f"toy.{name}", f"engine_toys:{block}", GROUP) for name, block in engine_toys.BLOCKS.items()]


@pytest.fixture(scope="session")
def toy_points() -> list[EntryPoint]:
    """Entry points of all toy blocks."""
    return points()


@pytest.fixture(scope="session")
def toy_chip() -> Callable[..., Topology]:
    """The toy chip, as `toy.yaml`, with each (old, new) pair of the arguments replaced."""

    def load(*changes: tuple[str, str]) -> Topology:
        text = TOY
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        return loads_topology(text, "toy.yaml")

    return load


@pytest.fixture(scope="session")
def toy_engine(toy_chip: Callable[..., Topology]) -> Callable[..., Engine]:
    """An engine for the toy chip with *changes*."""

    def build(*changes: tuple[str, str], writer: LogWriter | None = None, **more: Any) -> Engine:
        return Engine(toy_chip(*changes), writer, registry=Registry(points()), **more)

    return build


@pytest.fixture
def toy_host(toy_engine: Callable[..., Engine], request: pytest.FixtureRequest) -> Callable[..., Host]:
    """A host of the toy chip with *changes*; kernel lines are relative to the folder of the test."""

    def build(*changes: tuple[str, str], **more: Any) -> Host:
        return Host(toy_engine(*changes, **more), request.path.parent)

    return build


@pytest.fixture
def writer() -> MemoryLogWriter:
    return MemoryLogWriter()
