"""The rule `unused PEs`: a launch leaves PEs of the chip without work."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kb_cli.run.base.remedy import Remedy
from kb_cli.run.rules.placement.limits import (
    Demand,
    Moved,
    is_fixed,
    own_rows,
    ps_of_hbm_byte,
    sharded,
    transfers_ps,
    waits_ps,
)
from kb_cli.run.rules.rule import Rule
from kb_messages import MemorySpace
from kb_topology import NodeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb_cli.run.rules.run_facts import RunFacts
    from kb_dataexec.analysis import PeWhere

_NAME: Final = "unused PEs"
_FEW: Final = 0.1
"""The bytes of all other operands of a product, as a part of those of the two largest. Source: assumed."""
_FEW_SHARED: Final = 0.01
"""The bytes of operands that PEs share, as a part of all bytes, that cost nearly nothing. Source: assumed."""
_LEAST_GAIN: Final = 0.1
"""The smallest gain that is told. Source: assumed; less is within the error of waits."""
_ENOUGH: Final = 0.95
"""The part of the largest gain for which a smaller change is enough. Source: assumed."""


class _Option(NamedTuple):
    """The work on `pes` in `least_ps` picoseconds, with operands in their places, or sharded over all slices."""

    pes: Sequence[int]
    least_ps: float
    is_sharded: bool


class _Alone(NamedTuple):
    """The own path of a PE without waits, in picoseconds: of its bytes, and of all else."""

    other_ps: float
    bytes_ps: float

    def with_transfers(self, busy_ps: float, least_ps: float, blocks: float) -> float:
        """The time with waits of *busy_ps*, on a chip that moves all bytes in *least_ps* at least.

        PEs that start together all transfer at first, so the work of the first of *blocks* is not hidden behind
        transfers.
        """
        return max(self.other_ps + self.bytes_ps + busy_ps, least_ps + self.other_ps / blocks)


class UnusedPes(Rule):
    """Finds runs in which some PEs have no work, and estimates the time in which more PEs do the work in equal shares:
    those of the cubes in use, or all PEs if these gain more. A slow PE gets an equal share, too.

    The time is the larger of two. The first is the longest own path of a PE: the time of work is divided, and that of
    latencies, set-ups and commands only as far as the PE makes several blocks of results. Waits for memories and links
    are added, because a PE then has fewer requests, each of which waits for more others; with sharded operands, only
    requests for shared operands wait. The second is the busiest link or memory, with the work of a block added that is
    not hidden behind transfers. All PEs share links and memories, with operands in their places or, if that gains more,
    sharded over all slices of HBM.

    A run whose kernels look at computed values, or read tensors that they write, may have steps that follow each other.
    Results that are added by atomics alone get more atomics from more PEs. So nobody knows what more PEs would do, and
    the rule is silent.
    """

    def remedy(self, facts: RunFacts) -> Remedy | None:
        """Returns the remedy; None where all PEs have work, or where nothing would be saved."""
        sums, span_ps = facts.sums, facts.metrics.span_ps
        places, used = sums.places, facts.sums.used_pes
        if not used or not span_ps or facts.looks or sums.has_exchange or not sums.written:
            return None
        cubes = {places.cube_of_pe[pe] for pe in used}
        everyone = range(len(places.pes))
        there = [pe for pe in everyone if places.cube_of_pe[pe] in cubes]
        sizes = (there, everyone) if _is_known_in_other_cubes(facts) else (there,)
        options = [_option(facts, used, pes) for pes in sizes if len(pes) > len(used)]
        best_ps = min((each.least_ps for each in options), default=span_ps)
        if 1 - best_ps / span_ps < _LEAST_GAIN:
            return None
        chosen = next(each for each in options if span_ps - each.least_ps >= _ENOUGH * (span_ps - best_ps))
        n_pes = len(chosen.pes)
        shard = f", with the operands sharded over all {len(places.hbm)} slices of HBM" if chosen.is_sharded else ""
        return Remedy(
            rule=_NAME,
            part=places.pes[next(pe for pe in chosen.pes if pe not in set(used))],
            flaw=f"{len(used)} of {n_pes} PEs{'' if n_pes == len(everyone) else ' of their cubes'} have work",
            change=f"cut the work into {n_pes} shares, one for each PE{shard}",
            gain=1 - chosen.least_ps / span_ps,
            basis="estimated",
        )


def _option(facts: RunFacts, used: Sequence[int], pes: Sequence[int]) -> _Option:
    """The least time in which *pes* do the work of the PEs *used*, in equal shares.

    Operands that lie in one cube may be sharded over all cubes. Nobody moves operands that the author spread by hand.
    """
    times, places, span_ps = len(pes) / len(used), facts.sums.places, facts.metrics.span_ps
    launches = [launch.pes for launch in facts.where.launches]
    blocks = max((_blocks(facts, pe) for launch in launches for pe in launch), default=1)
    moved, before = _divided(facts, max(times / blocks, 1.0)), Moved.of(facts)
    bytes_share = moved.whole / max(before.whole, 1.0) / times
    slowest = max(facts.host.engine.topology.slow_factor(places.pes[pe]) for pe in pes)
    paths = [_longest_alone(facts, each, times, bytes_share, slowest) for each in launches]
    alone = _Alone(*map(sum, zip(*paths, strict=True)))
    busy_ps = float(sum(max(map(waits_ps, launch), default=0) for launch in launches))
    ps_of_byte, in_place = ps_of_hbm_byte(facts), _in_place(facts, pes, moved)
    left = max(blocks / times, 1.0)
    stays_ps = alone.with_transfers(busy_ps, transfers_ps(facts, in_place, ps_of_byte), left)
    cubes = {demand.memory.rpartition(".")[0] for demand in in_place}
    is_over_all = {demand.memory for demand in in_place} >= set(places.hbm)
    if len(pes) < len(places.pes) or not places.hbm or is_over_all or len(cubes) > 1:
        return _Option(pes, stays_ps, False)
    busy_ps *= moved.shared / max(moved.whole, 1.0)
    least_ps = transfers_ps(facts, sharded(facts, pes, places.hbm, moved), ps_of_byte)
    spread_ps = alone.with_transfers(busy_ps, least_ps, left)
    stays = span_ps - stays_ps >= _ENOUGH * (span_ps - spread_ps)
    return _Option(pes, stays_ps if stays else spread_ps, not stays)


def _blocks(facts: RunFacts, pe: PeWhere) -> int:
    """The most writes of one line by *pe* in a launch: the blocks of results that the PE makes, one after the other."""
    most_writes, number = facts.sums.most_writes, facts.sums.places.pe_number
    most = max((most_writes.get(number[name], 1) for name in pe.pes), default=1)
    return max(1, most // max(len(facts.where.launches), 1))


def _is_known_in_other_cubes(facts: RunFacts) -> bool:
    """Whether PEs of other cubes read the operands at a known cost: each byte once, or the operands of a product.

    All PEs of the chip that read one small operand meet at its slice, where waits depend on the order of all requests.
    """
    moved = Moved.of(facts)
    return moved.shared <= _FEW_SHARED * moved.whole or _is_product(facts)


def _is_product(facts: RunFacts) -> bool:
    """Whether the run multiplies matrices, and nearly all bytes that it reads are those of two operands."""
    reads = [nbytes for nbytes, _ in facts.sums.reads]
    return NodeKind.PE_GEMM in facts.sums.work_ps and len(reads) > 2 and sum(reads[2:]) <= _FEW * sum(reads[:2])


def _divided(facts: RunFacts, times: float) -> Moved:
    """The bytes if blocks are divided into *times* as many.

    Of a product, a block gets smaller in both directions, so that its bytes of the two largest operands are the fewest:
    one operand is divided by a number, and the other one by *times* over that number. All other operands that PEs share
    are read whole for each block.
    """
    reads, moved = facts.sums.reads, Moved.of(facts)
    if not _is_product(facts):
        return moved._replace(shared=times * moved.shared)
    (first, is_first_shared), (second, is_second_shared) = reads[:2]
    cut = min(max(sqrt(times * first / second), 1.0), times)
    once = moved.once - (0 if is_first_shared else first) - (0 if is_second_shared else second)
    others = moved.shared - (first if is_first_shared else 0) - (second if is_second_shared else 0)
    return Moved(once, times / cut * first + cut * second + times * others, moved.written)


def _longest_alone(facts: RunFacts, pes: Sequence[PeWhere], times: float, bytes_share: float, slowest: float) -> _Alone:
    """The longest own path of *pes* without waits, after the division, which leaves *bytes_share* of a PE's bytes.

    The path is that of a PE whose blocks are slow by the factor *slowest*.
    """
    found, factor_of = [_Alone(0.0, 0.0)], facts.host.engine.topology.slow_factor
    for pe in pes:
        fixed, bytes_ps, other_ps = max(1 / times, 1 / _blocks(facts, pe)), 0.0, 0.0
        for row in own_rows(pe):
            if row.what == "bytes":
                bytes_ps += row.ps * bytes_share
            else:
                other_ps += row.ps * (fixed if is_fixed(row) else 1 / times)
        found.append(_Alone(other_ps * max(slowest / min(map(factor_of, pe.pes)), 1.0), bytes_ps))
    return max(found, key=sum)


def _in_place(facts: RunFacts, pes: Sequence[int], moved: Moved) -> list[Demand]:
    """The bytes *moved*, each in its memory, in equal shares of *pes*."""
    sums, before = facts.sums, Moved.of(facts)
    written, shared = sums.written_by_pe.sum(axis=0), sums.shared_by_memory()
    read = sums.read_by_pe.sum(axis=0)
    read = np.maximum(read - shared, 0.0) + shared * (moved.shared / max(before.shared, 1.0))
    return [
        Demand(pe, name, float(read[at]) / len(pes), float(written[at]) / len(pes))
        for at, name in enumerate(sums.places.memories)
        if (read[at] or written[at]) and sums.places.space_of[name] is not MemorySpace.TCM
        for pe in pes
    ]
