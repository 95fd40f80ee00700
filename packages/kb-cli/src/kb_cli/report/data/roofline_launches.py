"""Points of the roofline for the launches of a run, or for the ops of a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kb_cli.report.data.roofline_points import RooflinePoint, SharedBytes, bytes_of, group_work
from kb_cli.run.base.workload_result import OpResult
from kb_dataexec import OpLog

_Ints: TypeAlias = npt.NDArray[np.int64]


def launch_points(log: OpLog, ops: Sequence[OpResult], shared: Mapping[str, SharedBytes]) -> list[RooflinePoint]:
    """Returns a point for each launch of *log* with operations, or for each of *ops*, whose launches count together.

    None where there is one launch alone, whose point is that of the run. For *shared* see `line_points`.
    """
    if "kernels" in log.missing or not log.n_ops:
        return []
    rows = log.tables["kernels"]
    launches, number = np.unique(rows["launch"], return_inverse=True)
    if len(launches) < 2:
        return []
    names, group = _groups(launches, ops)
    work = group_work(log, group[_launch_of(log, number)], len(names) + 1)  # the last group: records of no launch
    begin = np.full(len(launches), np.iinfo(np.int64).max)
    end = np.zeros(len(launches), np.int64)
    np.minimum.at(begin, number, rows["t_start_ps"])
    np.maximum.at(end, number, rows["t_end_ps"])
    spent = np.bincount(group[:-1], end - begin, len(names))
    return [
        RooflinePoint(
            line="",
            name=name,
            flops=round(work.flops[at]),
            ps=round(spent[at]),
            nbytes=dict(bytes_of(at, work.moved, shared)),
        )
        for at, name in enumerate(names)
        if work.flops[at]
    ]


def _groups(launches: _Ints, ops: Sequence[OpResult]) -> tuple[list[str], _Ints]:
    """Returns the names of the groups, and the number of the group of each launch and, last, of no launch."""
    if not ops:
        return [f"launch {launch}" for launch in launches.tolist()], np.arange(len(launches) + 1)
    group = np.full(len(launches) + 1, len(ops))
    for at, op in enumerate(ops):
        group[:-1][(launches >= op.first_launch) & (launches < op.end_launch)] = at
    return [op.name for op in ops], group


def _launch_of(log: OpLog, number: _Ints) -> _Ints:
    """Returns the launch of each op, as a number of *number*, which has those of the rows of kernels; -1 for none.

    An op belongs to the kernel of its PE that started last before the op.
    """
    rows = log.tables["kernels"]
    pes = {log.strings[pe]: at for at, pe in enumerate(np.unique(rows["pe"]).tolist())}
    rank = np.array([pes.get(text.rpartition(".")[0], -1) for text in log.strings], np.int64)
    of_pe = np.array([pes.get(text, -1) for text in log.strings], np.int64)
    step = int(max(rows["t_end_ps"].max(), log.ops["t_out_ps"].max())) + 2
    starts = of_pe[rows["pe"]] * step + rows["t_start_ps"]
    order = np.argsort(starts, kind="stable")
    mine = rank[log.ops["component"]]
    at = np.searchsorted(starts[order], mine * step + log.ops["t_start_ps"], side="right") - 1
    found = order[np.maximum(at, 0)]
    is_known = (mine >= 0) & (at >= 0) & (of_pe[rows["pe"][found]] == mine)
    launch: _Ints = np.where(is_known, number[found], -1)
    return launch
