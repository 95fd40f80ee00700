"""The timeline: its lanes, their content in a window, the nearest edge, and a search for slices."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from msgspec import Struct

from kb_cli.trace.protobuf import Ints
from kb_cli.trace.transfers import Floats
from kb_cli.web.answer import BINARY, WebAnswer, json_answer, json_bytes
from kb_cli.web.colourings import STAGE, check_colouring
from kb_cli.web.lane_table import Kinds, LaneTable, LaneWindow
from kb_cli.web.run_timeline import OPS, RunTimeline
from kb_cli.web.web_request import WebRequest, whole_number
from kb_messages import KbError

_MOST: Final = 200
_TERM: Final = re.compile(r"(op|command|tile|pe)\s*[=:]?\s*(\d{1,18})")
_LONGEST: Final = 200
"""The most characters of a search. A longer text would be looked for in all names for minutes."""
_WORDS: Final = "a line such as gemm.py:29, a stage, op 5, command 2, tile 7, pe 3, or several of them"


class FoundSlice(Struct, frozen=True, kw_only=True):
    """A slice of the table of ops."""

    lane: int
    name: str
    op: int
    t0_ps: int
    t1_ps: int


class FoundSlices(Struct, frozen=True, kw_only=True):
    """The number of slices that were found, and the first of them in the order of time."""

    count: int
    first: list[FoundSlice]


def found_slices(timeline: RunTimeline, what: str) -> FoundSlices:
    """Returns the services that every part of *what* fits: numbers of ops, commands, tiles and PEs, stages, parts of
    names.

    A word that is a stage means that stage. Other words are looked for in kernel lines and in the titles of lanes.
    Raises KbError for an empty search, and for a text of more than 200 characters.
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


LATEST_PS: Final = 2**53
"""The largest time that is a whole number of a browser: 2.5 hours."""
_MOST_LANES, _MOST_PIXELS = 2000, 4096
_BUDGET: Final = 100_000
"""The most pixels of all lanes of an answer, which has a byte or two for each."""
_FEW: Final = 12
"""The pixels for each slice of a lane from which on the slices themselves are shown."""


class ShownLane(Struct, frozen=True, kw_only=True):
    """A lane of a group: its number in its table, and its title."""

    lane: int
    title: str


class LaneGroup(Struct, frozen=True, kw_only=True):
    """A PE, or a group of lanes that belong to the whole chip."""

    name: str
    lanes: list[ShownLane]


class LaneList(Struct, frozen=True, kw_only=True):
    """The lanes of one table. `from_ps` and `until_ps` are the ends of the whole run.

    Numbers of lanes belong to the run as it was read with `stamp`, which later requests repeat. `tables` are the tables
    that the run has.
    """

    stamp: str
    tables: list[str]
    from_ps: int
    until_ps: int
    slices: int
    groups: list[LaneGroup]
    notes: list[str]


class WindowPart(Struct, frozen=True, kw_only=True):
    """The bytes of `lane` in an answer.

    With `slices`, these are as many begins and ends (float64), numbers (int32) and kinds (a byte). Otherwise they are
    the coverage (a byte) of each pixel, and its kind, or one kind for all if `kinds` is 1.
    """

    lane: int
    slices: int | None
    kinds: int


class WindowHead(Struct, frozen=True, kw_only=True):
    """The head before the bytes. `texts` are the kinds. A pixel lasts `(t1_ps - t0_ps) / pixels`."""

    t0_ps: int
    t1_ps: int
    pixels: int
    texts: list[str]
    parts: list[WindowPart]


def lanes(asked: WebRequest) -> WebAnswer:
    """Answers with the lanes of the table that the field `table` names."""
    run = asked.run
    timeline = run.timeline
    table = timeline.table(asked.field("table"))
    groups: dict[str, list[ShownLane]] = {}
    for number, place in enumerate(table.lanes):
        groups.setdefault(place.group, []).append(ShownLane(lane=number, title=place.title))
    return json_answer(
        LaneList(
            stamp=run.stamp,
            tables=timeline.tables,
            from_ps=timeline.start_ps,
            until_ps=timeline.end_ps,
            slices=len(table.slices.track),
            groups=[LaneGroup(name=name, lanes=found) for name, found in groups.items()],
            notes=timeline.notes,
        )
    )


