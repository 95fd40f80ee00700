"""How busy links, memories and blocks were in a window of a run, and who used them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from kb_cli.terminal.units import PS_PER_NS
from kb_cli.trace.arrange import LINKS
from kb_cli.trace.op_slices import pe_of
from kb_cli.trace.traffic import Resource, used_by
from kb_cli.trace.transfers import DmaFlow
from kb_engine.observe import Chip


class UsedPart(NamedTuple):
    """A link or a memory in a window: how much of its bandwidth it used (0 to 1), its bytes, and those by PE.

    *share* is None for a memory that states no bandwidth. *ends* are those of a link, and empty for a memory.
    """

    title: str
    ends: tuple[str, ...]
    share: float | None
    nbytes: float
    by_pe: dict[str, float]


def used_parts(flows: Iterable[DmaFlow], chip: Chip, start_ps: int, end_ps: int) -> list[UsedPart]:
    """The links and memories that *flows* used between *start_ps* and *end_ps*, the most used first.

    Bytes of a service count evenly over its time. Links and memories without a byte are left out.
    """
    window, listed = np.array([start_ps, end_ps]), list(flows)
    sums: dict[Resource, dict[str, float]] = {}
    for flow, uses in zip(listed, used_by(listed, chip), strict=True):
        before, until = flow.moved_until(window).tolist()
        if until > before:
            who = pe_of(flow.dma) or flow.dma
            for each, share in uses.items():
                by_pe = sums.setdefault(each, {})
                by_pe[who] = by_pe.get(who, 0.0) + share * (until - before)
    found = [_part(each, by_pe, end_ps - start_ps) for each, by_pe in sums.items()]
    return sorted(found, key=lambda each: (-(each.share or 0.0), -each.nbytes, each.title))


def _part(resource: Resource, by_pe: dict[str, float], span_ps: int) -> UsedPart:
    nbytes = sum(by_pe.values())
    is_told = resource.place.unit == "%"
    share = nbytes * PS_PER_NS / span_ps / resource.gbs if is_told else None
    ends = tuple(resource.place.title.split(" -> ")) if resource.place.group == LINKS else ()
    dearest = dict(sorted(by_pe.items(), key=lambda each: (-each[1], each[0])))
    return UsedPart(resource.place.title, ends, share, nbytes, dearest)
