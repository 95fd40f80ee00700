"""The services of an op log as slices: in each PE a track for every block and stage, in the order of the pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kb_cli.trace.arrange import LAUNCHES, is_pe, pe_order
from kb_cli.trace.overlaps import rows_without_overlap
from kb_cli.trace.pairs import number_pairs
from kb_cli.trace.protobuf import Ints
from kb_cli.trace.tracks import Slices, TrackPlace
from kb_dataexec.log import Columns, columns_of
from kb_messages import LogError, StageType

Rows: TypeAlias = npt.NDArray[np.void]
"""Rows of the ops table of a log."""

_STAGES = [stage.name.lower() for stage in StageType]
ARGUMENTS = {"op": "op_id", "command": "command_seq", "tile": "tile_id"}
"""Columns of the log by the names that the trace shows."""
_TIMES = ("t_start_ps", "t_end_ps")
_TEXTS = ("component", "name", "line")


def pe_of(component: str) -> str:
    """The id of the PE that *component* is in, or nothing for one outside of PEs."""
    pe = component.rpartition(".")[0]
    return pe if is_pe(pe) else ""


def op_slices(ops: Rows, strings: Sequence[str], where: str) -> Slices:
    """The services of *ops* as slices. A slice has the name of its stage and line, and op, command and tile.

    A service outside of PEs, such as a write of the host, is shown with the launches. Raises LogError, which begins
    with *where*, for numbers below 0 and for a service that ends before it begins.
    """
    texts = columns_of(ops, _TEXTS)
    places, track = _servers(texts, strings)
    name, names = _names(texts, strings)
    order = np.argsort(track.astype(np.min_scalar_type(len(places))), kind="stable")
    columns = columns_of(ops, (*_TIMES, *ARGUMENTS.values()), order)
    _check(columns, order, where)
    arguments = {shown: columns[column] for shown, column in ARGUMENTS.items()}
    start, end = (columns[each] for each in _TIMES)
    track, name = track.take(order), name.take(order)
    return without_overlap(_by_lane(Slices(places, track, start, end, name, names, arguments)))


def without_overlap(slices: Slices) -> Slices:
    """*slices*, where services of one place overlap on several tracks of one title."""
    row = rows_without_overlap(slices.track, slices.start_ps, slices.end_ps)
    if not row.any():
        return slices
    pairs, number = np.unique(np.stack((slices.track, row)), axis=1, return_inverse=True)
    places = [slices.places[track] for track in pairs[0].tolist()]
    split = slices._replace(places=places, track=number.reshape(-1).astype(np.int64))
    return split.where(np.argsort(split.track, kind="stable"))


def _check(ops: Columns, rows: Ints, where: str) -> None:
    """Raise LogError for the first of the *rows* of a log, which has the columns *ops*, that cannot be."""
    wrong = ops["t_end_ps"] < ops["t_start_ps"]
    for column in ("t_start_ps", *ARGUMENTS.values()):
        wrong |= ops[column] < 0
    if wrong.any():
        bad = np.flatnonzero(wrong)
        at = int(bad[np.argmin(rows[bad])])
        ids = ", ".join(f"{column} {ops[column][at]}" for column in ARGUMENTS.values())
        got = f"{ids} from {ops['t_start_ps'][at]} to {ops['t_end_ps'][at]} ps"
        raise LogError(f"{where}: ops row {rows[at]}", got, "numbers of 0 or more, and no end before the begin")


def _servers(ops: Columns, strings: Sequence[str]) -> tuple[list[TrackPlace], Ints]:
    """The place of each server of *ops*, by PE and stage, and the number of each record's place."""
    pairs = number_pairs(ops["component"], ops["name"])
    servers = [(strings[component], strings[stage]) for component, stage in pairs.found]
    order = sorted(range(len(servers)), key=lambda at: _server_order(*servers[at]))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return [_place(*servers[at]) for at in order], rank[pairs.number]


def _by_lane(slices: Slices) -> Slices:
    """*slices*, which are sorted by track, by start, end and id in each. In logs of the engine they are so already."""
    track, start, end = slices.track, slices.start_ps, slices.end_ps
    if ((track[1:] > track[:-1]) | (start[1:] > start[:-1])).all():
        return slices
    return slices.where(np.lexsort((slices.arguments["op"], end, start, track)))


def _server_order(component: str, stage: str) -> tuple[tuple[int, ...], int, str, str]:
    in_pipeline = _STAGES.index(stage) if stage in _STAGES else len(_STAGES)
    return pe_order(pe_of(component)), in_pipeline, component, stage


def _place(component: str, stage: str) -> TrackPlace:
    pe = pe_of(component)
    return TrackPlace(pe or LAUNCHES, f"{component.removeprefix(f'{pe}.')}: {stage}")


def _names(ops: Columns, strings: Sequence[str]) -> tuple[Ints, list[str]]:
    """The number of each record's name, and the names: the stage and the kernel line."""
    pairs = number_pairs(ops["name"], ops["line"])
    return pairs.number, [f"{strings[stage]} {strings[line]}" for stage, line in pairs.found]
