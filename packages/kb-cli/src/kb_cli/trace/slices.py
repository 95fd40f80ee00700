"""Slices of an op log: services of blocks, waits and messages of kernels, services of memories, and launches.

Each PE has a track for every block and stage, in the order of the pipeline. Each memory has a track with the requests
whose bytes held it. Launches have a track from the host's call to its answer, and one of their kernels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kb_cli.run.base.result import LaunchTimes
from kb_cli.run.base.workload_result import OpResult
from kb_cli.terminal.units import PS_PER_NS
from kb_cli.trace.arrange import LAUNCHES, MEMORIES, is_pe, pe_order
from kb_cli.trace.pairs import number_pairs
from kb_cli.trace.protobuf import Ints
from kb_cli.trace.tracks import Slices, TrackPlace
from kb_dataexec import OpLog
from kb_dataexec.analysis import LazyServices, memory_spans
from kb_dataexec.log import Columns, columns_of
from kb_messages import LogError, StageType, SyncReason


def rows_without_overlap(lane: Ints, start_ps: Ints, end_ps: Ints) -> Ints:
    """Returns for each slice the first row of its lane that is free at its start, counted from 0.

    The slices are sorted by lane, then by start. Most blocks of kernbench serve one tile at a time, so their slices
    need row 0 alone. A DMA with several transfers in flight needs more, and so may logs of other simulators.
    """
    row = np.zeros(len(lane), np.int64)
    touches = (lane[1:] == lane[:-1]) & (start_ps[1:] < end_ps[:-1])
    for each in np.unique(lane[1:][touches]).tolist():
        first, last = np.searchsorted(lane, (each, each + 1)).tolist()
        row[first:last] = _rows(start_ps[first:last].tolist(), end_ps[first:last].tolist())
    return row


def _rows(starts: list[int], ends: list[int]) -> list[int]:
    busy: list[tuple[int, int]] = []
    """(end, row) of the slices that are not over."""
    free: list[int] = []
    found: list[int] = []
    for start, end in zip(starts, ends, strict=True):
        while busy and busy[0][0] <= start:
            heappush(free, heappop(busy)[1])
        row = heappop(free) if free else len(busy)
        heappush(busy, (end, row))
        found.append(row)
    return found


Rows: TypeAlias = npt.NDArray[np.void]
"""Rows of the ops table of a log."""

_STAGES = [stage.name.lower() for stage in StageType]
ARGUMENTS = {"op": "op_id", "command": "command_seq", "tile": "tile_id"}
"""Columns of the log by the names that the trace shows."""
_TIMES = ("t_start_ps", "t_end_ps")
_TEXTS = ("component", "name", "line")


def pe_of(component: str) -> str:
    """Returns the id of the PE of *component*, or "" for a component outside of PEs."""
    pe = component.rpartition(".")[0]
    return pe if is_pe(pe) else ""


def op_slices(ops: Rows, strings: Sequence[str], where: str) -> Slices:
    """Returns the services of *ops* as slices. A slice has the name of its stage and line, and op, command and tile.

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
    """Returns *slices* with several tracks of one title for services of one place that overlap."""
    row = rows_without_overlap(slices.track, slices.start_ps, slices.end_ps)
    if not row.any():
        return slices
    pairs, number = np.unique(np.stack((slices.track, row)), axis=1, return_inverse=True)
    places = [slices.places[track] for track in pairs[0].tolist()]
    split = slices._replace(places=places, track=number.reshape(-1).astype(np.int64))
    return split.where(np.argsort(split.track, kind="stable"))


def _check(ops: Columns, rows: Ints, where: str) -> None:
    """Raises LogError for the first of the *rows* of a log, which has the columns *ops*, that is impossible."""
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
    """Returns the place of each server of *ops*, by PE and stage, and the number of each record's place."""
    pairs = number_pairs(ops["component"], ops["name"])
    servers = [(strings[component], strings[stage]) for component, stage in pairs.found]
    order = sorted(range(len(servers)), key=lambda at: _server_order(*servers[at]))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return [_place(*servers[at]) for at in order], rank[pairs.number]


def _by_lane(slices: Slices) -> Slices:
    """Returns *slices*, which are sorted by track, sorted by start, end and id in each. Logs of the engine are so
    already.
    """
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
    """Returns the number of each record's name, and the names: the stage and the kernel line."""
    pairs = number_pairs(ops["name"], ops["line"])
    return pairs.number, [f"{strings[stage]} {strings[line]}" for stage, line in pairs.found]


SERVED = "served"
"""The word behind the memory's id in the title of its track."""


