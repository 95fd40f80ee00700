"""The rule `operands replicated`: PEs read copies of an operand through one cache, which holds each copy anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kb_cli.run.base.remedy import Remedy
from kb_cli.run.rules.placement.limits import busiest_block_ps, busiest_ps, own_rows
from kb_cli.run.rules.rule import Rule
from kb_engine import Tensor, read_tensor
from kb_engine.block import MemoryComponent
from kb_messages import KbError, MemorySpace, Rectangle

if TYPE_CHECKING:
    from kb_cli.run.rules.run_facts import RunFacts
    from kb_dataexec.analysis import PeWhere

_NAME: Final = "operands replicated"


class _Copies(NamedTuple):
    """Tensors with equal bytes, by number, of which the launches read `read` bytes together."""

    name: str
    numbers: list[int]
    read: int


class Replicas(Rule):
    """Finds copies of operands in a memory behind a cache, and estimates the time in which PEs read one copy each.

    The cache then fetches the bytes of one copy, and others find them there. Of each PE's own path, the time of the
    memory is multiplied by the part of all bytes that are fetched, but not below the latency of the cache for each
    request. The time is the longest of these paths, or the busiest block of a PE, link or port of the memory. Copies
    that no cache fetches cost room and uploads, but no time of kernels, so the rule is silent about them.
    """

    def remedy(self, facts: RunFacts) -> Remedy | None:
        """Returns the remedy; None without copies that launches read, and for memories without a cache."""
        span_ps, whole = facts.metrics.span_ps, sum(nbytes for nbytes, _ in facts.sums.reads)
        copies = _copies(facts) if _has_cache(facts) and span_ps and whole else []
        if not copies:
            return None
        again = sum(each.read * (len(each.numbers) - 1) / len(each.numbers) for each in copies)
        fetched = 1 - again / whole
        least_ps = float(max(busiest_block_ps(facts), busiest_ps(facts)))
        own_ps, hit_ps = 0.0, _hit_ps(facts)
        for launch in facts.where.launches:
            own_ps += max((_one_copy_ps(pe, fetched, hit_ps) for pe in launch.pes), default=0.0)
        gain = 1 - max(least_ps, own_ps) / span_ps
        if gain <= 0:
            return None
        most = max(copies, key=lambda each: each.read)
        names = " and ".join(f"{each.name} ({len(each.numbers)} copies)" for each in copies)
        return Remedy(
            rule=_NAME,
            part=most.name,
            flaw=f"PEs read copies of {names} through a cache, which fetches each copy from memory",
            change=f"place {' and '.join(each.name for each in copies)} once, for all PEs",
            gain=gain,
            basis="estimated",
        )


def _one_copy_ps(pe: PeWhere, fetched: float, hit_ps: int) -> float:
    """The picoseconds of the own path of *pe*, with the part *fetched* of all bytes fetched from memory."""
    return sum(
        max(row.ps * fetched, min(row.ps, row.segments * hit_ps)) if row.block == "hbm" else row.ps
        for row in own_rows(pe)
    )


def _hit_ps(facts: RunFacts) -> int:
    """The latency of a request that finds its bytes in the cache, in picoseconds."""
    byte = Rectangle(0, 1, 1, 1)
    caches = [each for each in facts.host.engine.components.values() if _is_cache(facts, each)]
    return min((each.idle_ps(byte, False)[0] for each in caches if isinstance(each, MemoryComponent)), default=0)


def _has_cache(facts: RunFacts) -> bool:
    """Whether a memory of HBM has a part in front of the memory itself."""
    return any(_is_cache(facts, each) for each in facts.host.engine.components.values())


def _is_cache(facts: RunFacts, component: object) -> bool:
    space_of = facts.sums.places.space_of
    return (
        isinstance(component, MemoryComponent)
        and space_of.get(component.node_id) is MemorySpace.HBM
        and len(component.parts) > 1
    )


def _copies(facts: RunFacts) -> list[_Copies]:
    """The tensors of one name that hold equal bytes and were read, and never written, by the launches."""
    groups: dict[tuple[object, ...], list[int]] = {}
    tensors = facts.host.tensors
    for number, tensor in enumerate(tensors):
        read, written = facts.sums.of_tensor(number)
        if read and not written:
            groups.setdefault((tensor.name, tensor.shape, tensor.dtype), []).append(number)
    found = []
    for numbers in groups.values():
        if len(numbers) > 1 and _are_equal(facts, tensors[numbers[0]], tensors[numbers[1]]):
            read = sum(facts.sums.of_tensor(number)[0] for number in numbers)
            found.append(_Copies(tensors[numbers[0]].name, numbers, read))
    return found


def _are_equal(facts: RunFacts, first: Tensor, second: Tensor) -> bool:
    memory = facts.host.engine.initial_memory
    try:
        return memory is not None and np.array_equal(
            read_tensor(memory, first).view(np.uint8), read_tensor(memory, second).view(np.uint8)
        )
    except KbError:  # bytes that nobody wrote
        return False
