"""Chips with round numbers, and a way to run a kernel on one of them and look at its records.

Every run is checked for what holds of all records: waits add up, and each stage is ready when the one before let go;
and for what holds of all traces (`components_trace_laws`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kb_dataexec import MemoryLogWriter
from kb_engine import Engine, Host, LaunchResult
from kb_engine.observe import Callbacks
from kb_messages import OpRecord, PipelinePlan, TraceEvent
from kb_topology import Topology, loads_topology

sys.path.insert(0, str(Path(__file__).parent))  # tests import what they share from modules beside them

from components_trace_laws import check_against_records, check_tables, check_trace
from components_two_cubes import HOST

# Picoseconds a byte: link 10, HBM 20, TCM 5. The array does a 16 x 16 x 16 tile in 16 + 30 cycles of 1000.
ROUND = """\
name: round
wire_ps_per_mm: 0
cube:
  nodes:
    hbm: {kind: hbm, impl: builtin.hbm_fixed, count: 1, memory: {space: hbm, size: 1 MiB}, bw_gbs: 50, latency_ns: 30}
    xbar: {kind: xbar, impl: builtin.xbar, count: 1, overhead_ns: 1}
  pe_layout: {count: 1}
  pe_template:
    nodes:
      pe_cpu: {kind: pe_cpu, impl: builtin.pe_cpu, issue_ns: 3}
      pe_scheduler:
        {kind: pe_scheduler, impl: builtin.pe_scheduler, submission_depth: 8, command_ns: 4,
         input_kib: 64, output_kib: 64}
      pe_dma: {kind: pe_dma, impl: builtin.pe_dma, queue_depth: 4, setup_ns: 2}
      pe_fetch_store:
        {kind: pe_fetch_store, impl: builtin.pe_fetch_store, queue_depth: 4, memory: {space: reg, size: 64 KiB}}
      pe_gemm: {kind: pe_gemm, impl: builtin.pe_gemm, queue_depth: 4, rows: 16, cols: 16, clock_ghz: 1.0}
      pe_math: {kind: pe_math, impl: builtin.pe_math, queue_depth: 4, lanes: 16, clock_ghz: 1}
      pe_tcm: {kind: pe_tcm, impl: builtin.pe_tcm, memory: {space: tcm, size: 1 MiB}, bw_gbs: 200, latency_ns: 1}
    wires:
      - pe_cpu -> pe_scheduler
      - pe_scheduler -> pe_dma
      - pe_scheduler -> pe_fetch_store
      - pe_scheduler -> pe_gemm
      - pe_scheduler -> pe_math
      - pe_dma -> pe_fetch_store
      - pe_dma -> pe_gemm
      - pe_fetch_store -> pe_gemm
      - pe_fetch_store -> pe_math
      - pe_gemm -> pe_math
      - pe_gemm -> pe_fetch_store
      - pe_math -> pe_fetch_store
      - pe_fetch_store -> pe_dma
      - pe_fetch_store -> pe_tcm
  links:
    - {from: "pe[*].pe_dma", to: "xbar[0]", bw_gbs: 100, length_mm: 0}
    - {from: "xbar[0]", to: "hbm[0]", bw_gbs: 100, length_mm: 0}
