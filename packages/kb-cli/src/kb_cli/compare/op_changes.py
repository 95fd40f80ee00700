"""The ops of two runs of workloads, matched by name, with the part of the chip whose time changed most."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, UnsetType

from kb_cli.compare.blocks import BlockChange, block_changes
from kb_cli.compare.side import Side
from kb_cli.run.base.result import RunResult
from kb_cli.run.base.workload_result import OpResult
from kb_cli.run.records.where_time import launches_of
from kb_cli.terminal.units import PS_PER_NS
from kb_dataexec.analysis import Where


class OpChange(Struct, frozen=True, kw_only=True):
    """An op of either run. Pairs are (before, after); a run without the op has None.

    `latency_ps` has the kernels of the op once, `gap_ps` the times before its launches, `launches` their number, and
    `repeats` how often the whole model has the op. `launches_ps` has the latency of each launch. `top` is the block
    whose time on the path of the op changed most, None where nothing changed, or one of the runs does not know.
    """

    name: str
    kind: str
    latency_ps: tuple[int | None, int | None]
    gap_ps: tuple[int | None, int | None]
    launches: tuple[int | None, int | None]
    repeats: tuple[int | None, int | None]
    launches_ps: tuple[list[int], list[int]]
    top: BlockChange | None

    @property
    def is_missing(self) -> bool:
        """Whether one of the runs does not have the op."""
        return None in self.latency_ps

    @property
    def change_ps(self) -> int:
        """The change of the time of its kernels in the run. A missing op takes no time."""
        before, after = self.latency_ps
        return (after or 0) - (before or 0)

    @property
    def model_change_ps(self) -> int:
        """The change of the time of its kernels in the model."""
        (before, after), (times, times_after) = self.latency_ps, self.repeats
        return (after or 0) * (times_after or 0) - (before or 0) * (times or 0)


class ModelChange(Struct, frozen=True, kw_only=True):
    """The times of the whole models, gaps included, and their items a second, before and after."""

    total_ps: tuple[int, int]
    items_per_s: tuple[float | None, float | None]
    unit: tuple[str, str]


def op_changes(one: Side, other: Side) -> list[OpChange]:
    """Returns the ops of both runs, in the order of the second, and then the ones that the first run alone has.

    Returns none unless both are workloads.
    """
    ops = [_by_name(each.run.results) for each in (one, other)]
    if not all(ops):
        return []
    before, after = ops
    every = {**after, **{name: op for name, op in before.items() if name not in after}}
    return [_change(op, before.get(name), after.get(name), one, other) for name, op in every.items()]


def model_change(one: Side, other: Side) -> ModelChange | None:
    """Returns the change of the time of the model; None unless both runs tell it."""
    before, after = one.run.results.model, other.run.results.model
    if isinstance(before, UnsetType) or isinstance(after, UnsetType):
        return None
    return ModelChange(
        total_ps=(before.total_ps, after.total_ps),
        items_per_s=(before.items_per_s, after.items_per_s),
        unit=(before.unit, after.unit),
    )


def missing_ops(changes: Sequence[OpChange]) -> Iterator[str]:
    """Yields a sentence on the ops that one of the runs does not have, for each run."""
    for at, run in ((0, "before"), (1, "after")):
        names = [each.name for each in changes if each.latency_ps[at] is None]
        if names:
            others = f" and {len(names) - 4} more" if len(names) > 4 else ""
            yield f"The run {run} has no op {', '.join(names[:4])}{others}."


def _by_name(result: RunResult) -> dict[str, OpResult]:
    ops = result.workload_ops
    return {} if isinstance(ops, UnsetType) else {op.name: op for op in ops}


def _change(op: OpResult, before: OpResult | None, after: OpResult | None, one: Side, other: Side) -> OpChange:
    first, second = _where(before, one), _where(after, other)
    blocks = [] if first is None or second is None else block_changes(first, second)
    return OpChange(
        name=op.name,
        kind=op.kind,
        latency_ps=_both(before, after, lambda each: each.latency_ps),
        gap_ps=_both(before, after, lambda each: each.gap_ps),
        launches=_both(before, after, lambda each: each.n_launches),
        repeats=_both(before, after, lambda each: each.repeats),
        launches_ps=(_launches_ps(before, one), _launches_ps(after, other)),
        top=next((each for each in blocks if each.path_change_ps), None),
    )


def _both(
    before: OpResult | None, after: OpResult | None, figure: Callable[[OpResult], int]
) -> tuple[int | None, int | None]:
    return None if before is None else figure(before), None if after is None else figure(after)


def _where(op: OpResult | None, side: Side) -> Where | None:
    if op is None or side.where is None or len(side.where.launches) < op.end_launch:
        return None
    return launches_of(side.where, op.first_launch, op.end_launch)


def _launches_ps(op: OpResult | None, side: Side) -> list[int]:
    launches = [] if op is None else side.run.results.launches[op.first_launch : op.end_launch]
    return [round(each.end_ns * PS_PER_NS) - round(each.start_ns * PS_PER_NS) for each in launches]
