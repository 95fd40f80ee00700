"""The search of the timeline: by kernel line, stage, op, command and tile."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from msgspec import Struct

from kb_cli.trace.protobuf import Ints
from kb_cli.web.run_timeline import OPS, RunTimeline
from kb_messages import KbError

_MOST: Final = 200
_TERM: Final = re.compile(r"(op|command|tile|pe)\s*[=:]?\s*(\d{1,18})")
_LONGEST: Final = 200
"""Characters of a search. A longer text would be looked for in all names for minutes."""
_WORDS: Final = "a line such as gemm.py:29, a stage, op 5, command 2, tile 7, pe 3, or several of them"


class FoundSlice(Struct, frozen=True, kw_only=True):
    """A slice of the table of ops."""

    lane: int
    name: str
    op: int
    t0_ps: int
    t1_ps: int


class FoundSlices(Struct, frozen=True, kw_only=True):
    """How many slices there are, and the first of them in the order of time."""

    count: int
    first: list[FoundSlice]


def found_slices(timeline: RunTimeline, what: str) -> FoundSlices:
    """The services that every part of *what* fits: numbers of ops, commands, tiles and PEs, stages, and parts of names.

    A word that is a stage means that stage. Other words are looked for in kernel lines and in the titles of lanes.
    Raises KbError where nothing is asked for, and for a text of more than 200 characters.
    """
    if len(what) > _LONGEST:
        raise KbError("search", f"{len(what)} characters", f"at most {_LONGEST}")
    table = timeline.table(OPS)
    slices = table.slices
    fits = np.ones(len(slices.track), np.bool_)
    numbers, words = _TERM.findall(what.lower()), _TERM.sub(" ", what.lower()).split()
    if not numbers and not words:
        raise KbError("search", "nothing", _WORDS)
    for name, number in numbers:
        if name == "pe":
            fits &= np.array([place.group.endswith(f".pe{number}") for place in slices.places], np.bool_)[slices.track]
        else:
            fits &= slices.arguments[name] == int(number)
    for word in words:
        if word in table.stages:
            fits &= np.array([stage == word for stage in table.stages], np.bool_)[slices.name]
            continue
        in_name = np.array([word in line.lower() for line in table.lines], np.bool_)
        in_place = np.array([word in f"{place.group}.{place.title}".lower() for place in slices.places], np.bool_)
        fits &= in_name[slices.name] | in_place[slices.track]
    rows: Ints = np.flatnonzero(fits)
    first = rows[np.lexsort((slices.track[rows], table.start_ps[rows]))[:_MOST]]
    found = [
        FoundSlice(
            lane=table.lane_of(row),
            name=slices.names[slices.name[row]],
            op=int(slices.arguments["op"][row]),
            t0_ps=int(table.start_ps[row]),
            t1_ps=int(table.end_ps[row]),
        )
        for row in first.tolist()
    ]
    return FoundSlices(count=len(rows), first=found)