"""
NOC = (
    (
        "    xbar: {",
        (
            "    noc: {kind: noc, impl: builtin.transit, overhead_ns: 3}\n"
            "    sram: {kind: sram, impl: builtin.sram, memory: {space: sram, size: 64 KiB},\n"
            "      bw_gbs: 80, latency_ns: 10}\n"
            "    xbar: {"
        ),
    ),
    ("bw_gbs: 200, latency_ns: 1}", "bw_gbs: 200, latency_ns: 1, dma_bw_gbs: 100, dma_latency_ns: 4}"),
    (
        '    - {from: "xbar[0]", to: "hbm[0]"',
        (
            '    - {from: "pe[*].pe_dma", to: noc, bw_gbs: 50, length_mm: 0}\n'
            "    - {from: sram, to: noc, bw_gbs: 40, length_mm: 0}\n"
            '    - {from: "pe[*].pe_tcm", to: noc, bw_gbs: 125, length_mm: 0}\n'
            '    - {from: "xbar[0]", to: "hbm[0]"'
        ),
    ),
)
"""SRAM of 12.5 ps a byte and 10 ns, and TCMs whose DMA port is 10 ps a byte and 4 ns, behind a NOC of 3 ns. Its links
are 20 ps a byte to a DMA, 25 to the SRAM and 8 to a TCM."""
MMU = (
    (
        "      pe_tcm: {",
        (
            "      pe_mmu: {kind: pe_mmu, impl: builtin.pe_mmu, page_kib: 4, tlb_entries: 2, hit_ns: 1, levels: 2, "
            "level_ns: 10}\n      pe_tcm: {"
        ),
    ),
    ("      - pe_fetch_store -> pe_tcm\n", "      - pe_fetch_store -> pe_tcm\n      - pe_dma -> pe_mmu\n"),
)
"""An MMU with a TLB of two pages of 4 KiB: 1 ns a lookup, 20 ns more where it walks."""
TWO_PES = ("pe_layout: {count: 1}", "pe_layout: {count: 2}")
TWO_HALVES = (
    ("impl: builtin.hbm_fixed, count: 1", "impl: builtin.hbm_fixed, count: 2"),
    (
        "impl: builtin.xbar, count: 1, overhead_ns: 1}",
        (
            "impl: builtin.xbar, count: 2, overhead_ns: 1}\n"
            "    bridge: {kind: bridge, impl: builtin.transit, overhead_ns: 3}"
        ),
    ),
    (
        (
            '    - {from: "pe[*].pe_dma", to: "xbar[0]", bw_gbs: 100, length_mm: 0}\n'
            '    - {from: "xbar[0]", to: "hbm[0]", bw_gbs: 100, length_mm: 0}\n'
        ),
        (
            '    - {from: "pe[0:2].pe_dma", to: "xbar[0]", bw_gbs: 100, length_mm: 0}\n'
            '    - {from: "pe[2:4].pe_dma", to: "xbar[1]", bw_gbs: 100, length_mm: 0}\n'
            '    - {from: "xbar[0:2]", to: "hbm[0:2]", bw_gbs: 100, length_mm: 0}\n'
            '    - {from: "xbar[*]", to: bridge, bw_gbs: 25, length_mm: 0}\n'
        ),
    ),
    ("pe_layout: {count: 1}", "pe_layout: {count: 4}"),
)
"""Two PEs and a slice at each crossbar half, joined by a bridge of 40 ps a byte and 3 ns."""

Changes = tuple[tuple[str, str], ...]
Times = tuple[int, int, int, int]


@dataclass
class Run:
    """What a run left behind. `records` are keyed by (command, tile, stage index)."""

    engine: Engine
    launch: LaunchResult
    trace: list[TraceEvent] = field(default_factory=list)
    plans: list[PipelinePlan] = field(default_factory=list)
    records: dict[tuple[int, int, int], OpRecord] = field(default_factory=dict)
    digest: str = ""
    log: Any = None

    @property
    def end_ps(self) -> int:
        return self.launch.end_ps

    def times(self, command: int, tile: int) -> list[Times]:
        """t_ready, t_start, t_end and t_out of each stage of a tile."""
        return [
            (record.t_ready_ps, record.t_start_ps, record.t_end_ps, record.t_out_ps)
            for key, record in sorted(self.records.items())
            if key[:2] == (command, tile)
        ]

    def traced(self, kind: type[Any]) -> list[Any]:
        """The trace events of one type."""
        return [event for event in self.trace if type(event) is kind]


def check_records(run: Run) -> None:
    for record in run.records.values():
        assert record.t_ready_ps <= record.t_start_ps <= record.t_end_ps <= record.t_out_ps
        assert min(record.waits_ps) >= 0
        assert sum(record.waits_ps) == record.t_start_ps - record.t_ready_ps
    for first, second in pairwise(sorted(run.records)):
        if first[:2] == second[:2]:
            assert run.records[first].t_out_ps == run.records[second].t_ready_ps
    assert len(run.records) == run.engine.session.n_ops == sum(plan.n_stages for plan in run.plans)


@pytest.fixture(scope="session")
def chip() -> Callable[..., Topology]:
    """The round chip, as `chip.yaml`, with each (old, new) pair of the arguments replaced."""

    def load(*changes: tuple[str, str]) -> Topology:
        text = ROUND
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        return loads_topology(text, "chip.yaml")

    return load


@pytest.fixture(scope="session")
def two_pes() -> Changes:
    """Changes that give the round chip two PEs at its one slice."""
    return (TWO_PES,)


@pytest.fixture(scope="session")
def noc() -> Changes:
    """Changes that give the round chip a NOC with an SRAM and the TCMs behind it."""
    return NOC


@pytest.fixture(scope="session")
def mmu() -> Changes:
    """Changes that give the PEs of the round chip an MMU."""
    return MMU


@pytest.fixture
def chip_host(chip: Callable[..., Topology], request: pytest.FixtureRequest) -> Callable[..., Host]:
    """A host of the round chip with *changes*, whose log goes to *writer*. Kernel lines start at the test's folder."""

    def build(*changes: tuple[str, str], writer: MemoryLogWriter | None = None) -> Host:
        return Host(Engine(chip(*changes), writer), request.path.parent)

    return build