def memory_slices(log: OpLog, pe: str | None = None, services: LazyServices | None = None) -> Slices:
    """Returns the services of all memories; with *pe*, of the memories that a DMA of that PE used, for all PEs.

    A slice has the name of its DMA's PE, stage and kernel line, and op, command and tile. Requests that a memory serves
    at the same time stand on several tracks of one title. *services* are the services of *log*, if the caller has them.
    Raises LogError for a log without the table of transfers.
    """
    strings, spans = log.strings, memory_spans(log, services)
    columns = columns_of(log.ops, ("component", "name", "line", *ARGUMENTS.values()), spans["row"])
    component = columns["component"]
    shown = spans["memory"]
    if pe is not None:
        mine = [number for number, text in enumerate(strings) if pe_of(text) == pe]
        shown = shown[np.isin(component, mine)]
    memories = sorted(np.unique(shown).tolist(), key=lambda memory: by_number(strings[memory]))
    rank = np.full(len(strings), -1)
    rank[memories] = np.arange(len(memories))
    track = rank[spans["memory"]]
    order = np.lexsort((spans["end_ps"], spans["start_ps"], track))  # equal ones keep the order of their ops
    order = order[np.searchsorted(track[order], 0) :]
    track, start, end = track[order], spans["start_ps"][order], spans["end_ps"][order]
    columns = {name: column[order] for name, column in columns.items()}
    servers = number_pairs(columns["component"], columns["name"])
    texts = [f"{pe_of(strings[dma]) or strings[dma]}: {strings[stage]}" for dma, stage in servers.found]
    names = number_pairs(servers.number, columns["line"])
    titles = [f"{texts[server]} {strings[line]}" for server, line in names.found]
    arguments = {name: columns[column] for name, column in ARGUMENTS.items()}
    places = [TrackPlace(MEMORIES, f"{strings[memory]}: {SERVED}") for memory in memories]
    return without_overlap(Slices(places, track, start, end, names.number, titles, arguments))