def window(asked: WebRequest) -> WebAnswer:
    """Answers with the content of lanes between `t0` and `t1`, in bytes: the length of a head, the head in JSON,
    columns.
    """
    t0, t1 = times(asked)
    wanted = [whole_number("lanes", each, 0, 2**31) for each in asked.field("lanes").split(",")[: _MOST_LANES + 1]]
    if len(wanted) > _MOST_LANES:
        raise KbError("lanes", f"more than {_MOST_LANES}", "no more than a window shows")
    pixels = min(asked.whole("pixels", 1, _MOST_PIXELS), max(_BUDGET // len(wanted), 1))
    timeline, name = asked.run.timeline, asked.field("table")
    table = timeline.table(name)
    kinds = timeline.kinds(name, check_colouring(asked.fields.get("colour", STAGE)), asked.fields.get("line"))
    return WebAnswer(window_bytes(table, kinds, wanted, (t0, t1, pixels)), BINARY)


def window_bytes(table: LaneTable, kinds: Kinds, lanes: list[int], size: tuple[int, int, int]) -> bytes:
    """Returns the content of *lanes* in a window of *size*: its begin, its end, and a number of pixels."""
    t0, t1, pixels = size
    edges: Floats = np.linspace(t0, t1, pixels + 1)
    return _packed(table, [table.window(lane, edges, kinds, pixels // _FEW) for lane in lanes], kinds, size)


def times(asked: WebRequest) -> tuple[int, int]:
    """Returns the fields `t0` and `t1`. Raises KbError for a window without time."""
    t0, t1 = (asked.whole(name, 0, LATEST_PS) for name in ("t0", "t1"))
    if t1 <= t0:
        raise KbError("t0, t1", f"a window without time, {t0} to {t1} ps", "an end after the begin")
    return t0, t1


def _packed(table: LaneTable, found: list[LaneWindow], kinds: Kinds, size: tuple[int, int, int]) -> bytes:
    parts, columns = [], []
    for each in found:
        if each.rows is not None:
            rows = slice(each.rows.start, each.rows.stop)
            parts.append(WindowPart(lane=each.lane, slices=len(each.rows), kinds=0))
            columns += [table.start_ps[rows].astype("<f8"), table.end_ps[rows].astype("<f8")]
            columns += [np.arange(rows.start, rows.stop, dtype="<i4"), kinds.number[rows]]
        elif each.cover is not None and each.kind is not None:
            parts.append(WindowPart(lane=each.lane, slices=None, kinds=len(each.kind)))
            columns += [each.cover, each.kind]
    t0, t1, pixels = size
    head = json_bytes(WindowHead(t0_ps=t0, t1_ps=t1, pixels=pixels, texts=list(kinds.texts), parts=parts))
    return b"".join([len(head).to_bytes(4, "little"), head, *(column.tobytes() for column in columns)])


class FoundEdge(Struct, frozen=True, kw_only=True):
    """The begin or end of a slice that is nearest to a moment."""

    t_ps: int


def edge(asked: WebRequest) -> WebAnswer:
    """Answers with the edge in `lane` of `table` that is nearest to `t`."""
    table = asked.run.timeline.table(asked.field("table"))
    lane = asked.whole("lane", 0, 2**31)
    return json_answer(FoundEdge(t_ps=table.nearest_edge(lane, asked.whole("t", 0, LATEST_PS))))


def find(asked: WebRequest) -> WebAnswer:
    """Answers with the slices that the text `what` means."""
    return json_answer(found_slices(asked.run.timeline, asked.field("what")))