@pytest.fixture
def host(chip: Callable[..., Topology]) -> Callable[..., Host]:
    """A host of two cubes of the round chip with *changes*; *more* are arguments of the engine."""

    def build(*changes: tuple[str, str], **more: Any) -> Host:
        return Host(Engine(chip(*HOST, *changes), **more))

    return build


@pytest.fixture(scope="session")
def two_halves() -> Changes:
    """Changes that give the round chip two crossbar halves of two PEs and a slice each, and a bridge."""
    return TWO_HALVES


@pytest.fixture(scope="session")
def simulate(chip: Callable[..., Topology]) -> Callable[..., Run]:
    """Runs a kernel on the round chip (with *changes*) and checks its records.

    Arguments that are tuples, `(rows, cols, dtype[, blocks])`, become tensors of zeros.
    """

    def run(
        kernel: Callable[..., None],
        *arguments: Any,
        changes: Changes = (),
        pes: tuple[int, ...] = (0,),
        log: bool = True,
    ) -> Run:
        writer = MemoryLogWriter() if log else None
        trace: list[TraceEvent] = []
        plans: list[PipelinePlan] = []
        told = Callbacks(on_trace=trace.append, on_issue=lambda command: plans.append(command.plan))
        engine = Engine(chip(*changes), writer, [told])
        host = Host(engine, Path(kernel.__code__.co_filename).parent)
        passed = [tensor(host, f"t{number}", *each) for number, each in enumerate(arguments)]
        result = Run(engine, host.launch(kernel, *passed, pes=pes), trace, plans)
        if writer is not None:
            engine.close_log()
            written = writer.close()
            result.digest, result.log = written.digest, written
            result.records = {(r.command_seq, r.tile_id, r.stage_index): r for r in written.records()}
            check_records(result)
            check_against_records(trace, result.records)
            check_tables(trace, written)
        slots = next(iter(engine.pes.values())).scheduler.spec.compute_slots
        outstanding = engine.components["sip0.cube0.pe0.pe_dma"].outstanding
        check_trace(trace, shared_slot=slots == "shared", outstanding=outstanding)
        return result

    return run


def tensor(host: Host, name: str, rows: int, cols: int, dtype: str, blocks: tuple[int, int] = (1, 1)) -> Any:
    kinds = {"f16": np.float16, "f32": np.float32, "i8": np.int8, "i16": np.int16, "i32": np.int32}
    return host.tensor(name, np.zeros((rows, cols), kinds[dtype]), dtype, blocks)
