"""The timeline: its lanes, their content in a window, the nearest edge, and a search for slices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct

from kb_cli.terminal.units import PS_PER_NS
from kb_cli.trace.protobuf import Ints
from kb_cli.trace.tracks import TrackPlace
from kb_cli.trace.transfers import Floats
from kb_cli.web.answer import BINARY, WebAnswer, json_answer, json_bytes
from kb_cli.web.lanes.colourings import STAGE, check_colouring
from kb_cli.web.lanes.fold_table import FoldTable
from kb_cli.web.lanes.lane_table import Kinds, LaneTable, LaneWindow
from kb_cli.web.run_timeline import HAVE_FOLDS, LINKS, OPS, RunTimeline, Windowed
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
    """A lane of a group: its number in its table, its title, and the time of its slices."""

    lane: int
    title: str
    busy_ps: int


class ShownFold(Struct, frozen=True, kw_only=True):
    """A part of the chip as a lane of the folds of a table: all lanes from `first` to before `last`.

    Its `units` are at work for `busy_ps` together. `end_ps` is the end of the last slice, whose op is `last_op`; both
    are None for links.
    """

    name: str
    first: int
    last: int
    units: int
    busy_ps: int
    end_ps: int | None
    last_op: int | None


class LaneGroup(Struct, frozen=True, kw_only=True):
    """A PE, or a group of lanes that belong to the whole chip."""

    name: str
    lanes: list[ShownLane]


class LaneList(Struct, frozen=True, kw_only=True):
    """The lanes of one table. `from_ps` and `until_ps` are the ends of the whole run.

    Numbers of lanes belong to the run as it was read with `stamp`, which later requests repeat. `tables` are the tables
    that the run has. A fold stands before its parts, and its place in `folds` is its number. `launches` are the begin
    and the end of the kernels of each launch.
    """

    stamp: str
    tables: list[str]
    from_ps: int
    until_ps: int
    slices: int
    groups: list[LaneGroup]
    folds: list[ShownFold]
    launches: list[tuple[int, int]]
    notes: list[str]


class WindowPart(Struct, frozen=True, kw_only=True):
    """The bytes of `lane` in an answer.

    With `slices`, these are as many begins and ends (float64), numbers and names (int32) and kinds (a byte). Otherwise
    they are the coverage (a byte) of each pixel, and its kind, or one kind for all if `kinds` is 1.
    """

    lane: int
    slices: int | None
    kinds: int


class WindowHead(Struct, frozen=True, kw_only=True):
    """The head before the bytes. `texts` are the kinds, and `names` the names of slices.

    A pixel lasts `(t1_ps - t0_ps) / pixels`.
    """

    t0_ps: int
    t1_ps: int
    pixels: int
    texts: list[str]
    names: list[str]
    parts: list[WindowPart]


def lanes(asked: WebRequest) -> WebAnswer:
    """Answers with the lanes of the table that the field `table` names."""
    run, name = asked.run, asked.field("table")
    timeline = run.timeline
    places, busy_ps, folds, n_slices = _links(timeline) if name == LINKS else _table(timeline, name)
    groups: dict[str, list[ShownLane]] = {}
    for number, (place, busy) in enumerate(zip(places, busy_ps, strict=True)):
        groups.setdefault(place.group, []).append(ShownLane(lane=number, title=place.title, busy_ps=busy))
    return json_answer(
        LaneList(
            stamp=run.stamp,
            tables=timeline.tables,
            from_ps=timeline.start_ps,
            until_ps=timeline.end_ps,
            slices=n_slices,
            groups=[LaneGroup(name=group, lanes=found) for group, found in groups.items()],
            folds=folds,
            launches=[(round(each.start_ns * PS_PER_NS), round(each.end_ns * PS_PER_NS)) for each in timeline.launches],
            notes=timeline.notes,
        )
    )


_Listed: TypeAlias = tuple[Sequence[TrackPlace], list[int], list[ShownFold], int]
"""Lanes, their busy time, their folds, and the number of slices."""


def _table(timeline: RunTimeline, name: str) -> _Listed:
    table = timeline.table(name)
    folds = _folds(timeline.folds(name), table) if name in HAVE_FOLDS else []
    return table.lanes, table.busy_of_lanes.tolist(), folds, len(table.slices.track)


def _folds(folds: FoldTable, table: LaneTable) -> list[ShownFold]:
    ops = table.slices.arguments["op"]
    return [
        ShownFold(
            name=fold.name,
            first=fold.first,
            last=fold.last,
            units=fold.last_unit - fold.first_unit,
            busy_ps=busy,
            end_ps=int(table.end_ps[row]),
            last_op=int(ops[row]),
        )
        for fold, busy, row in zip(folds.folds, folds.busy_ps.tolist(), folds.last_rows, strict=True)
    ]


def _links(timeline: RunTimeline) -> _Listed:
    links = timeline.links
    folds = [
        ShownFold(
            name=fold.name,
            first=fold.first,
            last=fold.last,
            units=fold.last - fold.first,
            busy_ps=links.busy_ps(fold.first, fold.last),
            end_ps=None,
            last_op=None,
        )
        for fold in links.folds
    ]
    return links.lanes, [links.busy_ps(lane, lane + 1) for lane in range(len(links.lanes))], folds, 0


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
    table = timeline.windowed(name)
    kinds = timeline.kinds(name, check_colouring(asked.fields.get("colour", STAGE)), asked.fields.get("line"))
    names = timeline.table(name).slices.names if isinstance(table, LaneTable) else ()
    return WebAnswer(window_bytes(table, kinds, wanted, (t0, t1, pixels), names), BINARY)


def window_bytes(
    table: Windowed, kinds: Kinds, lanes: list[int], size: tuple[int, int, int], names: Sequence[str] = ()
) -> bytes:
    """Returns the content of *lanes* in a window of *size*: its begin, its end, and a number of pixels.

    *names* are the names of the slices of *table*.
    """
    t0, t1, pixels = size
    edges: Floats = np.linspace(t0, t1, pixels + 1)
    return _packed([table.window(lane, edges, kinds, pixels // _FEW) for lane in lanes], kinds, size, names)


def times(asked: WebRequest) -> tuple[int, int]:
    """Returns the fields `t0` and `t1`. Raises KbError for a window without time."""
    t0, t1 = (asked.whole(name, 0, LATEST_PS) for name in ("t0", "t1"))
    if t1 <= t0:
        raise KbError("t0, t1", f"a window without time, {t0} to {t1} ps", "an end after the begin")
    return t0, t1


def _packed(found: list[LaneWindow], kinds: Kinds, size: tuple[int, int, int], names: Sequence[str]) -> bytes:
    parts, columns = [], []
    shown = np.unique(np.concatenate([np.empty(0, np.int64), *(each.slices.name for each in found if each.slices)]))
    for each in found:
        if each.slices is not None:
            first, start, end, kind, name = each.slices
            parts.append(WindowPart(lane=each.lane, slices=len(start), kinds=0))
            columns += [start.astype("<f8"), end.astype("<f8"), np.arange(first, first + len(start), dtype="<i4")]
            columns += [np.searchsorted(shown, name).astype("<i4"), kind]
        elif each.cover is not None and each.kind is not None:
            parts.append(WindowPart(lane=each.lane, slices=None, kinds=len(each.kind)))
            columns += [each.cover, each.kind]
    t0, t1, pixels = size
    head = WindowHead(
        t0_ps=t0,
        t1_ps=t1,
        pixels=pixels,
        texts=list(kinds.texts),
        names=[names[at] for at in shown.tolist()] if len(names) else [],
        parts=parts,
    )
    text = json_bytes(head)
    return b"".join([len(text).to_bytes(4, "little"), text, *(column.tobytes() for column in columns)])


class FoundEdge(Struct, frozen=True, kw_only=True):
    """The begin or end of a slice that is nearest to a moment, None where the window has none."""

    t_ps: int | None


def edge(asked: WebRequest) -> WebAnswer:
    """Answers with the edge in `lane` of `table` between `t0` and `t1` that is nearest to `t`."""
    table = asked.run.timeline.table(asked.field("table"))
    lane = asked.whole("lane", 0, 2**31)
    return json_answer(FoundEdge(t_ps=table.nearest_edge(lane, asked.whole("t", 0, LATEST_PS), times(asked))))


def find(asked: WebRequest) -> WebAnswer:
    """Answers with the slices that the text `what` means."""
    return json_answer(found_slices(asked.run.timeline, asked.field("what")))
