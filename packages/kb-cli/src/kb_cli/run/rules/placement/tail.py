"""The rule `tail`: a few PEs have more work than the others, such as 9 programs on 8 PEs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kb_cli.run.base.remedy import Remedy
from kb_cli.run.rules.placement.limits import busiest_ps, fixed_ps
from kb_cli.run.rules.rule import Rule
from kb_cli.run.rules.run_sums import Floats
from kb_cli.terminal.units import duration

if TYPE_CHECKING:
    from kb_cli.run.rules.run_facts import RunFacts
    from kb_engine import LaunchResult

_NAME: Final = "tail"
_LEAST_GAIN: Final = 0.05
"""The smallest gain that is told. Shares of whole rows differ by as much. Source: assumed."""
_LEAST_SURE: Final = 0.2
"""The part of a gain that may come from fixed costs: a fifth, the error that estimates of rules are held to."""


class _Shares(NamedTuple):
    """The work of the PEs of some launches: PE `last` ends last, and PEs have `share` of its work on average.

    `saved_ps` is the time that an equal division of the work saves. `slow` has the factors of slow PEs among them, by
    which their parts of an equal division are smaller.
    """

    launches: Sequence[LaunchResult]
    pes: list[str]
    last: str
    share: float
    saved_ps: float
    slow: Mapping[str, float]


class Tail(Rule):
    """Finds launches in which the PE that ends last has more work than the PEs with work have on average.

    For each launch, the time after an equal division of the work is the larger of two. The first is the time of the
    last PE, times the share of its work that PEs have on average: the work is the service of each kind of block in
    picoseconds, and the bytes of DMAs, each weighted by its time on that PE. Times alone would not do, because a PE may
    take longer with equal work. The second is the mean of the times of PEs, because their shares of the work take as
    long as before. The whole run takes no less than its busiest link or memory serves.

    In the same time, a PE that is slow by a factor does the work of another PE divided by the factor. So one over the
    factors are the parts of the work that are due to PEs, and the weights of the means.

    Fewer and larger programs also save latencies, set-ups and commands, which grow with the number of programs. Where
    these could be more than a fifth of the gain, nobody knows the gain, and the rule is silent.
    """

    def remedy(self, facts: RunFacts) -> Remedy | None:
        """Returns the remedy of the launch with the most to gain; None where PEs have equal work."""
        found = [shares for group in range(facts.sums.n_groups) if (shares := _shares(facts, group)) is not None]
        span_ps = facts.metrics.span_ps
        saved_ps = min(sum(each.saved_ps for each in found), span_ps - busiest_ps(facts))
        if not found or saved_ps < _LEAST_GAIN * span_ps:
            return None
        worst = max(found, key=lambda each: each.saved_ps)
        return Remedy(
            rule=_NAME,
            part=worst.last,
            flaw=_flaw(worst),
            change=_change(worst),
            gain=saved_ps / span_ps,
            basis="estimated",
        )


def _shares(facts: RunFacts, group: int) -> _Shares | None:
    """The work of PEs in a *group* of launches; None where fewer than two PEs have work, or all have equal work."""
    sums, number = facts.sums, facts.sums.places.pe_number
    launches = [each for each, of in zip(facts.launches, sums.group_of.tolist(), strict=False) if of == group]
    launched = dict.fromkeys(pe for each in launches for pe in each.pe_end_ps)
    pes = [pe for pe in launched if sums.has_work(group, number[pe])]
    if len(pes) < 2:
        return None
    times = [sum(each.pe_end_ps[pe] - each.start_ps for each in launches if pe in each.pe_end_ps) for pe in pes]
    whole_ps, last = sum(each.end_ps - each.start_ps for each in launches), pes[times.index(max(times))]
    slow = {pe: factor for pe, factor in facts.host.engine.topology.slow.items() if pe in pes}
    speeds = np.array([1 / slow.get(pe, 1.0) for pe in pes])
    share = _mean_share(facts, group, [number[pe] for pe in pes], pes.index(last), speeds)
    saved_ps = whole_ps - max(share * whole_ps, float(np.average(times, weights=speeds)))
    is_sure = _LEAST_SURE * saved_ps >= _fixed_of_more_programs_ps(facts, group, last, len(pes))
    return _Shares(launches, pes, last, share, saved_ps, slow) if saved_ps > 0 and is_sure else None


def _fixed_of_more_programs_ps(facts: RunFacts, group: int, last: str, n_pes: int) -> float:
    """The fixed costs of all programs of PE *last* but one, if each PE has as many programs."""
    found = 0.0
    for launch, where, of in zip(facts.launches, facts.where.launches, facts.sums.group_of.tolist(), strict=False):
        n_programs = sum(each.pe_id == last for each in launch.programs)
        if of == group and n_programs > 1:
            more = max(len(launch.programs) / n_pes - 1, 0.0)
            found += more * sum(fixed_ps(pe) for pe in where.pes if last in pe.pes) / n_programs
    return found


def _mean_share(facts: RunFacts, group: int, pes: list[int], last: int, speeds: Floats) -> float:
    """The work of *pes* that is due to PE number *last* of them, as a share of the work that it has, 0 to 1.

    *speeds* has one over the factor of each PE. A service of a slow PE, less by its factor, is the work.
    """
    sums, whole, found = facts.sums, 0.0, 0.0
    services = [(each[group, pes] * speeds, each) for each in sums.work_ps.values()]
    for work, weights in [(sums.moved[group, pes], sums.dma_ps), *services]:
        if work[last]:
            weight = float(weights[group, pes[last]])
            whole += weight
            found += weight * min(float(work.mean() * speeds[last] / speeds.mean()) / float(work[last]), 1.0)
    return found / whole if whole else 1.0


def _flaw(found: _Shares) -> str:
    n_pes, launch = len(found.pes), found.launches[0]
    slow = f" is slow by {found.slow[found.last]:g}, and" if found.last in found.slow else ""
    if len(launch.programs) > n_pes:
        idle_ps = sum(launch.end_ps - launch.pe_end_ps.get(pe, launch.start_ps) for pe in found.pes) // n_pes
        return (
            f"{len(launch.programs)} programs on {n_pes} PEs: {found.last}{slow} ends last, and PEs wait "
            f"{duration(idle_ps)} on average"
        )
    times = f"{1 / found.share:.2f} times the work that"
    if slow:
        return f"{found.last}{slow} has {times} is due to it"
    return f"{found.last} has {times} {n_pes} PEs have on average"


def _change(found: _Shares) -> str:
    n_pes = len(found.pes)
    if found.slow:
        return "choose other blocks: give a slow PE the work of another PE, divided by its factor"
    return f"choose other blocks: {n_pes} equal shares of the work, one for each PE"
