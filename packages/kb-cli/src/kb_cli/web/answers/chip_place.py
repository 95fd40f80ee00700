"""Places in a chip that pages lead to: the part in which something is hot, and the parts around it and beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from kb_cli.report.data.chip import default_view, view_of
from kb_cli.trace.traffic import UsedPart
from kb_topology import Topology
from kb_topology.diagram import VIEWS, View

_HOT: Final = 0.9
"""The share of the use of the most used link or memory from which another one is as hot. Source: assumed."""
_LEVELS: Final = ("sip", "cube", "pe")


class Crumb(Struct, frozen=True, kw_only=True):
    """A step from the chip down to a part: its name, and the `part` and the view (`shown`) that show it."""

    name: str
    part: str
    shown: str


class MostUsed(Struct, frozen=True, kw_only=True):
    """The most used link or memory, the part that holds it, its share, and how many `others` are about as hot."""

    name: str
    part: str
    share: float
    others: int


class Opened(Struct, frozen=True, kw_only=True):
    """The part that a page opens by itself, and what is hot there; None where nothing was used."""

    part: str
    view: View
    why: MostUsed | None


def part_of(used: UsedPart) -> str:
    """Returns the id of the smallest SIP, cube or PE that holds *used*; empty for the whole system."""
    common = _common([end.split(".")[:-1] for end in used.ends or (used.title,)])
    return ".".join(name for name, level in zip(common, _LEVELS, strict=False) if name.startswith(level))


def _common(ways: Sequence[Sequence[str]]) -> list[str]:
    """Returns the first steps that all *ways* share."""
    found = []
    for steps in zip(*ways, strict=False):
        if len(set(steps)) > 1:
            break
        found.append(steps[0])
    return found


def hot_part(chip: Topology, found: Sequence[UsedPart]) -> Opened:
    """Returns the smallest part of *chip* that holds all links and memories that are as hot as the most used one.

    *found* are the used ones, the most used first. Those inside of PEs count where there are no others. Where nothing
    was used, the part is the whole chip.
    """
    shared = [each for each in found if each.share and part_of(each).count(".") < len(_LEVELS) - 1]
    known = shared or [each for each in found if each.share]
    if not known:
        return Opened(part="", view=default_view(chip), why=None)
    top = known[0]
    hot = [each for each in known if (each.share or 0.0) >= _HOT * (top.share or 0.0)]
    part = ".".join(_common([part_of(each).split(".") for each in hot]))
    view = view_of(part) if part else VIEWS[0]
    why = MostUsed(name=top.title, part=part_of(top), share=top.share or 0.0, others=len(hot) - 1)
    return Opened(part=part, view=view, why=why)


def crumbs(chip: Topology, part: str) -> list[Crumb]:
    """Returns the steps from *chip* to *part*, both of them too."""
    found = [Crumb(name=chip.name, part="", shown=default_view(chip))]
    names = part.split(".") if part else []
    for at in range(len(names)):
        inner = ".".join(names[: at + 1])
        found.append(Crumb(name=names[at], part=inner, shown=view_of(inner)))
    return found


def siblings(chip: Topology, part: str) -> list[str]:
    """Returns the ids of all parts beside *part* in the part that holds them, in their order."""
    if not part:
        return []
    spec = chip.spec
    pes = spec.cube.pe_layout.count if spec.cube.pe_layout else 0
    outer, _, _ = part.rpartition(".")
    level = part.count(".")
    count = (spec.sips, spec.cubes_per_sip, pes)[level]
    return [f"{outer}.{_LEVELS[level]}{number}".removeprefix(".") for number in range(count)]
