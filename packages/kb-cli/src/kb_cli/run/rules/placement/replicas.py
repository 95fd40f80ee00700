"""The rule `operands replicated`: PEs read copies of an operand through one cache, which holds each copy anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kb_cli.run.base.remedy import Remedy
from kb_cli.run.rules.placement.limits import busiest_block_ps, own_rows
from kb_engine import Tensor, read_tensor
from kb_engine.block import MemoryComponent
from kb_messages import KbError, MemorySpace

if TYPE_CHECKING:
    from kb_cli.run.rules.run_facts import RunFacts
    from kb_dataexec import OpLog

_NAME: Final = "operands replicated"


class _Copies(NamedTuple):
    """Tensors with equal bytes, by number, of which the launches read `read` bytes together."""

    name: str
    numbers: list[int]
    read: int


class Replicas:
    """Finds copies of operands in a memory behind a cache, and estimates the time in which PEs read one copy each.

    The cache then fetches the bytes of one copy, and others find them there. Of each PE's own path, the time of the
    memory is multiplied by the part of all bytes that are fetched, as if each byte cost as much as before. The time is
    the longest of these paths, or the busiest block of a PE. Copies that no cache fetches cost room and uploads, but no
    time of kernels, so the rule is silent about them.
    """

    def look(self, chunk: OpLog) -> None:
        """Takes nothing: the bytes of tensors are among the sums that rules share."""

    def remedy(self, facts: RunFacts) -> Remedy | None:
        """Returns the remedy; None without copies that launches read, and for memories without a cache."""
        span_ps, whole = facts.metrics.span_ps, sum(nbytes for nbytes, _ in facts.sums.reads)
        copies = _copies(facts) if _has_cache(facts) and span_ps and whole else []
        if not copies:
            return None
        again = sum(each.read * (len(each.numbers) - 1) / len(each.numbers) for each in copies)
        fetched = 1 - again / whole
        least_ps = float(busiest_block_ps(facts))
        own_ps = 0.0
        for launch in facts.where.launches:
            paths = (
                sum(row.ps * (fetched if row.block == "hbm" else 1.0) for row in own_rows(pe)) for pe in launch.pes
            )
            own_ps += max(paths, default=0.0)
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


def _has_cache(facts: RunFacts) -> bool:
    """Whether a memory of HBM has a part in front of the memory itself."""
    space_of = facts.sums.places.space_of
    return any(
        isinstance(each, MemoryComponent) and space_of.get(each.node_id) is MemorySpace.HBM and len(each.parts) > 1
        for each in facts.host.engine.components.values()
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
