"""The first lever of each op of a workload: the change of the chip that gains most for the op alone."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kb_cli.run.base.remedy import LEAST_GAIN
from kb_cli.run.base.workload_result import OpLever, OpResult
from kb_cli.whatif.lever_chances import TriedLever


def first_levers(tried: Sequence[TriedLever]) -> set[int]:
    """Returns the numbers of the levers of *tried* whose bound is the best one of an op; of equals, the first.

    Loose bounds do not count.
    """
    bounds = [UNSET if each.is_loose else each.op_bounds_ps for each in tried]
    known = [(number, each) for number, each in enumerate(bounds) if not isinstance(each, UnsetType)]
    if not known:
        return set()
    return {min(known, key=lambda each: each[1][op])[0] for op in range(len(known[0][1]))}


def with_op_levers(ops: Sequence[OpResult], tried: Sequence[TriedLever]) -> list[OpResult]:
    """Returns *ops*, each with the lever of *tried* that gains most for it: a measured one, or one with its bound where
    none was measured that gains anything.
    """
    return [replace(op, lever=_first(op, number, tried)) for number, op in enumerate(ops)]


def _first(op: OpResult, number: int, tried: Sequence[TriedLever]) -> OpLever | UnsetType:
    if not op.latency_ps:
        return UNSET
    measured = [
        (1 - each.ops_ps[number] / op.latency_ps, each) for each in tried if not isinstance(each.ops_ps, UnsetType)
    ]
    if found := _best(measured):
        return OpLever(change=found[1].label, gain=found[0], basis="measured")
    bounds = [
        (1 - each.op_bounds_ps[number] / op.latency_ps, each)
        for each in tried
        if not (isinstance(each.op_bounds_ps, UnsetType) or each.is_loose) and isinstance(each.ops_ps, UnsetType)
    ]
    found = _best(bounds)
    return UNSET if found is None else OpLever(change=found[1].label, gain=found[0], basis="at best")


def _best(gains: Sequence[tuple[float, TriedLever]]) -> tuple[float, TriedLever] | None:
    """Returns the most gain with its lever; a lever of fewer values where that gains as much but for `LEAST_GAIN`."""
    worth = [each for each in gains if each[0] >= LEAST_GAIN]
    if not worth:
        return None
    most = max(gain for gain, _ in worth)
    near = [each for each in worth if each[0] > most - LEAST_GAIN]
    return min(near, key=lambda each: (len(each[1].set), -each[0]))
