"""SliceLoad: how unevenly requests load the slices of HBM, and what an even load would gain."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kb_cli.run.rules.placement.limits import (
    WAITS,
    Moved,
    longest_alone_ps,
    own_rows,
    ps_of_hbm_byte,
    sharded,
    transfers_ps,
)

if TYPE_CHECKING:
    from kb_cli.run.rules.run_facts import RunFacts

_HOT: Final = 0.5
"""A slice with more than this part of the load of the most loaded one is one of the loaded slices. Source: assumed."""
_CROWDED: Final = 1.25
"""The load of a slice over the mean from which on a window of time is uneven. Source: assumed; less is chance."""


class SliceLoad(NamedTuple):
    """The load of HBM slices in a run, and the share `gain` of the time that an even load saves.

    `slices` are those in the cubes of PEs with work, and all others that served bytes; `hot` are the most loaded ones.
    `peak` is the load of the most loaded slice over the mean of `slices`, at each time: the mean over windows of time,
    weighted by load. `total_peak` is the same of the loads of the whole run. `hot_share` is the part of all bytes that
    `hot` have. `hidden` is the work of PEs that is hidden behind transfers, as a share of the time.
    `line` is the kernel line that waits longest for memories and shared links, "" for none.
    """

    slices: list[str]
    hot: list[str]
    peak: float
    total_peak: float
    hot_share: float
    gain: float
    hidden: float
    line: str

    @property
    def is_total(self) -> bool:
        """Whether the loads of the whole run explain most of the uneven load."""
        return self.total_peak - 1 >= (self.peak - 1) / 2


def slice_load(facts: RunFacts) -> SliceLoad | None:
    """Returns the load of HBM slices; None without several slices, and for a run whose log has no waits for memories.

    The time with an even load is the largest of three. In each window of time, the most loaded slice serves its bytes
    longer than the mean slice would. The first time is without these differences, as far as requests waited for that
    slice then; no more is saved than the longest time for which a PE waited behind several requests. The second is the
    own path of the PE that takes longest alone, without waits for others. The third is the busiest link or memory when
    bytes that are moved once lie near their PE, and all others over all slices.
    """
    sums, places = facts.sums, facts.sums.places
    pes = sums.used_pes
    numbers = [places.memory_number[name] for name in places.hbm]
    by_time = sums.by_time[:, numbers]
    cubes = {place.rpartition(".")[0] for place in (places.near[pe] for pe in pes)} if places.near else set()
    there = [at for at, name in enumerate(places.hbm) if name.rpartition(".")[0] in cubes or by_time[:, at].any()]
    if len(there) < 2 or not by_time.any():
        return None
    ps_of_byte = ps_of_hbm_byte(facts)
    load = by_time[:, there] * ps_of_byte
    most, mean = load.max(axis=1), load.mean(axis=1)
    waits = sums.waits_ps[:, numbers][:, there]
    crowd = np.where(most > _CROWDED * mean, most - mean, 0.0)
    saved_ps = float(np.minimum(crowd, waits[np.arange(len(load)), load.argmax(axis=1)]).sum())
    saved_ps = min(saved_ps, float(sums.queued_ps.max()))
    slices = [places.hbm[at] for at in there]
    span_ps = facts.metrics.span_ps
    least_ps = span_ps - saved_ps
    if saved_ps > 0:
        alone_ps = sum(map(longest_alone_ps, facts.where.launches))
        least_ps = max(
            least_ps, alone_ps, transfers_ps(facts, sharded(facts, pes, slices, Moved.of(facts)), ps_of_byte)
        )
    total = load.sum(axis=0)
    hot = [name for name, ps in zip(slices, total.tolist(), strict=True) if ps > _HOT * total.max()]
    hot_share = float(total[total > _HOT * total.max()].sum() / total.sum())
    return SliceLoad(
        slices=slices,
        hot=hot,
        peak=float(most.sum() / mean.sum()),
        total_peak=float(total.max() / total.mean()),
        hot_share=hot_share,
        gain=max(0.0, 1 - least_ps / span_ps) if span_ps else 0.0,
        hidden=_hidden(facts),
        line=_waiting_line(facts),
    )


def _hidden(facts: RunFacts) -> float:
    """The work of PEs, but for their DMAs, that is on no PE's own path: its share of the time of all PEs with work."""
    kinds = {kind.value: int(work.sum()) for kind, work in facts.sums.work_ps.items()}
    on_path = 0
    for launch in facts.where.launches:
        for pe in launch.pes:
            on_path += len(pe.pes) * sum(row.ps for row in own_rows(pe) if row.block in kinds)
    whole_ps = facts.metrics.span_ps * max(len(facts.sums.used_pes), 1)
    return max(0.0, (sum(kinds.values()) - on_path) / max(whole_ps, 1))


def _waiting_line(facts: RunFacts) -> str:
    waited: Counter[str] = Counter()
    for launch in facts.where.launches:
        for pe in launch.pes:
            for row in pe.rows:
                if row.line and row.what in WAITS:
                    waited[row.line] += row.ps * len(pe.pes)
    return max(waited, key=lambda line: waited[line], default="")
