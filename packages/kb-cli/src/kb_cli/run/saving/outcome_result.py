"""Makes the result of a run, the record that `--json` prints, from the outcome of its simulation."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET
from msgspec.structs import replace

from kb_cli.benchmark.author_calls import step_of
from kb_cli.benchmark.setup import Setup
from kb_cli.benchmark.values.params import shown_params
from kb_cli.run.base.result import Busiest, HostTime, Kept, LaunchTimes, RunResult
from kb_cli.run.observe.bounded_by import bounded_by, workload_bounded_by
from kb_cli.run.observe.roofs import roofline
from kb_cli.run.observe.stage_tally import QUEUE_FULL, SERVICE
from kb_cli.run.observe.timed_host import HostTimes
from kb_cli.run.observe.validated_runs import fidelity_of_run
from kb_cli.run.saving.op_times import model_times, op_results
from kb_cli.run.simulation.simulate import RunOutcome
from kb_cli.terminal.units import PS_PER_NS
from kb_dataexec.analysis import path_shares
from kb_engine import LaunchResult, WorkloadOp
from kb_messages import MemorySpace


def make_result(
    setup: Setup, outcome: RunOutcome, kept: Kept, run_dir: str | None, shape: dict[str, object] | None
) -> RunResult:
    """Returns the result of running *setup*: *outcome*, whose data lies in the folder *run_dir*, None for none."""
    metrics, verdict = outcome.metrics, outcome.verdict
    seconds = metrics.span_ps / 1e12
    startup_ps = sum(each.startup_ps for each in outcome.launches)
    shares = path_shares(outcome.where) if outcome.where is not None and outcome.where.launches else None
    result = RunResult(
        benchmark=setup.loaded.name,
        topology=setup.topology.name,
        shape=UNSET if shape is None else shape,
        params=shown_params(setup.params),
        seed=setup.seed,
        latency_ns=metrics.span_ps / PS_PER_NS,
        latency_ps=metrics.span_ps,
        whole_ns=_whole_ps(outcome.launches) / PS_PER_NS,
        startup_ns=startup_ps / PS_PER_NS or UNSET,
        fidelity=fidelity_of_run(setup, outcome.choices, metrics.span_ps, startup_ps),
        frame=outcome.frame,
        verified=None if verdict is None else verdict.ok,
        max_abs_err=None if verdict is None else verdict.max_abs_err,
        flops=outcome.flops,
        gemm_flops=metrics.gemm_flops,
        achieved_flops=outcome.flops / seconds if seconds else 0.0,
        peak_flops=metrics.peak_flops,
        roofline=roofline(metrics.roofs, metrics.span_ps),
        roofs=metrics.roofs,
        unwritten=UNSET if metrics.unwritten is None else metrics.unwritten,
        utilization={kind: use.mean for kind, use in metrics.uses.items()},
        busiest={
            kind: Busiest(node=use.node, utilization=use.busiest, count=use.count) for kind, use in metrics.uses.items()
        },
        bytes=metrics.traffic,
        bandwidth_gbs=metrics.bandwidth_gbs,
        counters=outcome.counters,
        value_waits=list(outcome.value_waits) or UNSET,
        chosen_tiles=metrics.chosen_tiles or UNSET,
        chose=dict(outcome.choices) or UNSET,
        where=UNSET if shares is None else shares,
        bounded_by=bounded_by(shares, metrics.uses),
        remedies=UNSET if outcome.remedies is None else list(outcome.remedies),
        tile_stages=metrics.tile_stages,
        ops=outcome.log.n_ops if outcome.log is not None else 0,
        log_digest=outcome.log.digest if outcome.log is not None else None,
        waits_ps=waits_ps(outcome.stage_times),
        stages_ps=outcome.stage_times,
        launches=[launch_times(each) for each in outcome.launches],
        host=host_time(outcome.host),
        outputs=[] if verdict is None else verdict.outputs,
        refusal=None if verdict is None else verdict.refusal,
        sanitizer=UNSET if outcome.sanitized is None else outcome.sanitized,
        races=UNSET if outcome.races is None else outcome.races,
        compared=UNSET if outcome.compared is None else outcome.compared,
        simulated=UNSET if outcome.simulated is None else outcome.simulated,
        keep=kept,
        wall_s=outcome.wall._asdict(),
        run_dir=UNSET if run_dir is None else run_dir,
    )
    return result if setup.workload is None else _with_ops(result, setup, setup.workload.ops, outcome)


def waits_ps(stage_times: dict[str, dict[str, int]] | None) -> dict[str, int] | None:
    """Returns the picoseconds of waiting by reason over all stages. All waits for room in a queue are one reason."""
    if stage_times is None:
        return None
    totals: dict[str, int] = {}
    for times in stage_times.values():
        for reason, waited in times.items():
            if reason != SERVICE:
                totals[reason] = totals.get(reason, 0) + waited
    totals.setdefault(QUEUE_FULL, 0)
    return totals


def _with_ops(result: RunResult, setup: Setup, ops: Sequence[WorkloadOp], outcome: RunOutcome) -> RunResult:
    """Returns *result* with the *ops* of its workload, and the time of the whole model if the workload tells a step."""
    hbm_gbs = result.bandwidth_gbs.get(MemorySpace.HBM)
    found = op_results(ops, outcome.launches, outcome.where, result.peak_flops, hbm_gbs)
    step = step_of(setup)
    model = UNSET if step is None or not found else model_times(found, outcome.launches, step, hbm_gbs)
    sentence = workload_bounded_by(found, result.bounded_by)
    return replace(result, workload_ops=found, model=model, bounded_by=sentence)


def _whole_ps(launches: Sequence[LaunchResult]) -> int:
    """The picoseconds from the call of the first of *launches* to the last answer."""
    return max(each.response_ps for each in launches) - min(each.call_ps for each in launches)


def launch_times(each: LaunchResult) -> LaunchTimes:
    """Returns the times of *each* in nanoseconds."""
    return LaunchTimes(
        start_ns=each.start_ps / PS_PER_NS,
        end_ns=each.end_ps / PS_PER_NS,
        pes=len(each.pe_end_ps),
        call_ns=each.call_ps / PS_PER_NS,
        response_ns=each.response_ps / PS_PER_NS,
        late_pes=len(each.late_ps),
        late_ns=max(each.late_ps.values(), default=0) / PS_PER_NS,
        grid=each.grid or UNSET,
        stream=UNSET if each.stream is None else each.stream,
    )


def host_time(times: HostTimes | None) -> HostTime | None:
    """Returns *times* in nanoseconds; None for None."""
    if times is None:
        return None
    return HostTime(
        write_ns=times.write_ps / PS_PER_NS,
        read_ns=times.read_ps / PS_PER_NS,
        map_ns=times.map_ps / PS_PER_NS,
        launch_ns=times.launch_ps / PS_PER_NS,
        response_ns=times.response_ps / PS_PER_NS,
    )
