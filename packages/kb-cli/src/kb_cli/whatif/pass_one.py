"""Pass 1 of a setup, without log and data: the latency of a run on another chip, and how busy the blocks were."""

from __future__ import annotations

import gc
from typing import Any, NamedTuple

import numpy.typing as npt

from kb_cli.benchmark.author_calls import Arrays, launch, prepare
from kb_cli.benchmark.setup import Setup
from kb_cli.run.base.progress import RunProgress
from kb_cli.run.observe.kernel_time import kernel_ps
from kb_cli.run.observe.metrics import Use, uses_of
from kb_cli.run.observe.timed_host import TimedHost
from kb_cli.run.observe.usage import Usage
from kb_cli.run.records.captures import CaptureCollector
from kb_cli.whatif.budget import Budget, Deadline
from kb_dataexec import MemoryLogWriter
from kb_engine import Engine
from kb_engine.observe import Observer
from kb_messages import KernelError

_DMA = "pe_dma"
_MANY_NODES = 1000
_MANY_NBYTES = 1 << 24
"""A simulation with fewer nodes, and fewer bytes of inputs, leaves little memory behind. Source: assumed."""


class PassOne(NamedTuple):
    """The times of a run: `latency_ps` from the first kernel's start to the last one's end, added up over launches.

    `uses` says how busy the blocks of each kind were. `ops_ps` has the latency of each op of a workload once, and
    `model_ps` that of all its kernels, each op as often as the model has it; `ops_ps` is None for any other benchmark,
    whose `model_ps` is `latency_ps`.
    """

    latency_ps: int
    uses: dict[str, Use]
    ops_ps: list[int] | None
    model_ps: int

    @property
    def busiest(self) -> str:
        """The busiest kind of block. DMAs are left out, because they are busy while they wait for memories."""
        kinds = (kind for kind in self.uses if not kind.startswith(_DMA))
        return max(kinds, key=lambda kind: self.uses[kind].busiest)


def pass_one(setup: Setup, progress: RunProgress, inputs: Arrays, budget: Budget | None = None) -> PassOne:
    """Simulates *setup* with *inputs*, without data. Raises OutOfTime when *budget* is over, and KbErrors as a run
    does.

    A kernel that asks for values while it runs (`tl.materialize`) needs the log, so it gets one in memory. Its captures
    and prints are dropped.
    """
    try:
        return _simulated(setup, progress, inputs, None, budget)
    except KernelError:  # without a log there are no values; any other error comes again
        return _simulated(setup, progress, inputs, MemoryLogWriter(), budget)


def _simulated(
    setup: Setup, progress: RunProgress, inputs: Arrays, writer: MemoryLogWriter | None, budget: Budget | None
) -> PassOne:
    usage = Usage()
    is_large = len(setup.topology.graph.nodes) >= _MANY_NODES or sum(map(_nbytes, inputs.values())) >= _MANY_NBYTES
    watching: list[Observer] = [usage, CaptureCollector(), *([Deadline(budget)] if budget is not None else [])]
    try:
        engine = Engine(setup.topology, writer, watching, templates=setup.templates)
        prepare(setup)
        host = TimedHost(engine, setup.loaded.root, progress, needs_data=writer is not None)
        launch(setup, host, inputs)
        latency_ps = kernel_ps(host.launches)
        uses = uses_of(usage.busy_ps, latency_ps)
        if setup.workload is None:
            return PassOne(latency_ps, uses, None, latency_ps)
        ops = setup.workload.ops
        ops_ps = [kernel_ps(host.launches[op.first_launch : op.end_launch]) for op in ops]
        model_ps = sum(op.repeats * ps for op, ps in zip(ops, ops_ps, strict=True))
        return PassOne(latency_ps, uses, ops_ps, model_ps)
    finally:
        if is_large:
            gc.collect()  # an engine is full of reference cycles, which keep the memories of its chip alive


def _nbytes(array: npt.NDArray[Any]) -> int:
    return array.nbytes
