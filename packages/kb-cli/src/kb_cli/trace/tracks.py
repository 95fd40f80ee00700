"""The tracks of a trace and their content: slices with a begin and an end, and counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_cli.trace.protobuf import Ints


class TrackPlace(NamedTuple):
    """The place of slices or values: a track called *title* in the group *group*, a PE's id or one of GROUPS.

    *unit* is the unit of a counter, and empty for slices.
    """

    group: str
    title: str
    unit: str = ""


class Slices(NamedTuple):
    """Slices of any number of tracks. All arrays are int64 and have one element for each slice.

    *track* is an index of *places*, and *name* of *names*. *arguments*, by name, are shown with the slice and are 0 or
    more. An arrow, called flow, leads from the slice whose *flow* is n (1 or more) to the slice whose flow is -n; 0
    stands for none, and None for none at all. Slices of one track stand together, in the order of their starts, and do
    not overlap.
    """

    places: Sequence[TrackPlace]
    track: Ints
    start_ps: Ints
    end_ps: Ints
    name: Ints
    names: Sequence[str]
    arguments: Mapping[str, Ints]
    flow: Ints | None = None

    def where(self, kept: npt.NDArray[np.bool_] | Ints) -> Slices:
        """Returns the slices for which *kept* is true, or whose numbers are in *kept*, in its order."""
        arguments = {name: values[kept] for name, values in self.arguments.items()}
        track, start, end, name = (values[kept] for values in (self.track, self.start_ps, self.end_ps, self.name))
        flow = None if self.flow is None else self.flow[kept]
        return Slices(self.places, track, start, end, name, self.names, arguments, flow)


class Counters(NamedTuple):
    """Values of any number of counters. Each value holds from *t_ps* until the next one of its track.

    *track*, an index of *places*, and *t_ps* are int64; *value* is float64; all are of one length. Values of one track
    stand together, in the order of time.
    """

    places: Sequence[TrackPlace]
    track: Ints
    t_ps: Ints
    value: npt.NDArray[np.float64]


class Track(Struct, frozen=True, kw_only=True):
    """A track or a group of tracks of a file. `uuid` is 1 or more, and `parent` is 0 for the track above all others.

    `unit` is the unit of a counter, and empty for all other tracks. Tracks of one parent are shown in the order of
    `rank`.
    """

    uuid: int
    parent: int
    name: str
    rank: int
    unit: str = ""


class Trace(NamedTuple):
    """The content of a trace file. The `track` of slices and counters are ids of *tracks*."""

    tracks: list[Track]
    slices: list[Slices]
    counters: list[Counters]

    @property
    def n_slices(self) -> int:
        """The number of all slices."""
        return sum(len(each.track) for each in self.slices)
