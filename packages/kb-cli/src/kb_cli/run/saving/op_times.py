"""The ops of a workload with their times, and the time of the whole model."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from kb_cli.run.base.workload_result import ModelPart, ModelTimes, OpBound, OpResult, model_kernels_ps
from kb_cli.run.observe.kernel_time import kernel_ps
from kb_cli.run.records.where_time import kernel_rows, launches_of
from kb_cli.terminal.units import PS_PER_NS
from kb_dataexec.analysis import Where
from kb_engine import LaunchResult, WorkloadOp, WorkloadStep

_PS_PER_S = 10**12


def op_results(
    ops: Sequence[WorkloadOp],
    launches: Sequence[LaunchResult],
    where: Where | None,
    peak_flops: float | None,
    hbm_gbs: float | None,
) -> list[OpResult]:
    """Returns the *ops* of a workload with the times of their *launches*.

    *where* is None without a log. *peak_flops* are the operations a second of the chip, and *hbm_gbs* is the bandwidth
    of all of its HBM; None where it states none.
    """
    gaps_ps = _gaps_ps(launches)
    found = []
    for op in ops:
        numbers = slice(op.first_launch, op.end_launch)
        latency_ps = kernel_ps(launches[numbers])
        found.append(
            OpResult(
                name=op.name,
                part=op.part,
                kind=op.kind,
                repeats=op.repeats,
                first_launch=op.first_launch,
                end_launch=op.end_launch,
                latency_ps=latency_ps,
                gap_ps=sum(gaps_ps[numbers]),
                flops=op.flops,
                nbytes=op.nbytes,
                floor_nbytes=op.floor_nbytes,
                compute_share=_share(op.flops, latency_ps, peak_flops),
                memory_share=_share(op.nbytes, latency_ps, hbm_gbs and hbm_gbs * 1e9),
                bound=None if where is None else _bound(launches_of(where, op.first_launch, op.end_launch)),
            )
        )
    return found


def model_times(
    ops: Sequence[OpResult], launches: Sequence[LaunchResult], step: WorkloadStep, hbm_gbs: float | None
) -> ModelTimes:
    """Returns the time of the model whose *ops* ran in *launches*, for the work of *step*.

    *hbm_gbs* is the bandwidth of all HBM of the chip, None where it states none.
    """
    answer_ps = launches[-1].response_ps - launches[-1].end_ps
    kernels_ps = model_kernels_ps(ops)
    gaps_ps = sum(op.repeats * op.gap_ps for op in ops) + (ops[0].repeats * answer_ps if ops else 0)
    total_ps = kernels_ps + gaps_ps
    floor_nbytes = sum(op.repeats * op.floor_nbytes for op in ops)
    floor_ps = ceil(floor_nbytes / hbm_gbs * PS_PER_NS) if hbm_gbs and floor_nbytes else None
    return ModelTimes(
        phase=step.phase,
        items=step.items,
        unit=step.unit,
        kernels_ps=kernels_ps,
        gaps_ps=gaps_ps,
        total_ps=total_ps,
        items_per_s=_rate(step.items, total_ps),
        floor_nbytes=floor_nbytes,
        floor_ps=floor_ps,
        floor_items_per_s=None if floor_ps is None else _rate(step.items, floor_ps),
        parts=[_part(name, [op for op in ops if op.part == name]) for name in dict.fromkeys(op.part for op in ops)],
    )


def _gaps_ps(launches: Sequence[LaunchResult]) -> list[int]:
    """The picoseconds in front of each of *launches*: after the end of the one before, or after the host's call."""
    before = [each.end_ps for each in launches]
    return [each.start_ps - (before[at - 1] if at else each.call_ps) for at, each in enumerate(launches)]


def _share(work: int, ps: int, per_s: float | None) -> float | None:
    return work / per_s / ps * _PS_PER_S if per_s and ps else None


def _rate(items: int, ps: int) -> float | None:
    return items / ps * _PS_PER_S if ps else None


def _bound(where: Where) -> OpBound | None:
    sums: dict[tuple[str, str], int] = {}
    for row in kernel_rows(where):
        key = row.block, row.what
        sums[key] = sums.get(key, 0) + row.ps
    total_ps = sum(sums.values())
    if not total_ps:
        return None
    (block, what), ps = max(sums.items(), key=lambda each: (each[1], each[0]))
    return OpBound(block=block, what=what, share=ps / total_ps)


def _part(name: str, ops: Sequence[OpResult]) -> ModelPart:
    repeats = {op.repeats for op in ops}
    return ModelPart(
        name=name,
        ops=len(ops),
        repeats=repeats.pop() if len(repeats) == 1 else None,
        kernels_ps=sum(op.latency_ps for op in ops),
        gaps_ps=sum(op.gap_ps for op in ops),
        model_ps=sum(op.repeats * (op.latency_ps + op.gap_ps) for op in ops),
    )