def by_number(name: str) -> list[str | tuple[int, str]]:
    """Returns a key that sorts names by the numbers in them; texts and numbers take turns in it."""
    return [_size_of(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def _size_of(digits: str) -> tuple[int, str]:
    """Returns a key that sorts numbers of any length: `int` fails for more than 4300 digits."""
    significant = digits.lstrip("0")
    return len(significant), significant


_PLACES = (TrackPlace(LAUNCHES, "call to answer"), TrackPlace(LAUNCHES, "kernels"), TrackPlace(LAUNCHES, "ops"))


def launch_slices(launches: Sequence[LaunchTimes], ops: Sequence[OpResult] = ()) -> Slices:
    """Returns the tracks of *launches*: calls, kernels, and the *ops* of a workload by name.

    A slice has its exact picoseconds and the number of PEs. An op lasts from the start of its first kernel to the end
    of its last one; where launches overlap, an op begins when the one before has ended. Each stream has two tracks of
    its own, or more where its calls overlap.
    """
    n = len(launches)
    streams = sorted({each.stream for each in launches if isinstance(each.stream, int)})
    rank = {stream: len(_PLACES) + 2 * at for at, stream in enumerate(streams)}
    titles = [f"stream {stream}: {place.title}" for stream in streams for place in _PLACES[:2]]
    places = [*_PLACES, *(TrackPlace(LAUNCHES, title) for title in titles)]
    of_launch = [rank[each.stream] if isinstance(each.stream, int) else 0 for each in launches]
    spans = [(each.call_ns, each.response_ns) for each in launches] + [
        (each.start_ns, each.end_ns) for each in launches
    ]
    times = [(_ps(start), _ps(end)) for start, end in spans]
    pes = [each.pes for each in launches] * 2
    tracks, names = [*of_launch, *(track + 1 for track in of_launch)], [f"launch {number}" for number in range(n)]
    numbers = [*range(n), *range(n)]
    for op, begin, last, most_pes in _op_spans(launches, ops):
        times.append((begin, last))
        pes.append(most_pes)
        tracks.append(2)
        numbers.append(len(names))
        names.append(op.name)
    start, end = np.array(times, np.int64).reshape(-1, 2).T
    arguments = {"start_ps": start, "end_ps": end, "pes": np.array(pes, np.int64)}
    found = Slices(places, np.array(tracks, np.int64), start, end, np.array(numbers, np.int64), names, arguments)
    return without_overlap(found.where(np.argsort(found.track, kind="stable"))) if streams else found


def _op_spans(launches: Sequence[LaunchTimes], ops: Sequence[OpResult]) -> Iterator[tuple[OpResult, int, int, int]]:
    """Yields each of *ops* that lasts, with its begin, its end, and its most PEs."""
    free_ps = 0
    for op in ops:
        mine = launches[op.first_launch : op.end_launch]
        begin = max(free_ps, min((_ps(each.start_ns) for each in mine), default=0))
        last = max((_ps(each.end_ns) for each in mine), default=0)
        if last > begin:
            free_ps = last
            yield op, begin, last, max(each.pes for each in mine)


WAITS, RECEIPTS = "waits for other PEs", "messages"
"""The titles of the tracks of a kernel that talks to other PEs."""


def talk_slices(log: OpLog) -> list[Slices]:
    """Returns the waits of kernels for other PEs, then the messages that kernels took, as far as *log* has any."""
    found = wait_slices(log), message_slices(log)
    return [each for each in found if each is not None]


def wait_slices(log: OpLog) -> Slices | None:
    """Returns the waits of kernels that took time, each with its exact picoseconds; None for a log without waits.

    A slice has the name of its reason, the other PE and the kernel line.
    """
    waits, strings = log.tables.get("waits"), log.strings
    if waits is None:
        return None
    waits = waits[(waits["to_ps"] > waits["from_ps"]) & (waits["reason"] <= SyncReason.BARRIER)]
    waits = waits[np.lexsort((waits["to_ps"], waits["from_ps"], waits["pe"]))]
    texts = number_pairs(waits["reason"].astype(np.int64) * len(strings) + waits["other"], waits["line"])
    names = [
        f"{SyncReason(wait // len(strings)).name.lower()} of {strings[wait % len(strings)]} {strings[line]}"
        for wait, line in texts.found
    ]
    times = {"start_ps": waits["from_ps"], "end_ps": waits["to_ps"]}
    return _of_kernels(WAITS, waits["pe"], strings, times, (texts.number, names))


def message_slices(log: OpLog) -> Slices | None:
    """Returns the messages that kernels took; None for a log without messages.

    A message has no length: it stands where its kernel took it, with its bytes, its slot, and the times of its credit
    and its doorbell, and ends the flow of its send.
    """
    sends, strings = log.tables.get("sends"), log.strings
    if sends is None:
        return None
    sends = sends[sends["t_taken_ps"] >= 0]
    sends = sends[np.lexsort((sends["command_seq"], sends["t_taken_ps"], sends["dst"]))]
    texts = number_pairs(sends["tag"], sends["line_taken"])
    names = [f"{strings[tag]} {strings[line]}" for tag, line in texts.found]
    times = {"start_ps": sends["t_taken_ps"], "end_ps": sends["t_taken_ps"]}
    shown = {"command": "command_seq", "bytes": "nbytes", "slot": "slot"}
    shown |= {name: f"t_{name}" for name in ("credit_ps", "rung_ps", "taken_ps")}
    arguments = {name: sends[column] for name, column in shown.items()}
    slices = _of_kernels(RECEIPTS, sends["dst"], strings, times, (texts.number, names))
    return slices._replace(arguments=arguments, flow=-1 - sends["command_seq"])


def _of_kernels(
    title: str, pe: Ints, strings: Sequence[str], times: dict[str, Ints], name: tuple[Ints, list[str]]
) -> Slices:
    pes, track = np.unique(pe, return_inverse=True)
    places = [TrackPlace(strings[each], title) for each in pes.tolist()]
    return Slices(places, track.astype(np.int64), times["start_ps"], times["end_ps"], *name, times)


def with_flows(services: Slices, sends: Rows | None) -> Slices:
    """Returns *services* with a flow from the last service of each of *sends*, the row of a log's table, if any."""
    if sends is None:
        return services
    command = services.arguments["command"]
    rows = np.flatnonzero(np.isin(command, sends["command_seq"][sends["t_taken_ps"] >= 0]))
    rows = rows[np.lexsort((services.end_ps[rows], command[rows]))]
    last = rows[np.append(np.diff(command[rows]) != 0, True)[: len(rows)]]
    flow = np.zeros(len(command), np.int64)
    flow[last] = command[last] + 1
    return services._replace(flow=flow)


def whole_flows(tables: Sequence[Slices]) -> list[Slices]:
    """Returns *tables* without the flows that have only one end in them."""
    flows = np.concatenate([np.empty(0, np.int64), *(table.flow for table in tables if table.flow is not None)])
    whole = np.append(np.intersect1d(flows[flows > 0], -flows[flows < 0]), 0)
    return [
        table
        if table.flow is None
        else table._replace(flow=np.where(np.isin(np.abs(table.flow), whole), table.flow, 0))
        for table in tables
    ]


def _ps(ns: float) -> int:
    """Returns whole picoseconds: run.json has them divided by 1000, and the product is nearer than half a
    picosecond.
    """
    return round(ns * PS_PER_NS)
