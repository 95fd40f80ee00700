"""The critical path as slices: in each PE a track of the segments that somebody has found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kb_cli.trace.protobuf import Ints
from kb_cli.trace.tracks import Slices, TrackPlace

PATH = "critical path"
"""The title of the tracks."""


class PathSegments(NamedTuple):
    """Segments of critical paths. All arrays are int64 and have one element for each segment.

    A segment lasts from *start_ps* to *end_ps*. *pe*, *line*, *block* and *what* count in *strings*: the id of the PE,
    the kernel line, the block of the PE, and what the block did. The segments of one PE do not overlap.
    """

    start_ps: Ints
    end_ps: Ints
    pe: Ints
    line: Ints
    block: Ints
    what: Ints
    strings: Sequence[str]


def path_slices(path: PathSegments) -> Slices:
    """The segments as slices. A slice has its exact picoseconds."""
    order = np.lexsort((path.end_ps, path.start_ps, path.pe))
    texts = np.stack((path.block, path.what, path.line), axis=1)[order]
    key, name = np.unique(texts, axis=0, return_inverse=True)
    strings = path.strings
    names = [f"{strings[block]}: {strings[what]} {strings[line]}".rstrip() for block, what, line in key.tolist()]
    pes, track = np.unique(path.pe[order], return_inverse=True)
    places = [TrackPlace(strings[pe], PATH) for pe in pes.tolist()]
    start, end = path.start_ps[order], path.end_ps[order]
    return Slices(places, track, start, end, name.reshape(-1), names, {"start_ps": start, "end_ps": end})
