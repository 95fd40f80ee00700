"""Makes the LaunchWhere of a launch from the sums of its paths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from kb_dataexec.analysis.attribution import LaunchWhere, PeWhere, WhereRow
from kb_dataexec.analysis.critical_path.launch_way import HopSegment, LaunchWay
from kb_dataexec.analysis.critical_path.rows import PathRows
from kb_dataexec.analysis.critical_path.segments import EdgedHop
from kb_dataexec.analysis.critical_path.transfer_parts import BUSY_WITH_OTHERS
from kb_dataexec.arrays.dtypes import Array


def hops_of(way: LaunchWay, start_ps: int, end_ps: int) -> list[EdgedHop]:
    """Returns the hops of *way* around a path of programs from *start_ps* to *end_ps*: from the call, and to the
    answer.
    """
    before, first_ps = way.down(start_ps), way.first_start_ps
    hops = [(hop, "answer") for hop in way.up()]
    hops.append((HopSegment(end_ps, way.last_end_ps, "program", "waits for other PEs"), "end"))
    hops += [(hop._replace(start_ps=max(hop.start_ps, first_ps)), "start") for hop in before]
    hops += [(hop._replace(end_ps=min(hop.end_ps, first_ps)), "launch") for hop in before]
    return [(hop, edge) for hop, edge in hops if hop.end_ps > hop.start_ps]


def last_program(rows: PathRows, kernels: Array) -> int:
    """Returns the row of *kernels* that ends last; of several, the first."""
    return int(kernels[np.argmax(rows.kernels["t_end_ps"][kernels])])


def last_programs(rows: PathRows, kernels: Array) -> list[int]:
    """Returns the row of *kernels* that ends last on each PE."""
    pes, ends = (rows.kernels[name][kernels] for name in ("pe", "t_end_ps"))
    order = np.lexsort((-ends, pes))
    _, first = np.unique(pes[order], return_index=True)
    found: list[int] = kernels[order[first]].tolist()
    return found


def pe_views(rows: PathRows, way: LaunchWay, own: Mapping[int, list[WhereRow]], last: Sequence[int]) -> list[PeWhere]:
    """Returns the view of each PE, from its program in *last*. PEs with equal rows in *own* share an entry."""
    strings = rows.log.strings
    found: dict[tuple[WhereRow, ...], list[str]] = {}
    for kernel in last:
        found.setdefault(tuple(own[kernel]), []).append(strings[rows.kernels["pe"][kernel]])
    times = {"start_ps": way.call_ps, "end_ps": way.answer_ps}
    return [PeWhere(pes=pes, rows=list(each), **times) for each, pes in found.items()]


def launch_where(
    rows: PathRows, launch: int, found: list[WhereRow], busy: Counter[str], pes: list[PeWhere], ties: int
) -> LaunchWhere:
    """Returns the LaunchWhere of *launch*: rows *found* of its path, *ties*, *busy* times, and views of *pes*."""
    kernels = np.flatnonzero(rows.kernels["launch"] == launch)
    way, on_path = LaunchWay(rows, launch, kernels), Counter[str]()
    for row in found:
        if row.what != BUSY_WITH_OTHERS:
            on_path[row.block] += row.ps
    return LaunchWhere(
        launch=launch,
        start_ps=way.call_ps,
        kernels_start_ps=way.first_start_ps,
        kernels_end_ps=way.last_end_ps,
        end_ps=way.answer_ps,
        rows=found,
        pes=pes,
        busy=dict(sorted(busy.items())),
        hidden={block: ps - on_path[block] for block, ps in sorted(busy.items())},
        ties=ties + int((rows.kernels["t_end_ps"][kernels] == way.last_end_ps).sum() > 1),
    )
