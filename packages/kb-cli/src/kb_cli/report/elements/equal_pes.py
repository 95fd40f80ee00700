"""Groups of equal PEs, and groups of PEs by their place where too many differ: by SIP, by cube."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kb_cli.terminal.units import percent
from kb_cli.trace.slices import by_number
from kb_dataexec.analysis import PeShares

MOST_GROUPS: Final = 16
"""The most groups of a list that a reader takes in at once. Source: assumed; the cubes of a SIP."""
NEAR: Final = 0.001
"""The difference of a share below which reports call two PEs nearly alike: less than they print."""
_NOUNS: Final = {"sip": "SIPs", "pe": "PEs"}


def folded_names(ids: Sequence[str], noun: str = "PEs") -> str:
    """Returns *ids* in a few words: `sip0.cube0.pe0`, or `8 PEs alike, sip0.cube0.pe0 to sip0.cube0.pe7`."""
    if len(ids) < 3:
        return " and ".join(ids)
    return f"{len(ids)} {noun} alike, {ids[0]} to {ids[-1]}"


class PeGroup(NamedTuple):
    """The PEs *pes*, called *name*. All of them are equal where *inner* is empty; otherwise *inner* divides them."""

    name: str
    pes: tuple[str, ...]
    inner: tuple[PeGroup, ...] = ()


def equal_pes(kinds: Mapping[str, Hashable], most: int = MOST_GROUPS) -> list[PeGroup]:
    """Returns groups of the PEs in *kinds*, of which those with equal values are equal; *most* groups or fewer.

    Equal PEs stand together if there are at most *most* kinds of them. Otherwise PEs stand together by place, such as a
    SIP or a cube, and places whose PEs are equal one by one share a group. The result has the smallest places that
    *most* groups have room for; `inner` of each group has the smaller ones, down to PEs.
    """
    pes = sorted(kinds, key=by_number)
    found = list(_within(pes, kinds, 1, most))
    if len(found) > most:
        return [_whole(found)]
    while True:
        opened = [part for group in found for part in (group.inner or (group,))]
        if len(opened) > most or len(opened) == len(found):
            return found
        found = opened


def _within(pes: Sequence[str], kinds: Mapping[str, Hashable], depth: int, most: int) -> Iterator[PeGroup]:
    """Yields the groups of *pes*, whose places have *depth* parts of a name each."""
    alike: dict[Hashable, list[str]] = {}
    for pe in pes:
        alike.setdefault(kinds[pe], []).append(pe)
    if len(alike) <= most or all(pe.count(".") < depth for pe in pes):
        yield from (PeGroup(folded_names(each), tuple(each)) for each in alike.values())
        return
    for places in _equal_places(pes, kinds, depth):
        mine = tuple(pe for place in places.values() for pe in place)
        inner = _within_places(list(places.values()), kinds, depth + 1, most)
        name = _name(list(places), depth, len(mine))
        yield PeGroup(name, mine, inner) if len(inner) > 1 else PeGroup(folded_names(mine), mine)


def _within_places(
    places: Sequence[Sequence[str]], kinds: Mapping[str, Hashable], depth: int, most: int
) -> tuple[PeGroup, ...]:
    """Returns the groups within equal *places*, each of which has PEs of all of them."""
    first = _within(places[0], kinds, depth, most)
    if len(places) == 1:
        return tuple(first)
    number = {pe: at for at, pe in enumerate(places[0])}
    return tuple(_spread(each, places, number, depth) for each in first)


def _spread(group: PeGroup, places: Sequence[Sequence[str]], number: Mapping[str, int], depth: int) -> PeGroup:
    """Returns *group*, which is of the first of equal *places*, with the PEs of all of them."""
    pes = tuple(place[number[pe]] for place in places for pe in group.pes)
    if not group.inner:
        return PeGroup(folded_names(pes), pes)
    inner = tuple(_spread(each, places, number, depth + 1) for each in group.inner)
    return PeGroup(_name(list(dict.fromkeys(_place(pe, depth) for pe in pes)), depth, len(pes)), pes, inner)


def _equal_places(
    pes: Sequence[str], kinds: Mapping[str, Hashable], depth: int
) -> Iterator[Mapping[str, Sequence[str]]]:
    """Yields the places of *pes* with their PEs; places whose PEs are equal one by one stand together."""
    places: dict[str, list[str]] = {}
    for pe in pes:
        places.setdefault(_place(pe, depth), []).append(pe)
    alike: dict[Hashable, dict[str, Sequence[str]]] = {}
    for place, mine in places.items():
        views = tuple((pe[len(place) :], kinds[pe]) for pe in mine)
        alike.setdefault(views, {})[place] = mine
    yield from alike.values()


def _place(pe: str, depth: int) -> str:
    return ".".join(pe.split(".")[:depth])


def _name(places: Sequence[str], depth: int, n_pes: int) -> str:
    word = places[0].split(".")[depth - 1].rstrip("0123456789")
    if len(places) < 3:
        return f"{' and '.join(places)} ({n_pes} PEs)"
    return folded_names(places, _NOUNS.get(word, f"{word}s"))


def _whole(groups: Sequence[PeGroup]) -> PeGroup:
    pes = tuple(pe for group in groups for pe in group.pes)
    return PeGroup(f"{len(pes)} PEs, {pes[0]} to {pes[-1]}", pes, tuple(groups))


class PartRange(NamedTuple):
    """The least and the most share (0 to 1) of the own time of the PEs of a group in which `block` did `what`."""

    block: str
    what: str
    least: float
    most: float
    mean: float


def part_ranges(group: PeGroup, views: Sequence[PeShares]) -> list[PartRange]:
    """Returns the parts of the own time of the PEs of *group*, the largest first. *views* has all PEs."""
    mine, n_pes = set(group.pes), len(group.pes)
    found: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for view in views:
        count = len(mine.intersection(view.pes))
        for each in view.shares if count else ():
            found.setdefault((each.block, each.what), []).append((each.share, count))
    ranges = []
    for (block, what), shares in found.items():
        has_none = sum(count for _, count in shares) < n_pes
        least = 0.0 if has_none else min(share for share, _ in shares)
        mean = sum(share * count for share, count in shares) / n_pes
        ranges.append(PartRange(block, what, least, max(share for share, _ in shares), mean))
    return sorted(ranges, key=lambda each: (-each.mean, each.block, each.what))


def pe_groups(views: Sequence[PeShares], most: int = MOST_GROUPS) -> list[PeGroup]:
    """Returns the groups of `equal_pes` of *views*. Groups whose shares all differ by less than NEAR share one, whose
    `inner` has them.
    """
    near: list[tuple[Mapping[tuple[str, str], float], list[PeGroup]]] = []
    for group in equal_pes(kinds_of(views), most):
        shares = {(each.block, each.what): each.mean for each in part_ranges(group, views)}
        alike = (found for first, found in near if not group.inner and _is_near(first, shares))
        found = next(alike, None)
        if found is None:
            near.append((shares if not group.inner else {}, [group]))
        else:
            found.append(group)
    return [_nearly_alike(groups) for _, groups in near]


def _is_near(first: Mapping[tuple[str, str], float], other: Mapping[tuple[str, str], float]) -> bool:
    return bool(first) and all(abs(first.get(part, 0.0) - other.get(part, 0.0)) < NEAR for part in {*first, *other})


def _nearly_alike(groups: Sequence[PeGroup]) -> PeGroup:
    if len(groups) == 1:
        return groups[0]
    pes = tuple(sorted((pe for group in groups for pe in group.pes), key=by_number))
    return PeGroup(f"{len(pes)} PEs nearly alike, {pes[0]} to {pes[-1]}", pes, tuple(groups))


def part_text(part: PartRange) -> str:
    """Returns *part* in words: `pe_gemm: gemm 12.0 %`, or `pe_gemm: gemm 12.0 to 14.3 %` where PEs differ."""
    least, most = percent(part.least), percent(part.most)
    share = most if least == most else f"{least.removesuffix(' %')} to {most}"
    return f"{part.block}: {part.what} {share}"


def kinds_of(views: Sequence[PeShares]) -> dict[str, int]:
    """Returns the number of the view of each PE: PEs of one view are equal."""
    return {pe: number for number, view in enumerate(views) for pe in view.pes}
