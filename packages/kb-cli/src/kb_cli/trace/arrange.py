"""The order of tracks: PEs by number, each with its tracks below it, then the groups for the whole chip."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from typing import Final, NamedTuple

import numpy as np

from kb_cli.trace.protobuf import Ints
from kb_cli.trace.tracks import Counters, Slices, Trace, Track, TrackPlace

MEMORIES, LINKS, LAUNCHES = GROUPS = ("memories", "links", "launches")
"""The groups that follow the PEs, in their order."""

_PE: Final = re.compile(r"sip(\d+)\.cube(\d+)\.pe(\d+)")


class Numbered(NamedTuple):
    """A place that has slices or values: its table, counted over all tables, and its number there."""

    table: int
    number: int
    place: TrackPlace


def is_pe(name: str) -> bool:
    """Whether *name* is the id of a PE, like `sip0.cube0.pe5`."""
    return _PE.fullmatch(name) is not None


def pe_order(group: str) -> tuple[int, ...]:
    """Returns a key that sorts ids of PEs by their numbers."""
    found = _PE.fullmatch(group)
    return tuple(map(int, found.groups())) if found else ()


def arrange(name: str, slices: Sequence[Slices], counters: Sequence[Counters]) -> Trace:
    """Returns the trace called *name* with all of *slices* and *counters*.

    Tracks of one group stand in the order of the tables, then of their numbers. A place without slices or values has no
    track.
    """
    tables: list[Slices | Counters] = [*slices, *counters]
    groups: dict[str, list[Numbered]] = {}
    for at, table in enumerate(tables):
        for number in np.unique(table.track).tolist():
            place = table.places[number]
            groups.setdefault(place.group, []).append(Numbered(at, number, place))
    tracks = [Track(uuid=1, parent=0, name=name, rank=0)]
    uuids = [np.zeros(len(table.places), np.int64) for table in tables]
    ids = count(2)
    for rank, group in enumerate(sorted(groups, key=_group_order)):
        parent = next(ids)
        tracks.append(Track(uuid=parent, parent=1, name=group, rank=rank))
        for child, (at, number, place) in enumerate(groups[group]):
            uuids[at][number] = uuid = next(ids)
            tracks.append(Track(uuid=uuid, parent=parent, name=place.title, rank=child, unit=place.unit))
    placed: list[Ints] = [by_number[table.track] for by_number, table in zip(uuids, tables, strict=True)]
    return Trace(
        tracks,
        [table._replace(track=track) for table, track in zip(slices, placed, strict=False) if len(track)],
        [
            table._replace(track=track)
            for table, track in zip(counters, placed[len(slices) :], strict=True)
            if len(track)
        ],
    )


def _group_order(group: str) -> tuple[int, tuple[int, ...], str]:
    if is_pe(group):
        return 0, pe_order(group), group
    return 1 + GROUPS.index(group), (), group
