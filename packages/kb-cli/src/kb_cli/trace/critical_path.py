"""The critical path as slices: in each PE a track of the segments of the path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kb_cli.trace.pairs import number_pairs
from kb_cli.trace.protobuf import Ints
from kb_cli.trace.tracks import Slices, TrackPlace
from kb_dataexec import OpLog
from kb_dataexec.analysis import Causes, LazyServices

PATH = "critical path"
"""The title of the tracks."""


class PathSegments(NamedTuple):
    """Segments of critical paths. All arrays are int64 and have one element for each segment.

    A segment lasts from *start_ps* to *end_ps*. *pe*, *line*, *block* and *what* are indices of *strings*: the id of
    the PE, the kernel line, the block of the PE, and the activity of the block. The segments of one PE do not overlap.
    """

    start_ps: Ints
    end_ps: Ints
    pe: Ints
    line: Ints
    block: Ints
    what: Ints
    strings: Sequence[str]


def path_slices(path: PathSegments) -> Slices:
    """Returns the segments as slices. A slice has its exact picoseconds."""
    order, strings = np.lexsort((path.end_ps, path.start_ps, path.pe)), path.strings
    name, texts = segment_texts(path.block[order], path.what[order], path.line[order], strings)
    names = [segment_name(*each) for each in texts]
    pes, track = np.unique(path.pe[order], return_inverse=True)
    places = [TrackPlace(strings[pe], PATH) for pe in pes.tolist()]
    start, end = path.start_ps[order], path.end_ps[order]
    return Slices(places, track, start, end, name, names, {"start_ps": start, "end_ps": end})


def segment_texts(
    block: Ints, what: Ints, line: Ints, strings: Sequence[str]
) -> tuple[Ints, list[tuple[str, str, str]]]:
    """Returns the number of each segment's texts, and the texts: block, activity and kernel line.

    *block*, *what* and *line* are indices of *strings*.
    """
    works = number_pairs(block, what)
    texts = number_pairs(works.number, line)
    named = [(*works.found[work], line) for work, line in texts.found]
    return texts.number, [(strings[block], strings[what], strings[line]) for block, what, line in named]


def segment_name(block: str, what: str, line: str) -> str:
    """Returns the name of a segment with these texts."""
    return f"{block}: {what} {line}".rstrip()


def path_of(log: OpLog, services: LazyServices | None = None) -> PathSegments:
    """Returns the segments of all launches that PEs worked on. The way of a launch over other processors is left out.

    *services* are the services of *log*, if the caller has them. Raises LogError when *log* has no table of kernels.
    """
    found = list(Causes(log, services).paths())
    strings = found[-1].strings if found else []  # the strings of a path include the strings of earlier paths
    columns = {
        name: np.concatenate([getattr(each, name) for each in found]) if found else np.empty(0, np.int64)
        for name in ("start_ps", "end_ps", "pe", "line", "block", "what")
    }
    of_pes = np.array([bool(text) for text in strings], np.bool_)[columns["pe"]]
    return PathSegments(strings=strings, **{name: column[of_pes] for name, column in columns.items()})
