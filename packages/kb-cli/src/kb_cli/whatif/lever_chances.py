"""The levers of a finished run before they are measured: better values, and the bounds that follow from the path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from msgspec import UNSET, Struct, UnsetType

from kb_cli.compare.blocks import LINKS_NAME
from kb_cli.run.base.remedy import LEAST_GAIN
from kb_cli.terminal.units import duration, listed, percent, signed_percent
from kb_cli.whatif.bound import BusyPart, bound_ps, moved_ps
from kb_cli.whatif.chip_levers import LINKS, ChipLever, chip_levers, moved
from kb_cli.whatif.lever_sets import BUSY, lever_sets
from kb_cli.whatif.timed_run import TimedRun
from kb_dataexec.analysis import Where
from kb_messages import TopologyError
from kb_topology import SLOW, Topology, format_path, loads_topology, parse_path, with_values

LEAST_SHARE = 0.02
"""The smallest share of the path for which a lever is tried."""


_BETWEEN_PES = ("message", "credit", "signal", "barrier")
"""The edges by which programs of a launch hold each other up. In other runs, more places are no levers: a DMA with more
transfers under way is another DMA, and what it gains follows from no path."""

_ALIKE = 0.1
"""Blocks of one kind whose shares of the time differ by less are told as one."""


class TriedLever(Struct, frozen=True, kw_only=True):
    """A lever, or several levers that are pulled together, and the gain. `set` has the new values by place, as `kb
    whatif --set` takes them.

    `block` and `field` are those of the first lever. `path_ps` are the picoseconds of the critical path that scale with
    the levers, `share` (0 to 1) of the latency. `bound_ps` is the latency at best. `latency_ps` is the measured
    latency, and `gain` (0 to 1) the saved share; both are None when the time for measuring was over before. `then` is
    the busiest block of the faster run, and `then_busy` the share of the time (0 to 1) in which it works. `part` is a
    clause on the busiest block or link of the first lever in the finished run, "" where nothing was counted. `label` is
    the change in a few words, for tables.

    Of a workload, all of these times count the kernels of the whole model. `op_bounds_ps` has the bound of each
    op once, by its path and the bytes of its weights and caches, and `ops_ps` its measured latency, as soon as there is
    one. Both are missing for any other benchmark. With `is_loose`, bounds take it that nobody waits for places at all.
    """

    name: str
    block: str
    field: str
    set: dict[str, str]
    path_ps: int
    share: float
    bound_ps: int
    part: str = ""
    latency_ps: int | None = None
    gain: float | None = None
    then: str | None = None
    then_busy: float | None = None
    label: str = ""
    is_loose: bool = False
    op_bounds_ps: list[int] | UnsetType = UNSET
    ops_ps: list[int] | UnsetType = UNSET

    @property
    def sentence(self) -> str:
        """The lever in one sentence: `Twice the bandwidth of HBM: 327.506 us (-15.6 %); then GEMM bounds it.`"""
        if self.latency_ps is None or self.gain is None or self.then is None or self.then_busy is None:
            return f"{self.name}: {duration(self.bound_ps)} at best; not measured."
        text = f"{self.name}: {duration(self.latency_ps)} ({signed_percent(-self.gain)})"
        if self.then_busy >= BUSY:
            return f"{text}; then {self.then} {'bound' if self.then == LINKS_NAME else 'bounds'} it."
        return f"{text}; then no block is busy {percent(BUSY)} of the time."


def lever_chances(run: TimedRun) -> Iterator[TriedLever]:
    """Yields the levers of the chip of *run* that have a part of its path or of its busiest links, with their bounds.

    Levers that may gain only together follow as sets, if a set is better at best than each of its levers. Raises
    TopologyError for a block that is not installed.
    """
    looked = _Looked(run.path, run.busy, run.limits, [(run.path_of(op), run.limits_of(op)) for op in run.ops])
    where, busy = looked.path, looked.busy
    every = chip_levers(run.topology)
    least_ps = LEAST_SHARE * run.latency_ps
    talks = any(row.via in _BETWEEN_PES for launch in where.launches for pe in launch.pes for row in pe.rows)
    works_ps = {each.part: each.ps for each in busy if each.block == LINKS}
    alone: dict[int, TriedLever] = {}
    for each in every:
        if each.lever.better == "one more" and not talks:
            continue
        alone[id(each)] = found = _tried(run, looked, every, (each,))
        is_idle = each.block == LINKS and works_ps.get(each.part, 0) < least_ps
        if found.path_ps >= least_ps and found.path_ps and not is_idle and not each.is_at_best:
            yield found
    for several in lever_sets(every, busy, run.latency_ps, run.topology):
        together = _tried(run, looked, every, several)
        if together.bound_ps + LEAST_GAIN * run.latency_ps <= min(alone[id(each)].bound_ps for each in several):
            yield together


class _Looked(NamedTuple):
    """The path, the busiest parts, the parts that limit a run, and path and limits of each op of a workload."""

    path: Where
    busy: Sequence[BusyPart]
    limits: Sequence[BusyPart]
    of_ops: Sequence[tuple[Where, Sequence[BusyPart]]]


def _tried(run: TimedRun, looked: _Looked, every: Sequence[ChipLever], pulled: Sequence[ChipLever]) -> TriedLever:
    """Returns the levers *pulled* together, with their bound."""
    before = {path: value for each in pulled for path, value in each.values.items()}
    better = {path: text for each in pulled for path, text in each.better.items()}
    scaled = moved(every, before, {path: float(text) for path, text in better.items()})
    path_ps = moved_ps(looked.path, scaled)
    return TriedLever(
        name=_name(pulled),
        label=_label(pulled),
        is_loose=any(each.lever.better == "one more" for each in pulled),
        block=pulled[0].block,
        field=pulled[0].field,
        set={format_path(path): text for path, text in better.items()},
        path_ps=path_ps,
        share=path_ps / run.latency_ps if run.latency_ps else 0.0,
        bound_ps=bound_ps(looked.path, looked.limits, scaled),
        part=_busiest_part(pulled[0], looked.busy, run.latency_ps),
        op_bounds_ps=[bound_ps(path, limits, scaled) for path, limits in looked.of_ops] if run.ops else UNSET,
    )


def _name(pulled: Sequence[ChipLever]) -> str:
    """Returns the change in words: `Twice the bandwidth of HBM and of the links between HBM and XBAR`."""
    parts: dict[str, list[str]] = {}
    for each in pulled:
        parts.setdefault(each.change, []).append(f"of {each.part}")
    clauses = [f"{change} {listed(names)}" for change, names in parts.items()]
    text = ", with ".join(clauses)
    return f"{text[0].upper()}{text[1:]}"


_CHANGES: Final = {"twice": "x2", "half": "/2", "one more": "+1"}


def _label(pulled: Sequence[ChipLever]) -> str:
    """Returns the change as a cell of a table: `HBM and HBM-XBAR bandwidth x2`."""
    parts: dict[str, list[str]] = {}
    for each in pulled:
        ends = each.part.removeprefix("the links between ")
        part = ends if ends == each.part else ends.replace(" and ", "-")
        of = "full speed" if each.block == SLOW else f"{each.lever.noun} {_CHANGES[each.lever.better]}"
        parts.setdefault(of, []).append(part)
    return ", ".join(f"{listed(names)} {of}" for of, names in parts.items())


def _busiest_part(lever: ChipLever, busy: Sequence[BusyPart], latency_ps: int) -> str:
    """Returns a clause on the busiest of the blocks or links of *lever*, by name where the others are less busy.

    The clause on slow PEs has their factor.
    """
    if lever.block == SLOW:
        return f"slow by a factor of {next(iter(lever.values.values())):g}"
    own = [each for each in busy if (each.part if lever.block == LINKS else each.block) in (lever.part, lever.block)]
    top = max(own, key=lambda each: each.ps, default=None)
    if top is None or not top.ps or not latency_ps:
        return ""
    share, others = top.ps / latency_ps, top.ps if top.others_ps is None else top.others_ps
    if top.ps - others <= _ALIKE * latency_ps:
        return f"{lever.part} busy {percent(share)} of the time"
    return f"{top.node} busy {percent(share)} of the time, the others {percent(float(others / latency_ps))}"


def with_set(topology: Topology, lever: TriedLever) -> Topology | None:
    """Returns *topology* with the better values of *lever*; None for values beyond the limits of the file format."""
    better = {parse_path(path): text for path, text in lever.set.items()}
    try:
        return loads_topology(with_values(topology.source, better).text, topology.source.path)
    except TopologyError:
        return None
